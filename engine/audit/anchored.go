package audit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// startWitnesses begins to ask, and to write when nothing happens.
func (l *Log) startWitnesses() {
	if l.witnesses == nil {
		return
	}
	l.witnesses.start()
	if l.alive != nil {
		l.alive.start()
	}
}

// newestCheckpoint is that of everything durable.
func (l *Log) newestCheckpoint() checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// progress is how many records are durable under a checkpoint, and how many are under one
// that others may have read already.
func (l *Log) progress() (newest, written int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest.size, l.written
}

// proof is that the log goes on from its first old records. The hash file is asked
// first; where it does not lead to the root, the records are.
func (l *Log) proof(ctx context.Context, cp checkpoint, old int64) (tlog.TreeProof, error) {
	walk := fromRecords(func(stored func(int64, []tlog.Hash) error) error {
		segs, err := segments(l.dir)
		if err != nil {
			return err
		}
		w := &walker{verifier: l.verifier, stop: cp.size, stored: stored}
		return w.walk(ctx, segs, ignore)
	})
	p, _, err := consistency(cp.size, cp.root, old, l.hashes, walk)
	return p, err
}

// Anchored returns how many records of the log enough witnesses have cosigned, and a
// channel that is closed when that may be no longer so.
func (l *Log) Anchored() (size int64, changed <-chan struct{}) {
	if l.witnesses == nil {
		return 0, nil
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	return l.witnesses.size, l.witnesses.changed
}

// Witnesses says how each witness stands.
func (l *Log) Witnesses() []WitnessStatus {
	if l.witnesses == nil {
		return nil
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	var out []WitnessStatus
	for _, w := range l.witnesses.all {
		out = append(out, w.status)
	}
	return out
}

// WaitAnchored waits until enough witnesses have cosigned the record at index, which is
// durable. They are asked at once.
//
// # Errors
//
// [ErrUnanchored], with the error of ctx; with [ErrForked], at once, while so many
// witnesses remember another log that the others are not enough; with [ErrClosed]; or
// alone when there are no witnesses.
func (l *Log) WaitAnchored(ctx context.Context, index int64) error {
	if l.witnesses == nil {
		return fmt.Errorf("audit: %w: there are none", ErrUnanchored)
	}
	for {
		size, changed := l.Anchored()
		if size > index {
			return nil
		}
		if err := l.witnesses.hopeless(); err != nil {
			return fmt.Errorf("audit: %w: %w", ErrUnanchored, err)
		}
		l.witnesses.hurry()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("audit: %w: %w", ErrUnanchored, ctx.Err())
		}
	}
}

// Hold is nil once what the record at index permits may happen: at once, or, with
// [Options.Strict], when enough witnesses have cosigned the record.
//
// # Errors
//
// As those of [Log.WaitAnchored], after [Options.StrictTimeout] at the latest.
func (l *Log) Hold(ctx context.Context, index int64) error {
	if !l.o.Strict {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.o.StrictTimeout)
	defer cancel()
	return l.WaitAnchored(ctx, index)
}

// hopeless says why waiting is of no use.
func (ws *witnesses) hopeless() error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.over {
		return ErrClosed
	}
	left := len(ws.all)
	for _, w := range ws.all {
		if errors.Is(w.status.Err, ErrForked) {
			left--
		}
	}
	if left < ws.l.o.Quorum {
		return ErrForked
	}
	return nil
}

// hurry has those asked that are behind, unless they are being asked or back off.
func (ws *witnesses) hurry() {
	for _, w := range ws.all {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}
