package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// panicking is a part that panics from a call on.
type panicking struct {
	calls, from int
}

func (p *panicking) Key(string, time.Time) ([32]byte, error) {
	if p.calls++; p.calls > p.from {
		panic("canary in a panic")
	}
	return [32]byte{1}, nil
}

func (p *panicking) Install(context.Context, string, []byte) error { return nil }

func (p *panicking) Run(context.Context, string, call.Args, *hostfx.Effects) ([]byte, call.Outcome) {
	panic("canary in a panic")
}

// Whatever panics, the caller gets a refusal or a failed run, and the engine says
// at its end which records are missing.
func TestPanicsStayInside(t *testing.T) {
	for name, salts := range map[string]*panicking{"at the decision's record": {}, "at the outcome's record": {from: 1}} {
		t.Run(name, func(t *testing.T) {
			log := &memory{}
			tool := &counted{fn: func(_ context.Context, fx *hostfx.Effects, _ echoArgs) (string, error) {
				_, err := fx.ReadFile("/nothing/here") // a refused effect, whose target needs a key
				return "", err
			}}
			e := open(t, engine.Options{Policy: always(allow), Log: log, Salts: salts, Tools: []engine.Tool{tool.tool()}})
			if _, err := e.Do(t.Context(), echo("x")); err == nil {
				t.Error("Do succeeded")
			}
			if err := e.Close(); err == nil {
				t.Error("Close says that all is well")
			}
		})
	}
	t.Run("in the sandbox", func(t *testing.T) {
		log := &memory{}
		e := open(t, engine.Options{Policy: always(allow), Log: log, Guests: &panicking{}, Tools: []engine.Tool{engine.Wasm(guestTool(t, "echo", "{type: object, additionalProperties: false}"))}})
		_, err := e.Do(t.Context(), call.Call{Principal: alice, Tool: "echo"})
		te, ok := errors.AsType[*engine.ToolError](err)
		if !ok || te.Result.Outcome.Code != call.CodeInternal {
			t.Errorf("Do = %v", err)
		}
		e.Close()
		if recs := log.decoded(t); len(recs) != 2 || recs[1].Code != call.CodeInternal {
			t.Errorf("records %+v", recs)
		}
	})
}

// What a failed record leaves in memory must not count for anybody: the engine
// takes no further call, even when the log would.
func TestFailedRecordStopsTheEngine(t *testing.T) {
	log, tool := &memory{}, &counted{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool.tool()}})
	log.fail = errors.New("once")
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeLogUnavailable {
		t.Errorf("Do = %v", err)
	}
	log.fail = nil
	if _, err := e.Do(t.Context(), echo("x")); code(err) != call.CodeLogUnavailable || tool.count() != 0 {
		t.Errorf("Do after a failed record = %v, %d runs", err, tool.count())
	}
	if err := e.Close(); err == nil {
		t.Error("Close says that all is well")
	}
}

func code(err error) call.Code {
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return d.Code
	}
	return ""
}

func TestHostToolsThatMisbehave(t *testing.T) {
	t.Run("ends its goroutine", func(t *testing.T) {
		tool := &counted{fn: func(context.Context, *hostfx.Effects, echoArgs) (string, error) { runtime.Goexit(); return "", nil }}
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{tool.tool()}})
		_, err := e.Do(t.Context(), echo("x"))
		if te, ok := errors.AsType[*engine.ToolError](err); !ok || te.Result.Outcome.Code != call.CodeInternal {
			t.Errorf("Do = %v", err)
		}
	})
	t.Run("takes less than its schema", func(t *testing.T) {
		narrow := engine.Host(echoManifest, func(context.Context, *hostfx.Effects, struct{}) (string, error) { return "ran", nil })
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{narrow}})
		_, err := e.Do(t.Context(), echo("x"))
		if te, ok := errors.AsType[*engine.ToolError](err); !ok || te.Result.Outcome.Code != call.CodeToolError {
			t.Errorf("Do = %v", err)
		}
	})
	t.Run("waits while the engine closes", func(t *testing.T) {
		started := make(chan struct{})
		tool := &counted{fn: func(ctx context.Context, _ *hostfx.Effects, _ echoArgs) (string, error) {
			close(started)
			<-ctx.Done()
			return "", ctx.Err()
		}}
		log := &memory{}
		e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{tool.tool()}})
		done := make(chan error)
		go func() { _, err := e.Do(context.Background(), echo("x")); done <- err }()
		<-started
		e.Close()
		if te, ok := errors.AsType[*engine.ToolError](<-done); !ok || te.Result.Outcome.Code != call.CodeCancelled {
			t.Errorf("the tool was not stopped: %v", te)
		}
		if recs := log.decoded(t); len(recs) != 2 {
			t.Errorf("Close did not wait for the outcome: %+v", recs)
		}
	})
}

