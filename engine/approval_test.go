package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

var (
	lead  = call.Principal{ID: "lena", Kind: "user", Roles: []string{"lead"}, Auth: call.Auth{Method: "jwt", Issuer: "test"}}
	lead2 = call.Principal{ID: "luis", Kind: "user", Roles: []string{"lead"}, Auth: call.Auth{Method: "jwt", Issuer: "test"}}
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// asked makes the call and returns the id of the approval that it waits for.
func asked(t *testing.T, e *engine.Engine, c call.Call) string {
	t.Helper()
	_, err := e.Do(t.Context(), c)
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok || d.Code != call.CodeRequiresApproval || d.ApprovalID == "" || !errors.Is(err, engine.ErrPending) {
		t.Fatalf("Do = %v, want a pending approval", err)
	}
	return d.ApprovalID
}

func mustVote(t *testing.T, e *engine.Engine, id string, by call.Principal, deny bool) state.Approval {
	t.Helper()
	a, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: by, Deny: deny})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestApprovedCallRunsOnce(t *testing.T) {
	log, tool := &memory{}, &counted{}
	pending, err := state.OpenPending(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Policy: always(asking(oneLead)), Log: log, Salts: fixedSalts{}, Pending: pending, Tools: []engine.Tool{tool.tool()}}
	e := open(t, o)
	id := asked(t, e, echo("canary-argument"))
	if q, err := e.Approval(t.Context(), id); err != nil || string(q.Args) != `{"text":"canary-argument"}` || q.Requester.ID != "alice" || q.Standing != state.Open {
		t.Fatalf("Approval = %+v, %v", q, err)
	}
	e.Close()

	e = open(t, o) // the question outlives its process
	mustVote(t, e, id, lead, false)
	e.Close()
	e = open(t, o) // and so does the answer
	if id2 := asked(t, e, echo("other")); id2 == id {
		t.Error("a call with other arguments shares the approval")
	}
	if _, err := e.Do(t.Context(), echo("canary-argument")); err != nil {
		t.Fatalf("the approved call: %v", err)
	}
	if id2 := asked(t, e, echo("canary-argument")); id2 == id {
		t.Error("an approval was used twice")
	}
	if tool.count() != 1 {
		t.Errorf("ran %d times, want 1", tool.count())
	}
	if q, err := e.Approval(t.Context(), id); err != nil || q.Standing != state.Consumed || q.Args != nil {
		t.Errorf("the used approval: %+v, %v", q, err)
	}
	e.Close()
	for _, line := range log.records {
		if strings.Contains(string(line), "canary") {
			t.Errorf("a record holds the arguments: %s", line)
		}
	}
}

func TestApprovalIsForOneCall(t *testing.T) {
	var decision = asking(oneLead)
	p := policy(func(*call.Input) (call.Decision, error) { return decision, nil })
	tool := &counted{}
	e := open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
	mustVote(t, e, asked(t, e, echo("x")), lead, false)

	other := echo("x")
	other.Principal.ID = "bob"
	asked(t, e, other)
	for name, change := range map[string]func(*call.Principal){
		"other roles":            func(p *call.Principal) { p.Roles = []string{"admin"} },
		"another authentication": func(p *call.Principal) { p.Auth = call.Auth{Method: "mtls", Issuer: "ca"} },
		"somebody else's name":   func(p *call.Principal) { p.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user"}} },
	} {
		c := echo("x")
		change(&c.Principal)
		if _, err := e.Do(t.Context(), c); code(err) != call.CodeRequiresApproval {
			t.Errorf("with %s: %v", name, err)
		}
	}
	d := decision
	decision.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{TimeoutMS: 77}}}}
	asked(t, e, echo("x")) // other capabilities must be asked about again
	decision = d
	if _, err := e.Do(t.Context(), echo("x")); err != nil || tool.count() != 1 {
		t.Errorf("the approved call: %v, %d runs", err, tool.count())
	}
}

