package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Snapshots is a [Log] that also keeps what its first records come to, so that a start
// has only the others to read. A snapshot is made of nothing but records, and says
// nothing that they do not: without it a start takes longer, and that is all.
type Snapshots interface {
	Log

	// Finished returns of how many records a snapshot can be kept, 0 for none, and a
	// channel that is closed when there are more.
	Finished() (size int64, grown <-chan struct{})

	// ReplayRange is Replay for the records from one size of the log to another, each
	// of which is 0 or one that Finished or LastSnapshot returned; a negative to is all
	// that is durable.
	ReplayRange(ctx context.Context, from, to int64, yield func(index int64, rec []byte) error) error

	// KeepSnapshot keeps what the first size records come to, durably.
	KeepSnapshot(size int64, state []byte) error

	// LastSnapshot returns the last one that was kept; size 0 for none. It MUST return
	// an error unless it can tell that exactly this was kept of exactly these records,
	// by somebody who could have written the records.
	LastSnapshot() (size int64, state []byte, err error)
}

// snapshotForm is the version of what snapshot holds and means.
const snapshotForm = 1

// snapshot is what the records up to some size come to.
type snapshot struct {
	Form       int           `json:"form"`
	At         time.Time     `json:"at"` // of the last record: what no longer mattered then is left out
	Epoch      int64         `json:"epoch"`
	EpochSince time.Time     `json:"epoch_since"`
	Open       []openCall    `json:"open"`
	Changes    []call.Change `json:"changes"` // in any order
}

// openCall is a decision without an outcome.
type openCall struct {
	Decision int64  `json:"decision"` // index
	Call     string `json:"call"`
}

// fold takes the whole log in, from its last snapshot on if there is one, and keeps
// the one that is due.
func (r *replay) fold(ctx context.Context) error {
	log, ok := r.e.o.Log.(Snapshots)
	if !ok || r.local == nil {
		return r.e.o.Log.Replay(ctx, r.record)
	}
	size, _ := log.Finished()
	if err := r.upTo(ctx, log, size); err != nil {
		return err
	}
	r.kept = size
	return log.ReplayRange(ctx, size, -1, r.record)
}

// upTo takes the first size records in. They have a snapshot then.
func (r *replay) upTo(ctx context.Context, log Snapshots, size int64) error {
	if size == 0 {
		return nil
	}
	from, err := r.restore(log, size)
	if err != nil {
		r.e.log.Warn().AnErr("cause", err).Msg("snapshot not used")
	}
	if from == size {
		return nil
	}
	if err := log.ReplayRange(ctx, from, size, r.record); err != nil {
		return err
	}
	if err := r.keep(log, size); err != nil {
		r.e.log.Warn().AnErr("cause", err).Msg("snapshot not kept")
	}
	return nil
}

// restore takes the last snapshot in, of at most size records, and returns of how many
// it is. After an error, and with 0, nothing was taken in.
func (r *replay) restore(log Snapshots, size int64) (int64, error) {
	from, b, err := log.LastSnapshot()
	if err != nil || from == 0 {
		return 0, err
	}
	var s snapshot
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil || s.Form != snapshotForm {
		return 0, fmt.Errorf("engine: snapshot of %d records: of another version", from)
	}
	if from > size {
		return 0, fmt.Errorf("engine: snapshot of %d records: too new", from)
	}
	if err := r.past(s.At); err != nil {
		return 0, err
	}
	for _, c := range s.Changes {
		r.local.Fold(c)
	}
	r.local.Forget(s.At)
	r.epochs.begin(s.Epoch, s.EpochSince)
	for _, o := range s.Open {
		r.open[o.Decision] = o.Call
	}
	return from, nil
}

// keep makes the snapshot of the first size records, which were taken in.
func (r *replay) keep(log Snapshots, size int64) error {
	if err := r.past(r.at); err != nil {
		return err
	}
	r.local.Forget(r.at)
	s := snapshot{Form: snapshotForm, At: r.at, Changes: r.local.Changes()}
	s.Epoch, s.EpochSince = r.epochs.last()
	for _, index := range slices.Sorted(maps.Keys(r.open)) {
		s.Open = append(s.Open, openCall{index, r.open[index]})
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := (*jsontext.Value)(&b).Canonicalize(); err != nil {
		return err
	}
	return log.KeepSnapshot(size, b)
}

// past refuses to leave out what no longer mattered at a time that is yet to come: the
// clock was set back, and it may matter again.
func (r *replay) past(at time.Time) error {
	if at.After(r.e.o.Now()) {
		return fmt.Errorf("engine: snapshot of %s: the clock is behind that", at)
	}
	return nil
}

// keepSnapshots keeps one whenever it is due, until the engine ends. What is under way
// has no part in it: each is made of the one before and the records since, which are
// read again.
func (e *Engine) keepSnapshots(log Snapshots, kept int64) {
	for {
		size, grown := log.Finished()
		if size > kept {
			if err := e.keepSnapshot(log, size); err != nil && e.stopped.Err() == nil {
				e.log.Warn().AnErr("cause", err).Msg("snapshot not kept")
			}
			kept = size // else with the next one, or by the next start
		}
		select {
		case <-grown:
		case <-e.stopped.Done():
			return
		}
	}
}

func (e *Engine) keepSnapshot(log Snapshots, size int64) (err error) {
	defer e.caught(&err)
	r := newReplay(e, &epochSeen{})
	r.local = state.NewLocal()
	return r.upTo(e.stopped, log, size)
}