// A caller that changes its principal while policy looks cannot be recorded as
// somebody else.
func TestPrincipalIsCopied(t *testing.T) {
	c := echo("x")
	c.Principal.Roles = []string{"admin"}
	log := &memory{}
	p := policy(func(in *call.Input) (call.Decision, error) {
		c.Principal.Roles[0] = "nobody"
		if in.Principal.Roles[0] != "admin" {
			return call.Decision{}, nil
		}
		return allow, nil
	})
	e := open(t, engine.Options{Policy: p, Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	if _, err := e.Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if r := log.decoded(t)[0].Principal.Roles[0]; r != "admin" {
		t.Errorf("recorded as %s", r)
	}
}

func TestUnstatedAuthIsAsserted(t *testing.T) {
	c := echo("x")
	c.Principal.Auth = call.Auth{}
	log := &memory{}
	var seen string
	p := policy(func(in *call.Input) (call.Decision, error) { seen = in.Principal.Auth.Method; return allow, nil })
	e := open(t, engine.Options{Policy: p, Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	if _, err := e.Do(t.Context(), c); err != nil || seen != "asserted" || log.decoded(t)[0].Principal.Auth.Method != "asserted" {
		t.Errorf("policy saw %q, %v", seen, err)
	}
}

func TestCeilingMeets(t *testing.T) {
	log := &memory{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Ceiling: &call.Caps{Bounds: call.Bounds{TimeoutMS: 5000, OutputBytes: 1000, MemoryBytes: 77}}, Tools: []engine.Tool{(&counted{}).tool()}})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if got := log.decoded(t)[0].Caps.Bounds.MemoryBytes; got != 77 {
		t.Errorf("memory_bytes %d, want the ceiling's 77", got)
	}
}

// The strictest of a chain decides, in whatever order; one limit cannot mean two
// things.
func TestChainMeets(t *testing.T) {
	limit := call.Limit{Name: "l", Key: "k", Burst: 5, Per: "1m", Cost: 1}
	other := limit
	other.Burst = 9
	with := func(l call.Limit) call.Decision { d := allow; d.Limits = []call.Limit{l}; return d }
	otherLead := oneLead
	otherLead.Count = 2
	tests := []struct {
		name          string
		first, second call.Decision
		want          call.Code
	}{
		{"deny, then ask", call.Decision{Verdict: call.Deny}, asking(oneLead), call.CodePolicyDenied},
		{"ask, then deny", asking(oneLead), call.Decision{Verdict: call.Deny}, call.CodePolicyDenied},
		{"ask, then allow", asking(oneLead), allow, call.CodeRequiresApproval},
		{"allow, then ask", allow, asking(oneLead), call.CodeRequiresApproval},
		{"the same limit", with(limit), with(limit), ""},
		{"another limit of that name", with(limit), with(other), call.CodePolicyShape},
		{"another approval of that name", asking(oneLead), asking(otherLead), call.CodePolicyShape},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policy(func(in *call.Input) (call.Decision, error) {
				if in.Principal.ID == "alice" {
					return tt.first, nil
				}
				return tt.second, nil
			})
			e := open(t, engine.Options{Policy: p, Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}})
			c := echo("x")
			c.Principal.OnBehalfOf = []call.Principal{{ID: "bob", Kind: "user"}}
			if _, err := e.Do(t.Context(), c); code(err) != tt.want {
				t.Errorf("Do = %v, want %q", err, tt.want)
			}
		})
	}
}

var oneLead = call.ApprovalRule{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}

func asking(rules ...call.ApprovalRule) call.Decision {
	return call.Decision{Verdict: call.Ask, Approvals: rules, Revisions: allow.Revisions}
}

