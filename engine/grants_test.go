package engine_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/token"
)

var (
	grantKey    = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))
	grantPublic = grantKey.Public().(ed25519.PublicKey)
	grantKeys   = token.Set{token.Thumbprint(grantPublic): grantPublic}
)

// issuing is what an engine that issues has.
func issuing(t testing.TB) *engine.Grants {
	t.Helper()
	s, err := token.NewSigner(grantKey)
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Grants{Signer: s, Issuer: "decider", Origin: "example.com/decider"}
}

// executing is what an engine that runs grants of that issuer has.
func executing(t testing.TB, sharesState bool) *engine.Grants {
	t.Helper()
	v, err := token.NewVerifier(token.Issuer{Name: "decider", Keys: grantKeys, SharesState: sharesState})
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Grants{Issuers: v, Audience: "runner"}
}

// halves is an engine that decides and another that runs.
type halves struct {
	t                 *testing.T
	clock             *clock
	decider, runner   *engine.Engine
	decided, ran      *memory
	tool              *counted
	deciders, runners engine.Options
}

// apart opens both. What change does to their options comes before.
func apart(t *testing.T, change func(decider, runner *engine.Options)) *halves {
	t.Helper()
	h := &halves{t: t, clock: newClock(), decided: &memory{}, ran: &memory{}, tool: &counted{}}
	h.deciders = engine.Options{
		Node: "d", Policy: always(allow), Log: h.decided, Now: h.clock.Now, Tools: []engine.Tool{(&counted{}).tool()}, Grants: issuing(t), Salts: fixedSalts{},
	}
	never := policy(func(*call.Input) (call.Decision, error) {
		t.Error("the executor asks its policy")
		return call.Decision{}, nil
	})
	h.runners = engine.Options{
		Node: "r", Policy: never, Log: h.ran, Now: h.clock.Now, Tools: []engine.Tool{h.tool.tool()}, Grants: executing(t, false), Salts: fixedSalts{},
	}
	if change != nil {
		change(&h.deciders, &h.runners)
	}
	h.decider, h.runner = open(t, h.deciders), open(t, h.runners)
	return h
}

func (h *halves) issue(c call.Call) string {
	h.t.Helper()
	raw, err := h.decider.Issue(h.t.Context(), c, "runner")
	if err != nil {
		h.t.Fatal(err)
	}
	return raw
}

func (h *halves) execute(raw string, c call.Call) (*engine.Result, error) {
	return h.runner.Execute(h.t.Context(), raw, c.Args)
}

func TestIssueAndExecute(t *testing.T) {
	ceiling := call.Caps{Bounds: call.Bounds{TimeoutMS: 5000, OutputBytes: 1 << 20, LogBytes: 100}}
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{Bounds: call.Bounds{OutputBytes: 500}}}}
	h := apart(t, func(decider, runner *engine.Options) { decider.Policy, runner.Ceiling = always(d), &ceiling })
	c := echo("hello")
	c.Principal.Auth = call.Auth{Method: "mtls", Issuer: "internal"}
	c.Principal.OnBehalfOf = []call.Principal{{ID: "bob", Kind: "user", Tenant: "acme", Auth: call.Auth{Method: "jwt", Issuer: "idp"}}}
	raw := h.issue(c)
	res, err := h.execute(raw, c)
	if err != nil || string(res.Output) != `"hello"` || h.tool.count() != 1 {
		t.Fatalf("Execute = %+v, %v", res, err)
	}
	h.decider.Close()
	h.runner.Close()

	there, here := h.decided.decoded(t), h.ran.decoded(t)
	if len(there) != 1 || len(here) != 2 {
		t.Fatalf("%d records there, %d here", len(there), len(here))
	}
	grant := there[0].Grant
	if want := (&call.RecordGrant{ID: grant.ID, Issuer: "decider", Audience: "runner", Expires: h.clock.Now().Add(time.Minute), Issued: true}); !cmp.Equal(want, grant) || grant.ID == "" {
		t.Errorf("the issuer's record: %s", cmp.Diff(want, grant))
	}
	ran, out := here[0], here[1]
	want := *grant
	want.Issued = false
	if !cmp.Equal(&want, ran.Grant) || ran.Verdict != call.Allow || ran.Code != "" || ran.Session != "" {
		t.Errorf("the executor's record %+v: %s", ran, cmp.Diff(&want, ran.Grant))
	}
	for what, diff := range map[string]string{
		"principal": cmp.Diff(there[0].Principal, ran.Principal), "policy": cmp.Diff(there[0].Policy, ran.Policy), "tool": cmp.Diff(there[0].Tool, ran.Tool),
		"caps":   cmp.Diff(&call.Caps{Bounds: call.Bounds{TimeoutMS: 5000, OutputBytes: 500, LogBytes: 100}}, ran.Caps),
		"change": cmp.Diff(&call.Change{Spent: []call.Spent{{ID: call.Digest([]byte("decider\x00" + grant.ID)), Expires: grant.Expires.Add(token.Skew)}}}, ran.Change),
	} {
		if diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if out.Type != call.TypeOutcome || out.Code != call.CodeOK || *out.Decision != 0 || out.Call != res.CallID {
		t.Errorf("the outcome: %+v", out)
	}

	// A grant that was issued has its outcome elsewhere; one that ran has it here.
	open(t, h.deciders)
	h.runner = open(t, h.runners)
	if n, m := len(h.decided.decoded(t)), len(h.ran.decoded(t)); n != 1 || m != 2 {
		t.Errorf("opening again adds records: %d, %d", n, m)
	}
	if _, err := h.execute(raw, c); code(err) != call.CodeGrantSpent || h.tool.count() != 1 {
		t.Errorf("after opening again: %v, %d runs", err, h.tool.count())
	}
}

