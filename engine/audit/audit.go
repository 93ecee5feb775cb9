// Package audit is the log that makes a tool call count: an append-only file of
// records under a Merkle tree whose root is signed with every write.
//
// Most programs want [Open] with a data directory, [Log.Append] for each record
// and [Log.Replay] to get them back. [Verify] checks a directory offline.
//
// A record is durable, and under a signed checkpoint, before Append returns nil.
// Callers that append at the same time share one write and one fdatasync. The
// files are described in full in docs/record-format.md.
//
// # What the log does not protect
//
// Whoever can write the directory can cut the log back to one of its own older
// checkpoints, and whoever holds keys/log.key can rewrite it. Both can be seen
// only by someone else who remembers a newer checkpoint: see [Witness].
package audit

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// Errors a caller may test for with errors.Is.
var (
	// ErrTampered is what every [*TamperError] is.
	ErrTampered = errors.New("log tampered with")

	// ErrStopped says that a write went wrong earlier, so that nothing is
	// accepted any more. It wraps the cause. Only Open can tell what is in the log.
	ErrStopped = errors.New("log stopped")

	// ErrClosed says that [Log.Close] was called.
	ErrClosed = errors.New("log closed")

	// ErrNotRecord says that a record has not the form that the log keeps. Nothing
	// was written, and the log goes on.
	ErrNotRecord = errors.New("not a record")

	// ErrNoKey says that there is a log but not its key. No new key is made, since
	// that would look like a new log.
	ErrNoKey = errors.New("log has records but no key")
)

// A TamperError names the record at which the files stop being what was logged.
type TamperError struct {
	// Record is the index of the first record that is changed, missing or extra.
	Record int64

	// Last is the last one it could be. It is larger than Record when the hashes
	// beside the log are gone or do not fit, so that only the batch is known.
	Last int64

	Segment string // the file's name
	Reason  string
}

func (e *TamperError) Error() string {
	which := fmt.Sprintf("record %d", e.Record)
	if e.Last > e.Record {
		which = fmt.Sprintf("one of records %d to %d", e.Record, e.Last)
	}
	return fmt.Sprintf("%v: %s, in %s: %s", ErrTampered, which, e.Segment, e.Reason)
}

// Is makes every TamperError an [ErrTampered].
func (e *TamperError) Is(target error) bool { return target == ErrTampered }

// noSegments is for a log whose files are gone: it has a first segment before it
// has a key.
func noSegments() error {
	return &TamperError{Segment: firstSegment, Reason: "segment is missing"}
}

// Options configure a [Log]. Every field has a useful zero value.
type Options struct {
	// Origin names the log, for ever: it is the first line of every checkpoint
	// and the name of the key. Empty means the name that the key has, or for a
	// new log callgate.local/ and something random.
	Origin string

	// SegmentBytes is the size at which the next write starts a new segment.
	// Zero means 64 MiB.
	SegmentBytes int64

	// QueueLen bounds the records that wait for a write; [Log.Append] waits for a
	// place. Zero means 2,048.
	QueueLen int

	// Node is named in the records that the log writes itself.
	Node string

	// Now is the clock for the records that the log writes itself, and for what
	// witnesses say of the time. Nil means time.Now.
	Now func() time.Time

	// Witnesses remember checkpoints of the log, each outside of the reach of whoever can
	// write it. They are asked beside the writing, which never waits for them.
	Witnesses []Witness

	// Quorum is how many of them must have cosigned a record before it counts as
	// anchored. Zero means all.
	Quorum int

	// Every is how long after a cosignature the next one is asked for, if the log has
	// grown and nobody waits for it. What is newer than that can be cut off unseen.
	// Zero means a second.
	Every time.Duration

	// Strict has [Log.Hold] wait until a record is anchored.
	Strict bool

	// StrictTimeout bounds how long Hold waits. Zero means 10 s.
	StrictTimeout time.Duration

	// Alive is the silence after which a record of type [call.TypeAlive] is written if
	// there are witnesses: a log that nobody cosigns any more has ended, or was cut off
	// from them. Zero means a minute; negative means never.
	Alive time.Duration

	// Logger is told when a witness does not cosign, does again, or remembers another
	// log. The zero value writes nothing.
	Logger zerolog.Logger

	// Wrap is for tests: what it returns is written to in place of each segment,
	// so it can fail as disks do. Nil means the segment itself.
	Wrap func(File) File

	maxBatch int // records; tests compare with 1
}

// File is what the log needs of the segment it writes. An error, or a write that
// is short, stops the log.
type File interface {
	io.Writer
	Sync() error // MUST NOT return nil before everything written is durable
	io.Closer
}

func (o *Options) defaults() {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.QueueLen == 0 {
		o.QueueLen = 2048
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quorum == 0 {
		o.Quorum = len(o.Witnesses)
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.StrictTimeout == 0 {
		o.StrictTimeout = 10 * time.Second
	}
	if o.Alive == 0 {
		o.Alive = time.Minute
	}
	if o.Wrap == nil {
		o.Wrap = func(f File) File { return f }
	}
	if o.maxBatch == 0 {
		o.maxBatch = maxBatch
	}
}
