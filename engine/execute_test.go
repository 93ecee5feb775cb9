package engine_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
)

// faulty is a store that outlives engines and can be made to fail.
type faulty struct {
	*state.Local
	mu                 sync.Mutex
	spendErr, epochErr error
}

func (f *faulty) Spend(ctx context.Context, s state.Spend) (call.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spendErr != nil {
		return call.Change{}, f.spendErr
	}
	return f.Local.Spend(ctx, s)
}

func (f *faulty) Epoch(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epochErr != nil {
		return 0, f.epochErr
	}
	return f.Local.Epoch(ctx)
}

// keysDown cannot tell.
type keysDown struct{}

func (keysDown) Key(context.Context, string) (ed25519.PublicKey, error) {
	return nil, errors.New("no answer")
}

// keysPanic is a defect.
type keysPanic struct{}

func (keysPanic) Key(context.Context, string) (ed25519.PublicKey, error) { panic("canary") }

func knowing(t *testing.T, k token.Keys) *engine.Grants {
	t.Helper()
	v, err := token.NewVerifier(token.Issuer{Name: "decider", Keys: k})
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Grants{Issuers: v, Audience: "runner"}
}

// Whatever is wrong with a grant, nothing runs, the log says why, and of a token that
// nobody vouches for the log holds nothing that it says.
func TestExecuteRefused(t *testing.T) {
	good := echo("x")
	whole := func(raw string) string { return raw }
	other := strings.Replace(echoManifest, "gives its text back", "gives it back", 1)
	echoed := func(context.Context, *hostfx.Effects, echoArgs) (string, error) { return "ran", nil }
	for _, tt := range []struct {
		name   string
		change func(*engine.Options) // of the executor
		token  func(raw string) string
		args   string        // "" for those of the call
		wait   time.Duration // before it comes
		want   call.Code
		known  bool // the issuer vouches for the token
	}{
		{name: "no token", token: func(string) string { return "" }, want: call.CodeGrantInvalid},
		{name: "not a token", token: func(string) string { return "canary" }, want: call.CodeGrantInvalid},
		{name: "cut", token: func(raw string) string { return raw[:len(raw)-1] }, want: call.CodeGrantInvalid},
		{name: "for another executor", change: func(o *engine.Options) { o.Grants.Audience = "another" }, token: whole, want: call.CodeGrantInvalid},
		{name: "over", token: whole, wait: 66 * time.Second, want: call.CodeGrantInvalid},
		{name: "to come", token: whole, wait: -6 * time.Second, want: call.CodeGrantInvalid},
		{name: "no issuers", change: func(o *engine.Options) { o.Grants = nil }, token: whole, want: call.CodeGrantUnavailable},
		{name: "issues only", change: func(o *engine.Options) { o.Grants = issuing(t) }, token: whole, want: call.CodeGrantUnavailable},
		{name: "keys that nobody can read", change: func(o *engine.Options) { o.Grants = knowing(t, keysDown{}) }, token: whole, want: call.CodeGrantUnavailable},
		{name: "a defect", change: func(o *engine.Options) { o.Grants = knowing(t, keysPanic{}) }, token: whole, want: call.CodeInternal},
		{name: "an unknown key", change: func(o *engine.Options) { o.Grants = knowing(t, token.Set{}) }, token: whole, want: call.CodeGrantInvalid},

		{name: "arguments that differ by a byte", token: whole, args: `{"text":"y"}`, want: call.CodeGrantInvalid, known: true},
		{name: "arguments that are none", token: whole, args: `{"text":`, want: call.CodeArgsInvalid, known: true},
		{name: "arguments of another schema", token: whole, args: `{"texts":"x"}`, want: call.CodeArgsSchema, known: true},
		{name: "arguments too large", token: whole, args: `{"text":"` + strings.Repeat("x", call.MaxArgsBytes) + `"}`, want: call.CodeArgsTooLarge, known: true},
		{name: "another version of the tool", change: func(o *engine.Options) { o.Tools = []engine.Tool{engine.Host(other, echoed)} }, token: whole, want: call.CodeGrantInvalid, known: true},
		{name: "no such tool", change: func(o *engine.Options) { o.Tools = []engine.Tool{engine.External(mailManifest)} }, token: whole, want: call.CodeToolUnknown, known: true},
		{name: "no key for its records", change: func(o *engine.Options) { o.Salts = brokenSalts{} }, token: whole, want: call.CodeStateUnavailable, known: true},
		{name: "the state is down", change: func(o *engine.Options) { o.State = &faulty{Local: state.NewLocal(), spendErr: errors.New("down")} }, token: whole, want: call.CodeStateUnavailable, known: true},
		{name: "the state cannot tell the epoch", change: func(o *engine.Options) { o.State = &faulty{Local: state.NewLocal(), epochErr: errors.New("down")} }, token: whole, want: call.CodeStateUnavailable, known: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := apart(t, func(_, r *engine.Options) {
				if tt.change != nil {
					tt.change(r)
				}
			})
			raw := tt.token(h.issue(good))
			h.clock.add(tt.wait)
			if tt.args == "" {
				tt.args = string(good.Args)
			}
			res, err := h.runner.Execute(t.Context(), raw, []byte(tt.args))
			if res != nil || code(err) != tt.want || h.tool.count() != 0 {
				t.Fatalf("Execute = %+v, %v; %d runs", res, err, h.tool.count())
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error quotes: %v", err)
			}
			recs := h.ran.decoded(t)
			if len(recs) != 1 || recs[0].Code != tt.want || recs[0].Verdict != call.Deny || recs[0].Caps != nil || recs[0].Change != nil {
				t.Fatalf("records %+v", recs)
			}
			if r := recs[0]; (r.Principal != nil) != tt.known || (r.Grant != nil) != tt.known || !tt.known && r.Tool.Name != "" {
				t.Errorf("recorded of the token: %+v", r)
			}
		})
	}
}