// What a token says is what was decided.
func TestIssuedClaims(t *testing.T) {
	h := apart(t, func(decider, _ *engine.Options) {
		decider.Policy, decider.Grants.TTL = always(asking(oneLead)), 10*time.Second
		decider.State = state.NewLocal()
	})
	if err := h.decider.Revoke(t.Context(), call.Revocation{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := h.decider.Issue(t.Context(), echo("x"), "runner")
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok || d.Code != call.CodeRequiresApproval {
		t.Fatalf("Issue = %v", err)
	}
	mustVote(t, h.decider, d.ApprovalID, lead, false)
	raw := h.issue(echo("x"))
	p, err := token.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Verify(grantPublic)
	if err != nil {
		t.Fatal(err)
	}
	recs := h.decided.decoded(t)
	at := h.clock.Now().Unix()
	want := token.Claims{
		Issuer: "decider", Audience: "runner", Subject: "alice", ID: recs[len(recs)-1].Grant.ID, IssuedAt: at, NotBefore: at, Expires: at + 10,
		Principal: *recs[len(recs)-1].Principal, Tool: token.Tool{Name: "echo", Digest: h.tool.digest(t)}, Args: call.Digest([]byte(`{"text":"x"}`)),
		Caps: *recs[len(recs)-1].Caps, Policy: recs[len(recs)-1].Policy, Approvals: []string{d.ApprovalID},
		Decision: recs[len(recs)-1].Call, Log: token.Place{Origin: "example.com/decider", Index: int64(len(recs) - 1)}, Epoch: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := h.decider.Issue(t.Context(), echo("x"), "runner"); code(err) != call.CodeRequiresApproval {
		t.Errorf("one approval, two grants: %v", err)
	}
}

// The arguments are those that were decided on, whoever wrote them and how.
func TestGrantsBindArguments(t *testing.T) {
	h := apart(t, nil)
	c := echo("hello")
	raw := h.issue(c)
	for _, other := range []string{`{"text":"hellp"}`, `{"text":"hello","n":0}`, `{"text":"hello "}`, `{}`, ``} {
		if _, err := h.runner.Execute(t.Context(), raw, []byte(other)); code(err) != call.CodeGrantInvalid {
			t.Errorf("%s: %v", other, err)
		}
	}
	if h.tool.count() != 0 {
		t.Fatal("ran")
	}
	if _, err := h.runner.Execute(t.Context(), raw, []byte(" { \"text\" : \"h\\u0065llo\" } ")); err != nil {
		t.Errorf("the same in another spelling: %v", err)
	}
}

func TestIssueRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*engine.Options)
		call   call.Call
		aud    string
		want   call.Code
	}{
		{"no key", func(o *engine.Options) { o.Grants = nil }, echo("x"), "runner", call.CodeGrantUnavailable},
		{"no key, but issuers", func(o *engine.Options) { o.Grants = executing(t, false) }, echo("x"), "runner", call.CodeGrantUnavailable},
		{"for nobody", nil, echo("x"), "", call.CodeRequestInvalid},
		{"for nobody that can be read", nil, echo("x"), "a\nb", call.CodeRequestInvalid},
		{"a tool that its caller runs", func(o *engine.Options) { o.Tools = append(o.Tools, engine.External(mailManifest)) }, mail("bob"), "runner", call.CodeToolKind},
		{"an unknown tool", nil, call.Call{Principal: alice, Tool: "nothing"}, "runner", call.CodeToolUnknown},
		{"policy says no", func(o *engine.Options) { o.Policy = always(call.Decision{}) }, echo("x"), "runner", call.CodePolicyDenied},
		{"the state is down", func(o *engine.Options) { o.State = &faulty{Local: state.NewLocal(), epochErr: errors.New("down")} }, echo("x"), "runner", call.CodeStateUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := apart(t, func(d, _ *engine.Options) {
				if tt.change != nil {
					tt.change(d)
				}
			})
			raw, err := h.decider.Issue(t.Context(), tt.call, tt.aud)
			if raw != "" || code(err) != tt.want {
				t.Errorf("Issue = %q, %v", raw, err)
			}
			if recs := h.decided.decoded(t); len(recs) != 1 || recs[0].Code != tt.want || recs[0].Grant != nil {
				t.Errorf("records %+v", recs)
			}
		})
	}
}