func TestVotes(t *testing.T) {
	log, tool := &memory{}, &counted{}
	two := call.ApprovalRule{Name: "two", Count: 2, From: call.From{Roles: []string{"lead"}, IDs: []string{"boss"}}}
	e := open(t, engine.Options{Policy: always(asking(two)), Log: log, Tools: []engine.Tool{tool.tool()}})
	c := echo("x")
	c.Principal.Roles = []string{"lead"} // the requester has the role and still may not
	c.Principal.OnBehalfOf = []call.Principal{{ID: "olga", Kind: "user", Roles: []string{"lead"}}}
	id := asked(t, e, c)
	records := len(log.decoded(t))

	olga := call.Principal{ID: "olga", Kind: "user", Roles: []string{"lead"}, Auth: lead.Auth}
	elsewhere := lead
	elsewhere.Tenant = "other"
	said := lead
	said.Auth = call.Auth{Method: "asserted"}
	agent := lead
	agent.Kind = "agent"
	requester := c.Principal
	requester.Auth, requester.OnBehalfOf = lead.Auth, nil
	for name, tt := range map[string]struct {
		by   call.Principal
		id   string
		want error
	}{
		"the requester":       {requester, id, state.ErrMayNotVote},
		"whom they act for":   {olga, id, state.ErrMayNotVote},
		"nobody asked":        {call.Principal{ID: "eve", Kind: "user", Auth: lead.Auth}, id, state.ErrMayNotVote},
		"of another tenant":   {elsewhere, id, state.ErrMayNotVote},
		"an agent":            {agent, id, state.ErrMayNotVote},
		"only asserted":       {said, id, engine.ErrAsserted},
		"an unknown approval": {lead, "ap-X", state.ErrNoApproval},
		"nobody":              {call.Principal{Auth: lead.Auth}, id, engine.ErrDenied},
	} {
		if _, err := e.Vote(t.Context(), engine.Vote{Approval: tt.id, By: tt.by}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if n := len(log.decoded(t)); n != records {
		t.Errorf("%d votes that do not count were recorded", n-records)
	}
	mustVote(t, e, id, lead, false)
	if a := mustVote(t, e, id, lead, false); a.Standing != state.Open {
		t.Errorf("one person counted twice: %s", a.Standing)
	}
	if n := len(log.decoded(t)); n != records+1 {
		t.Errorf("%d records of one vote", n-records)
	}
	if _, err := e.Do(t.Context(), c); code(err) != call.CodeRequiresApproval {
		t.Errorf("half approved: %v", err)
	}
	if a := mustVote(t, e, id, lead2, false); a.Standing != state.Approved {
		t.Errorf("two leads: %s", a.Standing)
	}
	if _, err := e.Do(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestDeniedAndExpired(t *testing.T) {
	now := newClock()
	rule := oneLead
	rule.TTL = 60
	log := &memory{}
	e := open(t, engine.Options{Policy: always(asking(rule)), Log: log, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}})
	id := asked(t, e, echo("x"))
	mustVote(t, e, id, lead, true)
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeApprovalDenied || !errors.Is(err, engine.ErrDenied) {
		t.Errorf("after a no: %v", err)
	}
	refusedWithout(t, log, call.CodeApprovalDenied)
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: lead2}); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("a yes after a no: %v", err)
	}
	now.add(time.Minute)
	id2 := asked(t, e, echo("x"))
	if id2 == id {
		t.Error("a denied approval stands for ever")
	}
	mustVote(t, e, id2, lead, false)
	now.add(time.Minute)
	if id3 := asked(t, e, echo("x")); id3 == id2 {
		t.Error("an approval outlived its time")
	}
}

// refusedWithout checks that the last record is a refusal with that code, which
// changed nothing.
func refusedWithout(t *testing.T, log *memory, want call.Code) {
	t.Helper()
	recs := log.decoded(t)
	if r := recs[len(recs)-1]; r.Type != call.TypeDecision || r.Verdict == call.Allow || r.Code != want || r.Change != nil {
		t.Errorf("the last record is %+v, want a refusal with %s", r, want)
	}
}

func TestRacersOnOneApproval(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Tools: []engine.Tool{tool.tool()}})
	id := asked(t, e, echo("x"))
	mustVote(t, e, id, lead, false)
	var mu sync.Mutex
	again := map[string]bool{}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			_, err := e.Do(t.Context(), echo("x"))
			if d, ok := errors.AsType[*engine.Denial](err); ok {
				mu.Lock()
				again[d.ApprovalID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if tool.count() != 1 {
		t.Errorf("%d of 64 racers ran, want exactly one", tool.count())
	}
	if len(again) != 1 || again[id] || again[""] {
		t.Errorf("the others wait for %v, want one new approval", again)
	}
}

// A yes counts when its record is durable, and not before; a no counts at once.
func TestVoteNeedsItsRecord(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Tools: []engine.Tool{tool.tool()}})
	id := asked(t, e, echo("x"))
	log.mu.Lock()
	log.fail = errors.New("disk full")
	log.mu.Unlock()
	if _, err := e.Vote(t.Context(), engine.Vote{Approval: id, By: lead}); code(err) != call.CodeLogUnavailable {
		t.Errorf("Vote = %v", err)
	}
	log.mu.Lock()
	log.fail = nil
	log.mu.Unlock()
	if q, err := e.Approval(t.Context(), id); err != nil || q.Standing != state.Open {
		t.Errorf("an unrecorded vote counts: %+v, %v", q, err)
	}
}

// failingPending cannot keep anything.
type failingPending struct{ engine.Pending }

func (failingPending) Put(string, []byte) error      { return errors.New("disk full") }
func (failingPending) Drop(string) error             { return nil }
func (failingPending) Sweep(func(string) bool) error { return nil }

func TestQuestionNeedsItsArguments(t *testing.T) {
	log := &memory{}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Pending: failingPending{}, Tools: []engine.Tool{(&counted{}).tool()}})
	for range 2 {
		if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeStateUnavailable {
			t.Errorf("Do = %v", err)
		}
	}
	if as, err := e.Approvals(t.Context()); err != nil || len(as) != 0 {
		t.Errorf("people are asked about what they cannot see: %+v, %v", as, err)
	}
	for _, r := range log.decoded(t) {
		if r.Change != nil {
			t.Errorf("the question is recorded: %+v", r)
		}
	}
}

