package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/internal/question"
)

// Forget drops what no answer that is asked for at now, or up to an hour earlier,
// depends on. Answers about a time before that are errors from then on.
func (l *Local) Forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now.Add(-question.KeepEnded))
}

// Changes are fewer than those that were folded into l, and their fold is the same. l
// MUST hold nothing but what was folded, or the record of something may be missing.
func (l *Local) Changes() []call.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := call.Change{TATs: maps.Clone(l.tats), Used: maps.Clone(l.used)}
	for _, id := range slices.Sorted(maps.Keys(l.spent)) {
		all.Spent = append(all.Spent, call.Spent{ID: id, Expires: l.spent[id]})
	}
	if l.epoch != 0 {
		all.Revoked = &call.Revocation{Epoch: l.epoch}
	}
	var out []call.Change
	if !all.IsZero() {
		out = append(out, all)
	}
	for _, of := range slices.Sorted(maps.Keys(l.revoked)) {
		r := call.Revocation{}
		if name, ok := strings.CutPrefix(of, "p"); ok {
			r.Principal = name
		} else {
			r.Tool = of[len("t"):]
		}
		out = append(out, call.Change{Revoked: &r})
	}
	for _, id := range slices.Sorted(maps.Keys(l.sessions)) {
		c := l.sessions[id].SessionChange
		c.Labels = maps.Clone(c.Labels)
		out = append(out, call.Change{Session: &c})
	}
	for _, id := range slices.Sorted(maps.Keys(l.approvals)) {
		q := l.approvals[id]
		c := call.Change{Asked: q.Asked}
		if q.Consumed {
			c.Consumed = []string{id}
		}
		if q.Void {
			c.Voided = []string{id}
		}
		if !c.IsZero() {
			out = append(out, c)
		}
		for _, v := range q.Votes {
			out = append(out, call.Change{Voted: &v})
		}
	}
	return out
}