// brokenSalts has a key for nobody that is named.
type brokenSalts struct{}

func (brokenSalts) Key(string, time.Time) ([32]byte, error) { return [32]byte{}, errors.New("no key") }

// Whatever is revoked at the executor between issue and run does not run, whether
// the stores are one or two.
func TestRevokedBetween(t *testing.T) {
	bob := call.Principal{ID: "bob", Kind: "user", Tenant: "acme"}
	c := echo("x")
	c.Principal.OnBehalfOf = []call.Principal{bob}
	for name, r := range map[string]call.Revocation{
		"the principal":    {Principal: engine.PrincipalDigest(alice)},
		"whom it acts for": {Principal: engine.PrincipalDigest(bob)},
		"the tool":         {Tool: "echo"},
		"everything":       {Epoch: 1},
	} {
		t.Run(name+", two stores", func(t *testing.T) {
			h := apart(t, nil)
			raw := h.issue(c)
			if err := h.runner.Revoke(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			h.refused(raw, c, call.CodeRevoked)
		})
		t.Run(name+", one store", func(t *testing.T) {
			store := state.NewLocal()
			h := apart(t, func(d, r *engine.Options) { d.State, r.State, r.Grants = store, store, executing(t, true) })
			raw := h.issue(c)
			if err := h.decider.Revoke(t.Context(), r); err != nil { // where it was issued, or anywhere
				t.Fatal(err)
			}
			h.refused(raw, c, call.CodeRevoked)
		})
	}
}

// refused expects that the grant does not run.
func (h *halves) refused(raw string, c call.Call, want call.Code) {
	h.t.Helper()
	runs := h.tool.count()
	if _, err := h.execute(raw, c); code(err) != want || h.tool.count() != runs {
		h.t.Errorf("Execute = %v, want %s; %d runs", err, want, h.tool.count()-runs)
	}
}

func (h *halves) runs(raw string, c call.Call) {
	h.t.Helper()
	if _, err := h.execute(raw, c); err != nil {
		h.t.Errorf("Execute = %v", err)
	}
}

// Two stores count epochs of their own: which is higher says nothing, and all is
// void that was issued before everything was revoked at the executor.
func TestEpochsOfTwoStores(t *testing.T) {
	h := apart(t, nil)
	c := echo("x")
	for range 3 {
		if err := h.decider.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	h.runs(h.issue(c), c) // of a higher epoch
	raw := h.issue(c)
	for range 5 {
		if err := h.runner.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	h.refused(raw, c, call.CodeRevoked)
	h.clock.add(5 * time.Second)
	h.refused(h.issue(c), c, call.CodeRevoked) // the issuer's clock may be ahead
	h.clock.add(time.Second)
	h.runs(h.issue(c), c) // of a lower epoch

	h.runner.Close()
	old := h.issue(c)
	if err := func() error { // revoked, and opened again
		e := open(t, h.runners)
		defer e.Close()
		return e.Revoke(t.Context(), call.Revocation{Epoch: 1})
	}(); err != nil {
		t.Fatal(err)
	}
	h.runner = open(t, h.runners)
	h.refused(old, c, call.CodeRevoked)
	h.clock.add(6 * time.Second)
	h.runs(h.issue(c), c)
}

// An epoch that another process began in the executors' store counts from when it
// is seen, and the log remembers that.
func TestEpochOfAnotherExecutor(t *testing.T) {
	store := state.NewLocal()
	h := apart(t, func(_, r *engine.Options) { r.State = store })
	c := echo("x")
	raw := h.issue(c)
	if _, err := store.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(10 * time.Second)
	h.refused(raw, c, call.CodeRevoked)
	h.refused(h.issue(c), c, call.CodeRevoked)
	h.clock.add(6 * time.Second)
	raw = h.issue(c)
	h.runner.Close()
	if recs := h.ran.decoded(t); recs[0].Type != call.TypeRevoke || recs[0].Change.Revoked.Epoch != 1 || len(recs) != 3 {
		t.Errorf("records %+v", recs)
	}
	h.runner = open(t, h.runners) // which knows since when
	h.runs(raw, c)
}

// An executor that dies leaves no grant that runs twice.
func TestExecutorKilled(t *testing.T) {
	c := echo("x")
	t.Run("between spend and record, the store stays", func(t *testing.T) {
		h := apart(t, func(_, r *engine.Options) { r.State = &faulty{Local: state.NewLocal()} })
		raw := h.issue(c)
		h.ran.fail = errors.New("killed")
		h.refused(raw, c, call.CodeLogUnavailable)
		h.ran.fail = nil
		h.runner = open(t, h.runners)
		h.refused(raw, c, call.CodeGrantSpent)
	})
	t.Run("between spend and record, the store is the log", func(t *testing.T) {
		h := apart(t, nil)
		raw := h.issue(c)
		h.ran.fail = errors.New("killed")
		h.refused(raw, c, call.CodeLogUnavailable)
		h.ran.fail = nil
		h.refused(raw, c, call.CodeLogUnavailable) // this engine has stopped
		h.runner = open(t, h.runners)
		h.runs(raw, c) // nothing ran before, and nobody can know of it
		h.refused(raw, c, call.CodeGrantSpent)
	})
	t.Run("before the outcome", func(t *testing.T) {
		h := apart(t, nil)
		raw := h.issue(c)
		h.runs(raw, c)
		h.runner.Close()
		h.ran.records = h.ran.records[:1]
		h.runner = open(t, h.runners)
		if recs := h.ran.decoded(t); len(recs) != 2 || recs[1].Code != call.CodeUnfinished {
			t.Errorf("records %+v", recs)
		}
		h.refused(raw, c, call.CodeGrantSpent)
	})
}

// Facts are written back on both sides, so either spelling of a URL is the one that
// was decided on.
func TestExecuteDerivesFacts(t *testing.T) {
	fetched := ""
	fetch := func() engine.Tool {
		return engine.Host(fetchManifest, func(_ context.Context, _ *hostfx.Effects, in map[string]string) (string, error) {
			fetched = in["url"]
			return "ran", nil
		})
	}
	h := apart(t, func(d, r *engine.Options) { d.Tools, r.Tools = []engine.Tool{fetch()}, []engine.Tool{fetch()} })
	for _, url := range []string{"https://API.example.com:443/", "https://api.example.com/"} {
		c := call.Call{Principal: alice, Tool: "fetch", Args: []byte(`{"url":"https://API.example.com:443/"}`)}
		raw := h.issue(c)
		c.Args = []byte(`{"url":"` + url + `"}`)
		h.runs(raw, c)
		if fetched != "https://api.example.com/" {
			t.Errorf("fetched %q", fetched)
		}
	}
}

// What the executor has and the issuer has not is not given: caps only meet.
func TestExecuteNeverWidens(t *testing.T) {
	caps := call.Caps{}
	look := func() engine.Tool {
		return engine.Host(countManifest, func(_ context.Context, fx *hostfx.Effects, _ map[string]string) (string, error) {
			caps = fx.Grant().Caps()
			return "ran", nil
		})
	}
	host := newScene(t, "word-count").docs()
	h := apart(t, func(d, r *engine.Options) {
		d.Tools, r.Tools, r.Host = []engine.Tool{look()}, []engine.Tool{look()}, host
		d.Now, r.Now = nil, nil // as the host's clock
	})
	c := call.Call{Principal: alice, Tool: "word-count", Args: []byte(`{"path":"/docs/x"}`)}
	h.runs(h.issue(c), c)
	if len(caps.FS) != 0 {
		t.Errorf("caps %+v", caps)
	}
}