// Arguments leave the disk when their question is over, also when nobody did
// anything about it.
func TestPendingArgumentsAreSwept(t *testing.T) {
	now := newClock()
	dir := t.TempDir()
	pending, err := state.OpenPending(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: &memory{}, Now: now.Now, Pending: pending, Tools: []engine.Tool{(&counted{}).tool()}})
	files := func() int {
		list, err := os.ReadDir(filepath.Join(dir, "pending"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	asked(t, e, echo("expires"))
	now.add(2 * time.Hour)
	asked(t, e, echo("is revoked"))
	if n := files(); n != 2 {
		t.Fatalf("%d files, want 2", n)
	}
	if _, err := e.Approvals(t.Context()); err != nil || files() != 1 {
		t.Errorf("an expired question's arguments stay: %d files, %v", files(), err)
	}
	if err := e.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil || files() != 0 {
		t.Errorf("a revoked question's arguments stay: %d files, %v", files(), err)
	}
}

func TestWait(t *testing.T) {
	now := newClock()
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: &memory{}, Now: now.Now, Tools: []engine.Tool{(&counted{}).tool()}})
	id := asked(t, e, echo("x"))
	done := make(chan error)
	go func() { _, err := e.Wait(context.Background(), id); done <- err }()
	mustVote(t, e, id, lead, false)
	if err := <-done; err != nil {
		t.Errorf("Wait = %v", err)
	}
	id = asked(t, e, echo("y"))
	go func() { _, err := e.Wait(context.Background(), id); done <- err }()
	mustVote(t, e, id, lead, true)
	if err := <-done; !errors.Is(err, engine.ErrNotApproved) {
		t.Errorf("Wait on a denied one = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Wait(ctx, asked(t, e, echo("z"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a context that ended = %v", err)
	}
	if _, err := e.Wait(t.Context(), "ap-X"); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("Wait for nothing = %v", err)
	}
	go func() { _, err := e.Wait(context.Background(), asked2(e)); done <- err }()
	e.Close()
	if err := <-done; err == nil {
		t.Error("Wait outlived its engine")
	}
}

// asked2 asks without a test to fail; "" when the engine is closed already.
func asked2(e *engine.Engine) string {
	_, err := e.Do(context.Background(), echo("w"))
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return d.ApprovalID
	}
	return ""
}

// They leave it in time, also when nobody looks.
func TestPendingArgumentsExpire(t *testing.T) {
	dir := t.TempDir()
	pending, err := state.OpenPending(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := func() int {
		list, err := os.ReadDir(filepath.Join(dir, "pending"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	synctest.Test(t, func(t *testing.T) {
		rule := oneLead
		p := policy(func(in *call.Input) (call.Decision, error) {
			rule.TTL = map[bool]int64{true: 60, false: 3600}[strings.Contains(string(in.Args.Bytes()), "short")]
			return asking(rule), nil
		})
		o := engine.Options{Policy: p, Log: &memory{}, Salts: fixedSalts{}, Pending: pending, DecideTimeout: time.Hour, Tools: []engine.Tool{(&counted{}).tool()}}
		e := open(t, o)
		for i, text := range []string{"long", "short", "another short", "another long"} {
			asked(t, e, echo(text))
			time.Sleep(time.Duration(i) * time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := files(); n != 2 {
			t.Errorf("after a minute: %d files, want 2", n)
		}
		e.Close()
		e = open(t, o) // whoever opens it next goes on with it
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := files(); n != 0 {
			t.Errorf("after an hour: %d files", n)
		}
		e.Close()
	})
}

// An engine that is closed knows less than the log says: it removes nothing on the
// strength of that.
func TestClosedEngineSweepsNothing(t *testing.T) {
	dir := t.TempDir()
	pending, err := state.OpenPending(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Policy: always(asking(oneLead)), Log: &memory{}, Pending: pending, Tools: []engine.Tool{(&counted{}).tool()}}
	old := open(t, o)
	old.Close()
	e := open(t, o)
	id := asked(t, e, echo("x"))
	if _, err := old.Approvals(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q, err := e.Approval(t.Context(), id); err != nil || string(q.Args) != `{"text":"x"}` {
		t.Errorf("Approval = %+v, %v", q, err)
	}
}

// Whoever panics while arguments are kept leaves no question and no lock behind.
func TestPendingThatPanics(t *testing.T) {
	log := &memory{}
	e := open(t, engine.Options{Policy: always(asking(oneLead)), Log: log, Pending: panickingPending{}, Tools: []engine.Tool{(&counted{}).tool()}})
	for range 2 {
		if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeInternal {
			t.Errorf("Do = %v", err)
		}
	}
	if list, err := e.Approvals(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("Approvals = %+v, %v", list, err)
	}
	refusedWithout(t, log, call.CodeInternal)
}

type panickingPending struct{ failingPending }

func (panickingPending) Put(string, []byte) error { panic("canary") }
