package audit

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

const (
	snapshotsDir    = "snapshots"
	snapshotVersion = 1

	// maxSnapshotHead bounds the first line of a snapshot, in bytes.
	maxSnapshotHead = 4096
)

func snapshotPath(dir string, size int64) string {
	return filepath.Join(dir, snapshotsDir, fmt.Sprintf("%020d.snapshot", size))
}

// snapshotName is what a snapshot is called, and what a crash can leave of one.
var snapshotName = regexp.MustCompile(`^[0-9]{20}\.snapshot(\.new)?$`)

// snapshotHead is the first line of a snapshot. The state follows, to the end of the
// file.
type snapshotHead struct {
	Bytes   int64  `json:"bytes"` // of the state
	MAC     string `json:"mac"`
	Origin  string `json:"origin"`
	Root    string `json:"root"` // of the tree over the first Size records
	Size    int64  `json:"size"`
	Version int    `json:"version"`
}

// Finished returns how many records are in segments that are complete, 0 for none,
// and a channel that is closed when there are more.
func (l *Log) Finished() (size int64, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts[len(l.starts)-1].n, l.grown
}

// ReplayRange is [Log.Replay] for the records from one size of the log to another.
// Each is 0 or what Finished has returned, or of an earlier opening would have; a
// negative to is all that is durable.
func (l *Log) ReplayRange(ctx context.Context, from, to int64, yield func(index int64, rec []byte) error) error {
	l.mu.Lock()
	begin, end := l.start(from), l.durable
	if to >= 0 {
		t := l.start(to)
		if t == nil {
			begin = nil
		} else {
			end = mark{t.n, t.root()}
		}
	}
	l.mu.Unlock()
	if begin == nil || end.n < from {
		return fmt.Errorf("audit: records %d to %d do not begin and end with a segment", from, to)
	}
	return l.replay(ctx, *begin, end, yield)
}

// start is the tree before the segment whose first record has that index, nil if
// none has. The caller holds mu.
func (l *Log) start(first int64) *tree {
	i, ok := slices.BinarySearchFunc(l.starts, first, func(t tree, n int64) int { return int(min(max(t.n-n, -1), 1)) })
	if !ok {
		return nil
	}
	return &l.starts[i]
}

// KeepSnapshot keeps what the first size records come to, in place of any earlier
// snapshot. The size is one that Finished has returned. It is durable when
// KeepSnapshot returns nil; a crash before that leaves the earlier one, or both.
//
// Nobody can make a snapshot that [Log.LastSnapshot] believes without reading
// keys/log.key.
func (l *Log) KeepSnapshot(size int64, state []byte) error {
	head, err := l.headOf(size)
	if err != nil {
		return err
	}
	key, err := l.snapshotKey()
	if err != nil {
		return err
	}
	head.Bytes, head.MAC = int64(len(state)), head.mac(key, state)
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if err := makeDir(filepath.Join(l.dir, snapshotsDir)); err != nil {
		return err
	}
	if err := makeFile(snapshotPath(l.dir, size), slices.Concat(line, []byte{'\n'}, state)); err != nil {
		return err
	}
	return l.removeSnapshots(size)
}

// LastSnapshot returns the newest snapshot and how many records it covers; size 0
// when there is none.
//
// # Errors
//
// An error means that there is one which is not what [Log.KeepSnapshot] kept of
// exactly these records. The records say it all without it.
func (l *Log) LastSnapshot() (size int64, state []byte, err error) {
	names, err := l.snapshots()
	if err != nil || len(names) == 0 {
		return 0, nil, err
	}
	name := names[len(names)-1]
	if size, err = strconv.ParseInt(name[:20], 10, 64); err != nil {
		return 0, nil, fmt.Errorf("audit: %s: not the name of a snapshot", name)
	}
	want, err := l.headOf(size)
	if err != nil {
		return 0, nil, err
	}
	if state, err = l.readSnapshot(size, want); err != nil {
		return 0, nil, fmt.Errorf("audit: %s: %w", name, err)
	}
	return size, state, nil
}

// headOf is what the head of a snapshot of that size says, but for its state.
func (l *Log) headOf(size int64) (snapshotHead, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.start(size)
	if t == nil || size == 0 {
		return snapshotHead{}, fmt.Errorf("audit: a snapshot of %d records, where no segment ends", size)
	}
	return snapshotHead{Origin: l.Origin(), Root: t.root().String(), Size: size, Version: snapshotVersion}, nil
}

// readSnapshot believes nothing in the file before it has seen the key's mark on it.
func (l *Log) readSnapshot(size int64, want snapshotHead) ([]byte, error) {
	f, err := openRegular(snapshotPath(l.dir, size), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(f, maxSnapshotHead)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, errors.New("no head")
	}
	at := int64(len(line))
	var head snapshotHead
	if json.Unmarshal(line, &head, json.RejectUnknownMembers(true)) != nil {
		return nil, errors.New("the head is malformed")
	}
	want.Bytes, want.MAC = head.Bytes, head.MAC
	if head != want {
		return nil, errors.New("of another log, other records or another version")
	}
	if head.Bytes < 0 || info.Size()-at != head.Bytes {
		return nil, errors.New("not as long as it says")
	}
	state := make([]byte, head.Bytes)
	if _, err := io.ReadFull(r, state); err != nil {
		return nil, err
	}
	key, err := l.snapshotKey()
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(head.MAC), []byte(head.mac(key, state))) {
		return nil, errors.New("not made with the key of this log")
	}
	return state, nil
}

// mac is the key's mark on a snapshot.
func (h snapshotHead) mac(key, state []byte) string {
	m := hmac.New(sha256.New, key)
	for _, part := range [][]byte{[]byte(h.Origin), strconv.AppendInt(nil, h.Size, 10), []byte(h.Root), state} {
		m.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		m.Write(part)
	}
	return hex.EncodeToString(m.Sum(nil))
}

// snapshotKey is derived from log.key, which itself signs nothing but checkpoints.
func (l *Log) snapshotKey() ([]byte, error) {
	private, err := readPrivate(keyPath(l.dir), maxKeyBytes)
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, private)
	fmt.Fprintf(m, "callgate snapshot %d", snapshotVersion)
	return m.Sum(nil), nil
}

// snapshots lists the snapshots in order, without what a crash left of one.
func (l *Log) snapshots() ([]string, error) {
	names, err := l.snapshotFiles()
	return slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) == ".new" }), err
}

func (l *Log) snapshotFiles() ([]string, error) {
	dir := filepath.Join(l.dir, snapshotsDir)
	if err := checkDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if snapshotName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// removeSnapshots removes all snapshots but one.
func (l *Log) removeSnapshots(but int64) error {
	names, err := l.snapshotFiles()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if name != filepath.Base(snapshotPath("", but)) {
			errs = append(errs, os.Remove(filepath.Join(l.dir, snapshotsDir, name)))
		}
	}
	return errors.Join(errs...)
}
