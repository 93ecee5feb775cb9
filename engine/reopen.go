package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// reopen brings state and log together and closes what was left open.
func (e *Engine) reopen(ctx context.Context) error {
	r := newReplay(e, &e.epochs)
	lasting, err := r.begin(ctx)
	if err != nil {
		return fmt.Errorf("engine: state: %w", err)
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
	if lasting != nil {
		r.recovery.Lost = r.last > r.mark.Index // later than all that the state remembers
		for _, id := range slices.Sorted(maps.Keys(r.sessions)) {
			r.recovery.Sessions = append(r.recovery.Sessions, r.sessions[id])
		}
		if r.released, err = lasting.Recover(ctx, r.recovery); err != nil {
			return fmt.Errorf("engine: state: %w", err)
		}
	}
	if err := e.sweep(ctx); err != nil {
		return fmt.Errorf("engine: pending arguments: %w", err)
	}
	if err := r.finish(); err != nil {
		return err
	}
	if err := e.recordWaivers(); err != nil {
		return err
	}
	if log, ok := e.o.Log.(Snapshots); ok && r.local != nil {
		e.wg.Go(func() { e.keepSnapshots(log, r.kept) })
	}
	return nil
}

// replay is what a start learns from the log.
type replay struct {
	e        *Engine
	local    *state.Local     // nil: the state is not folded from this log
	open     map[int64]string // index of a decision without an outcome -> call
	epochs   *epochSeen
	at       time.Time // of the last record
	kept     int64     // records that have a snapshot, if one could be kept
	mark     state.Mark
	said     map[string]bool // calls of mark.Open -> the log says already that nothing ran
	last     int64           // index of the newest call that was admitted, and is not in mark.Open; -1 for none
	recovery state.Recovery
	released []string
	sessions map[string]call.SessionChange // with what they hold; nil: nobody asks
}

func newReplay(e *Engine, epochs *epochSeen) *replay {
	return &replay{e: e, open: map[int64]string{}, epochs: epochs}
}

// begin asks the state what it knows of this log. A nil store outlives nothing.
func (r *replay) begin(ctx context.Context) (lasting state.Lasting, err error) {
	if r.e.o.State == nil {
		r.local = state.NewLocal()
		r.e.o.State = r.local
	}
	lasting, ok := r.e.o.State.(state.Lasting)
	if !ok {
		return nil, nil
	}
	if r.mark, err = lasting.Begin(ctx); err != nil {
		return nil, err
	}
	r.last, r.recovery.Recorded, r.said, r.sessions = -1, map[string]int64{}, map[string]bool{}, map[string]call.SessionChange{}
	for _, id := range r.mark.Open {
		r.said[id] = false
	}
	return lasting, nil
}

// record takes one record of the log in.
func (r *replay) record(index int64, line []byte) error {
	rec, err := call.DecodeRecord(line)
	if err != nil {
		return fmt.Errorf("engine: record %d: %w", index, err)
	}
	r.recovery.Size, r.at = index+1, rec.Time
	if rec.Change != nil {
		if r.local != nil {
			r.local.Fold(*rec.Change)
		}
		if revoked := rec.Change.Revoked; revoked != nil {
			r.epochs.begin(revoked.Epoch, rec.Time)
			r.recovery.Revoked = append(r.recovery.Revoked, *revoked)
		}
		if r.sessions != nil && rec.Change.Session != nil {
			r.told(*rec.Change.Session)
		}
	}
	switch {
	case rec.Type == call.TypeDecision && rec.Code == "":
		r.admitted(index, rec)
		if rec.Grant == nil || !rec.Grant.Issued {
			r.open[index] = rec.Call
		}
	case rec.Type == call.TypeOutcome && rec.Decision != nil:
		delete(r.open, *rec.Decision)
	default:
		if _, ok := r.said[rec.Call]; ok {
			r.said[rec.Call] = true
		}
	}
	return nil
}

// told keeps of a session what has not ended: its labels, its plan, and that its owner
// ended it.
func (r *replay) told(c call.SessionChange) {
	now := r.e.o.Now().UnixNano()
	maps.DeleteFunc(c.Labels, func(_ string, end int64) bool { return end <= now })
	if c.PlanUntil <= now {
		c.Plan, c.PlanVersion, c.PlanUntil = nil, 0, 0
	}
	if c.Ended = c.Ended && (c.Until == 0 || now < c.Until); len(c.Labels) == 0 && c.PlanUntil == 0 && !c.Ended {
		return
	}
	is := r.sessions[c.ID]
	is.ID = c.ID
	is.Merge(c)
	r.sessions[c.ID] = is
}

// admitted is a decision to allow. Those whose grant came from another engine were
// admitted there.
func (r *replay) admitted(index int64, rec call.Record) {
	if _, ok := r.said[rec.Call]; ok {
		r.recovery.Recorded[rec.Call] = index
	} else if rec.Grant == nil || rec.Grant.Issued {
		r.last = index
	}
}

// finish records what the log lacks.
func (r *replay) finish() error {
	rec := call.Record{Type: call.TypeOutcome, Time: r.e.o.Now().UTC(), Node: r.e.o.Node}
	for _, index := range slices.Sorted(maps.Keys(r.open)) {
		rec.Call, rec.Code, rec.Decision, rec.Outcome = r.open[index], call.CodeUnfinished, &index, &call.RecordOutcome{Status: call.Unfinished}
		if err := r.e.appendRecord(rec); err != nil {
			return fmt.Errorf("engine: recording unfinished calls: %w", err)
		}
	}
	for _, id := range slices.Sorted(slices.Values(r.released)) {
		if r.said[id] {
			continue // it is recorded as refused
		}
		rec.Call, rec.Code, rec.Decision, rec.Outcome = id, call.CodeAdmittedUnrecorded, nil, &call.RecordOutcome{Status: call.NotStarted}
		if err := r.e.appendRecord(rec); err != nil {
			return fmt.Errorf("engine: recording calls that were given back: %w", err)
		}
	}
	return nil
}

// recordWaivers records what the state goes without, if there is anything.
func (e *Engine) recordWaivers() error {
	w, ok := e.o.State.(state.Waiving)
	if !ok {
		return nil
	}
	waived := w.Waived()
	if len(waived) == 0 {
		return nil
	}
	if err := e.appendRecord(call.Record{Type: call.TypeWaiver, Time: e.o.Now().UTC(), Node: e.o.Node, Waived: waived}); err != nil {
		return fmt.Errorf("engine: recording what is waived: %w", err)
	}
	return nil
}
