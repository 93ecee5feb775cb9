package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// turning is a policy that tests turn into another one.
type turning struct {
	mu sync.Mutex
	d  call.Decision
}

func (p *turning) policy() policy {
	return func(*call.Input) (call.Decision, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.d, nil
	}
}

func (p *turning) set(d call.Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.d = d
}

func revision(digest string, d call.Decision) call.Decision {
	d.Revisions = []call.Revision{{Name: "test", Digest: digest}}
	return d
}

// revised is a policy that asks, and is another one from the second call on.
func revised() policy {
	n := 0
	return func(*call.Input) (call.Decision, error) {
		n++
		return revision(fmt.Sprint("sha256:", min(n, 2)), asking(leads[0])), nil
	}
}

func (s *scene) approvedBefore() error {
	mustVote(s.t, s.e, asked(s.t, s.e, s.call), lead, false)
	return s.once()
}

func (s *scene) askedTooMuch() error {
	for i := range 32 {
		s.call.Args = fmt.Appendf(nil, `{"text":"%d"}`, i)
		asked(s.t, s.e, s.call)
	}
	s.call.Args = []byte(`{"text":"one more"}`)
	return s.once()
}

// What people approved under one policy does not run under another, not even after
// the first one is back; the record says what became void, and so does the next
// process.
func TestApprovalUnderAnotherPolicyIsStale(t *testing.T) {
	log, tool := &memory{}, &counted{}
	p := &turning{d: revision("sha256:1", asking(oneLead))}
	pending, err := state.OpenPending(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Policy: p.policy(), Log: log, Salts: fixedSalts{}, Pending: pending, Tools: []engine.Tool{tool.tool()}}
	e := open(t, o)
	old := asked(t, e, echo("x"))
	mustVote(t, e, old, lead, false)
	p.set(revision("sha256:2", asking(oneLead)))
	if x := explain(t, e, echo("x")); x.Code != call.CodeApprovalStale || x.Verdict != call.Ask {
		t.Errorf("Explain = %+v", x)
	}
	_, err = e.Do(t.Context(), echo("x"))
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok || d.Code != call.CodeApprovalStale || !errors.Is(err, engine.ErrPending) || d.ApprovalID == "" || d.ApprovalID == old {
		t.Fatalf("Do = %v", err)
	}
	if _, err := pending.Get(old); err == nil {
		t.Error("the arguments of the void approval are kept")
	}
	if _, err := pending.Get(d.ApprovalID); err != nil {
		t.Error(err)
	}
	recs := log.decoded(t)
	if r := recs[len(recs)-1]; r.Verdict != call.Ask || r.Change == nil || !cmp.Equal(r.Change.Voided, []string{old}) || r.Change.Asked.ID != d.ApprovalID {
		t.Errorf("record %+v", r)
	}
	if id := asked(t, e, echo("x")); id != d.ApprovalID {
		t.Errorf("told of %s and then of %s", d.ApprovalID, id)
	}
	e.Close()
	p.set(revision("sha256:1", asking(oneLead)))
	e = open(t, o)
	if id := asked(t, e, echo("x")); id == old {
		t.Error("the void approval is back")
	}
	if q, err := e.Approval(t.Context(), old); err != nil || q.Standing != state.Expired {
		t.Errorf("the void approval: %+v, %v", q, err)
	}
	p.set(revision("sha256:2", asking(oneLead)))
	mustVote(t, e, d.ApprovalID, lead, false)
	if _, err := e.Do(t.Context(), echo("x")); err != nil || tool.count() != 1 {
		t.Errorf("what was approved under the policy of now: %v, %d runs", err, tool.count())
	}
}