// Once policy has answered, the caller may go away without leaving the books open.
func TestAdmissionOutlivesTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen error
	s := &leaving{Store: state.NewLocal(), cancel: cancel, seen: &seen}
	log := &memory{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, State: s, Tools: []engine.Tool{(&counted{}).tool()}})
	e.Do(ctx, echo("x"))
	if seen != nil {
		t.Errorf("the store saw %v", seen)
	}
	e.Close()
	if recs := log.decoded(t); len(recs) != 2 {
		t.Errorf("records %+v", recs)
	}
}

type leaving struct {
	state.Store
	cancel func()
	seen   *error
}

func (l *leaving) Admit(ctx context.Context, a state.Admission) (state.Answer, error) {
	l.cancel()
	*l.seen = ctx.Err()
	return l.Store.Admit(ctx, a)
}

// A record holds digests where an argument could stand: paths, names of limits,
// names of tools. A host tool reads through its effects like a guest.
func TestRecordsHoldDigests(t *testing.T) {
	r := newReal(t)
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}}}
	d.Limits = []call.Limit{{Name: "canary-limit", Key: "canary-key", Burst: 5, Per: "1m"}}
	r.o.Policy = always(d)
	var text []byte
	manifest := strings.Replace(echoManifest, "caps:\n", "facts: none\ncaps:\n  fs: [{root: docs, path: ., modes: [read]}]\n", 1)
	r.o.Tools = []engine.Tool{engine.Host(manifest, func(_ context.Context, fx *hostfx.Effects, in echoArgs) (int, error) {
		var err error
		text, err = fx.ReadFile(in.Text)
		return len(text), err
	})}
	e := open(t, r.o)
	res, err := e.Do(t.Context(), echo("/docs/welcome.txt"))
	if err != nil || !strings.Contains(string(text), "Welcome") {
		t.Fatalf("Do = %v, read %q", err, text)
	}
	if fx := res.Effects(); len(fx) != 1 || fx[0].Target != "/docs/welcome.txt" || fx[0].Code != "ok" {
		t.Errorf("effects %+v", fx)
	}
	c := echo("x")
	c.Tool = "canary-tool"
	if _, err := e.Do(t.Context(), c); code(err) != call.CodeToolUnknown || strings.Contains(err.Error(), "canary") {
		t.Errorf("Do = %v", err)
	}
	e.Close()
	for _, rec := range r.records(t) {
		line, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"/docs/welcome", "Welcome", "canary"} {
			if strings.Contains(string(line), word) {
				t.Errorf("a record holds %q: %s", word, line)
			}
		}
	}
}

// Decisions that are each within their limits and too large together are refused,
// and stop nobody else.
func TestChainTooLarge(t *testing.T) {
	p := policy(func(in *call.Input) (call.Decision, error) {
		if len(in.Principal.ID) == 1 {
			rule := call.ApprovalRule{Name: "of-" + in.Principal.ID, Count: 1}
			for range 64 {
				rule.From.Roles = append(rule.From.Roles, strings.Repeat("x", 512))
			}
			d := asking()
			for i := range 8 {
				r := rule
				r.Name += strings.Repeat("i", i)
				d.Approvals = append(d.Approvals, r)
			}
			return d, nil
		}
		return allow, nil
	})
	log := &memory{}
	e := open(t, engine.Options{Policy: p, Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	c := echo("x")
	for _, id := range []string{"a", "b", "c", "d"} {
		c.Principal.OnBehalfOf = append(c.Principal.OnBehalfOf, call.Principal{ID: id, Kind: "user"})
	}
	if _, err := e.Do(t.Context(), c); code(err) != call.CodePolicyShape {
		t.Errorf("Do = %v", err)
	}
	if n := len(log.records[0]); n > 1<<20 {
		t.Errorf("a record of %d bytes", n)
	}
	c.Principal.OnBehalfOf = nil
	if _, err := e.Do(t.Context(), c); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestRevocationsAreText(t *testing.T) {
	log := &memory{}
	e := open(t, engine.Options{Policy: always(allow), Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	for _, r := range []call.Revocation{{Tool: "\xff"}, {}, {Principal: "alice"}, {Epoch: -1}} {
		if err := e.Revoke(t.Context(), r); err == nil || len(log.records) > 0 {
			t.Errorf("Revoke(%+v) = %v, %d records", r, err, len(log.records))
		}
	}
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