// signing is a key service in trouble.
type signing func(context.Context, token.Claims) (string, error)

func (s signing) Sign(ctx context.Context, c token.Claims) (string, error) { return s(ctx, c) }

// What could not be signed did not start, and the log says so.
func TestIssueUnsigned(t *testing.T) {
	for name, tt := range map[string]struct {
		signer signing
	}{
		"an error": {func(context.Context, token.Claims) (string, error) { return "", errors.New("service down") }},
		"a panic":  {func(context.Context, token.Claims) (string, error) { panic("canary") }},
	} {
		t.Run(name, func(t *testing.T) {
			h := apart(t, func(d, _ *engine.Options) { d.Grants.Signer = tt.signer })
			if raw, err := h.decider.Issue(t.Context(), echo("x"), "runner"); raw != "" || code(err) != call.CodeGrantUnavailable || !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("Issue = %q, %v", raw, err)
			}
			h.decider.Close()
			recs := h.decided.decoded(t)
			if len(recs) != 2 || recs[1].Code != call.CodeGrantUnavailable || recs[1].Outcome.Status != call.NotStarted {
				t.Errorf("records %+v", recs)
			}
		})
	}
}

func TestGrantsOptions(t *testing.T) {
	for name, g := range map[string]*engine.Grants{
		"no issuer":     {Signer: signing(nil)},
		"no audience":   {Issuers: executing(t, false).Issuers},
		"too long":      {TTL: 2 * time.Minute},
		"too short":     {TTL: time.Millisecond},
		"negative":      {TTL: -time.Second},
		"a bad origin":  {Origin: "a\nb"},
		"a long issuer": {Signer: signing(nil), Issuer: strings.Repeat("x", 257)},
	} {
		if _, err := engine.New(engine.Options{Policy: always(allow), Log: &memory{}, Tools: []engine.Tool{(&counted{}).tool()}, Grants: g}); err == nil {
			t.Errorf("%s: New is fine", name)
		}
	}
}

// The token stands in no log, and neither do arguments.
func TestGrantsAreNotLogged(t *testing.T) {
	var lines strings.Builder
	h := apart(t, func(d, r *engine.Options) { d.Logger, r.Logger = zerolog.New(&lines), zerolog.New(&lines) })
	c := echo("canary-argument")
	raw := h.issue(c)
	_, _ = h.runner.Execute(t.Context(), raw, []byte(`{"text":"canary-other"}`))
	_, _ = h.runner.Execute(t.Context(), raw[:len(raw)-2], c.Args)
	if _, err := h.execute(raw, c); err != nil {
		t.Fatal(err)
	}
	_, _ = h.execute(raw, c)
	h.runner.Close()
	all := lines.String()
	for _, m := range []*memory{h.decided, h.ran} {
		for _, r := range m.records {
			all += string(r)
		}
	}
	parts := append(strings.Split(raw, "."), "canary")
	if i := slices.IndexFunc(parts, func(s string) bool { return strings.Contains(all, s) }); i >= 0 {
		t.Errorf("part %d of the token, or an argument, in %s", i, all)
	}
	if n := strings.Count(lines.String(), "\n"); n != 5 {
		t.Errorf("%d lines for 5 calls: %s", n, lines.String())
	}
}

// Sixty-four racers with one grant: one runs.
func TestRacersOnOneGrant(t *testing.T) {
	h := apart(t, nil)
	c := echo("x")
	raw := h.issue(c)
	codes := make([]call.Code, 64)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			_, err := h.execute(raw, c)
			codes[i] = code(err)
			if err != nil && codes[i] == "" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(codes)
	if codes[0] != "" || slices.ContainsFunc(codes[1:], func(c call.Code) bool { return c != call.CodeGrantSpent }) || h.tool.count() != 1 {
		t.Errorf("%d runs, codes %v", h.tool.count(), codes)
	}
	h.runner.Close()
	if recs := h.ran.decoded(t); len(recs) != 65 {
		t.Errorf("%d records", len(recs))
	}
}