// A tool that is another one by now was not approved.
func TestApprovalOfAnotherToolIsStale(t *testing.T) {
	log := &memory{}
	o := engine.Options{Policy: always(asking(oneLead)), Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	mustVote(t, e, asked(t, e, echo("x")), lead, false)
	e.Close()
	other := &counted{}
	o.Tools = []engine.Tool{engine.Host(strings.Replace(echoManifest, "description: ", "description: another, ", 1), func(context.Context, *hostfx.Effects, echoArgs) (string, error) {
		other.runs++
		return "", nil
	})}
	e = open(t, o)
	if x := explain(t, e, echo("x")); x.Code != call.CodeApprovalStale {
		t.Errorf("Explain = %+v", x)
	}
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeApprovalStale || other.count() != 0 {
		t.Errorf("Do = %v, %d runs", err, other.count())
	}
}

// That the arguments of the new question cannot be kept saves nothing that is void.
func TestStaleIsRecordedWithoutAQuestion(t *testing.T) {
	log := &memory{}
	p := &turning{d: revision("sha256:1", asking(oneLead))}
	o := engine.Options{Policy: p.policy(), Log: log, Salts: fixedSalts{}, Tools: []engine.Tool{(&counted{}).tool()}}
	e := open(t, o)
	old := asked(t, e, echo("x"))
	mustVote(t, e, old, lead, false)
	e.Close()
	o.Pending = failingPending{}
	e = open(t, o)
	p.set(revision("sha256:2", asking(oneLead)))
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeStateUnavailable {
		t.Fatalf("Do = %v", err)
	}
	recs := log.decoded(t)
	if r := recs[len(recs)-1]; r.Change == nil || !cmp.Equal(r.Change, &call.Change{Voided: []string{old}}) {
		t.Errorf("record %+v", r)
	}
}

// At its use the whole road is gone again: whatever refuses the call then refuses it,
// approved or not, and the approval stays for when nothing does.
func TestApprovedCallGoesTheWholeRoad(t *testing.T) {
	log, tool := &memory{}, &counted{}
	now := newClock()
	within := func(ms int64) call.Decision {
		d := asking(oneLead)
		d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: ms}}}}
		return d
	}
	p := &turning{d: within(4000)}
	e := open(t, engine.Options{Policy: p.policy(), Log: log, Now: now.Now, Tools: []engine.Tool{tool.tool()}})
	id := asked(t, e, echo("x"))
	mustVote(t, e, id, lead, false)

	deny := within(4000)
	deny.Verdict, deny.Approvals = call.Deny, nil
	limited := within(4000)
	limited.Limits = []call.Limit{{Name: "l", Key: "k", Burst: 1, Cost: 2, Per: "1m"}}
	stricter := within(4000)
	stricter.Approvals = []call.ApprovalRule{oneLead, {Name: "sec", Count: 1, From: call.From{Roles: []string{"sec"}}}}
	for name, tt := range map[string]struct {
		d    call.Decision
		want call.Code
	}{
		"policy says no":      {deny, call.CodePolicyDenied},
		"a limit":             {limited, call.CodeRateLimited},
		"more people":         {stricter, call.CodeRequiresApproval},
		"wider capabilities":  {within(5000), call.CodeRequiresApproval},
		"other capabilities":  {within(3000), call.CodeRequiresApproval},
		"another policy only": {revision("sha256:other", deny), call.CodePolicyDenied},
	} {
		p.set(tt.d)
		if _, err := e.Do(t.Context(), echo("x")); code(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if q, err := e.Approval(t.Context(), id); err != nil || q.Standing != state.Approved {
			t.Errorf("%s: the approval is %+v, %v", name, q, err)
		}
	}
	if tool.count() != 0 {
		t.Fatalf("%d runs", tool.count())
	}
	p.set(within(4000))
	if _, err := e.Do(t.Context(), echo("x")); err != nil || tool.count() != 1 {
		t.Fatalf("Do = %v, %d runs", err, tool.count())
	}
	var approved, given *call.Caps
	for _, r := range log.decoded(t) {
		if r.Change != nil && r.Change.Asked != nil && r.Change.Asked.ID == id {
			approved = &r.Change.Asked.Caps
		}
		if r.Verdict == call.Allow {
			given = r.Caps
		}
	}
	if approved == nil || !cmp.Equal(approved, given) {
		t.Errorf("given %+v, approved was %+v", given, approved)
	}
}

// Sixty-four callers race for one approval, time and again: one runs each time.
func TestRacesForOneApproval(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Tools: []engine.Tool{tool.tool()}})
	for n := range 30 { // the store's own test does it a thousand times
		c := echo(fmt.Sprint(n))
		c.Principal.ID = fmt.Sprint("caller", n) // the others ask anew, and nobody may ask too much
		mustVote(t, e, asked(t, e, c), lead, false)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { _, _ = e.Do(t.Context(), c) })
		}
		wg.Wait()
		if tool.count() != n+1 {
			t.Fatalf("%d runs after %d races", tool.count(), n+1)
		}
	}
}
