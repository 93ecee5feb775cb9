package engine_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// layered is an allow of two layers.
func layered(change func(*call.Decision)) policy {
	d := allow
	d.Revisions = []call.Revision{{Name: "org", Digest: "sha256:1", Role: "restrict"}, {Name: "team", Digest: "sha256:2"}}
	change(&d)
	return always(d)
}

// A limit of one layer is not that of another, whatever its name and key.
func TestLimitsOfLayers(t *testing.T) {
	limit := func(layer string, burst int64) call.Limit {
		return call.Limit{Layer: layer, Name: "n", Key: "k", Burst: burst, Per: "1h", Cost: 1}
	}
	tool := &counted{}
	log := &memory{}
	p := layered(func(d *call.Decision) { d.Limits = []call.Limit{limit("org", 2), limit("team", 3)} })
	o := engine.Options{Policy: p, Tools: []engine.Tool{tool.tool()}, Log: log, Salts: fixedSalts{}}
	e := open(t, o)
	for range 2 {
		if _, err := e.Do(t.Context(), echo("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := e.Do(t.Context(), echo("x"))
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok || d.Code != call.CodeRateLimited || d.Limited.Name != "org/n" || !strings.Contains(d.Error(), "limit org/n") {
		t.Fatalf("Do = %v", err)
	}
	x, err := e.Explain(t.Context(), echo("x"))
	if err != nil || len(x.Limits) != 2 || x.Limits[0].Name != "org/n" || x.Limits[1].Name != "team/n" {
		t.Errorf("Explain = %+v, %v", x, err)
	}
	keys := map[string]bool{}
	for _, r := range log.decoded(t) {
		if r.Change != nil {
			for k := range r.Change.TATs {
				keys[k] = true
			}
		}
	}
	if len(keys) != 2 || tool.count() != 2 {
		t.Errorf("%d buckets, %d runs", len(keys), tool.count())
	}
}

// Names with parts that could run into each other are different buckets.
func TestLimitIdentityIsUnambiguous(t *testing.T) {
	log := &memory{}
	p := layered(func(d *call.Decision) {
		for _, l := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "", "bc"}, {"a", "b\x00", "c"}, {"a", "b", "\x00c"}, {"a", `b"`, "c"}, {"a", "b", `"c`}, {"", "a", "bc"}} {
			d.Limits = append(d.Limits, call.Limit{Layer: l[0], Name: l[1], Key: l[2], Burst: 1, Per: "1h", Cost: 1})
		}
	})
	e := open(t, engine.Options{Policy: p, Tools: []engine.Tool{(&counted{}).tool()}, Log: log})
	if _, err := e.Do(t.Context(), echo("x")); err != nil {
		t.Fatal(err)
	}
	if got := len(log.decoded(t)[0].Change.TATs); got != 8 {
		t.Errorf("%d buckets, want 8", got)
	}
}

// An approval that one layer asked for does not answer what another asks, also
// after the engine was opened again.
func TestApprovalsOfLayers(t *testing.T) {
	rule := func(layer string) call.ApprovalRule {
		return call.ApprovalRule{Layer: layer, Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}
	}
	var asks []call.ApprovalRule
	p := policy(func(*call.Input) (call.Decision, error) {
		d := allow
		d.Verdict, d.Approvals = call.Ask, asks
		return d, nil
	})
	tool := &counted{}
	log := &memory{}
	o := engine.Options{Policy: p, Tools: []engine.Tool{tool.tool()}, Log: log, Salts: fixedSalts{}}
	pending := func(e *engine.Engine, code call.Code, asked ...call.ApprovalRule) string {
		t.Helper()
		asks = asked
		_, err := e.Do(t.Context(), echo("x"))
		d, ok := errors.AsType[*engine.Denial](err)
		if code == "" {
			if err != nil {
				t.Fatal(err)
			}
			return ""
		}
		if !ok || d.Code != code {
			t.Fatalf("Do = %v", err)
		}
		return d.ApprovalID
	}
	e := open(t, o)
	org := pending(e, call.CodeRequiresApproval, rule("org"))
	if again := pending(e, call.CodeRequiresApproval, rule("org")); again != org {
		t.Errorf("asked twice: %s, %s", org, again)
	}
	if team := pending(e, call.CodeRequiresApproval, rule("team")); team == org {
		t.Error("one question for two layers")
	}
	both := pending(e, call.CodeRequiresApproval, rule("org"), rule("team"))
	i := slices.IndexFunc(log.decoded(t), func(r call.Record) bool { return r.Change != nil && r.Change.Asked != nil && r.Change.Asked.ID == both })
	if rules := log.decoded(t)[i].Change.Asked.Rules; len(rules) != 2 || rules[0].Layer != "org" || rules[1].Layer != "team" {
		t.Errorf("recorded %+v", rules)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, o)
	mustVote(t, e, org, lead, false)
	if e.Close() != nil {
		t.Fatal("close")
	}
	e = open(t, o)
	if id := pending(e, call.CodeRequiresApproval, rule("team")); id == org {
		t.Error("the approval of one layer answers another")
	}
	pending(e, "", rule("org"))
	if tool.count() != 1 {
		t.Errorf("%d runs", tool.count())
	}
}

// A chain's decisions of one layer must agree on what has one identity.
func TestLayersInAChain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second string // the layer of the second principal's limit
		want   call.Code
	}{{"one identity, two bursts", "org", call.CodePolicyShape}, {"two identities", "team", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			p := policy(func(in *call.Input) (call.Decision, error) {
				d := allow
				d.Limits = []call.Limit{{Layer: "org", Name: "n", Key: "k", Burst: 5, Per: "1h", Cost: 1}}
				if in.Principal.ID != alice.ID {
					d.Limits = []call.Limit{{Layer: tt.second, Name: "n", Key: "k", Burst: 6, Per: "1h", Cost: 1}}
				}
				return d, nil
			})
			e := open(t, engine.Options{Policy: p, Tools: []engine.Tool{(&counted{}).tool()}, Log: &memory{}})
			c := echo("x")
			c.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user", Auth: call.Auth{Method: "asserted"}}}
			_, err := e.Do(t.Context(), c)
			if d, ok := errors.AsType[*engine.Denial](err); ok != (tt.want != "") || ok && d.Code != tt.want {
				t.Errorf("Do = %v, want %s", err, tt.want)
			}
		})
	}
}

// Whoever is refused, and whoever audits, sees which layer it was.
func TestDenialsNameTheLayer(t *testing.T) {
	log := &memory{}
	p := layered(func(d *call.Decision) {
		d.Verdict, d.Reasons = call.Deny, []call.Reason{{Layer: "org", Code: "frozen", Message: "not today"}, {Layer: "policy", Code: "plain"}}
	})
	e := open(t, engine.Options{Policy: p, Tools: []engine.Tool{(&counted{}).tool()}, Log: log})
	_, err := e.Do(t.Context(), echo("x"))
	if err == nil || !strings.Contains(err.Error(), "(org/frozen: not today, plain)") {
		t.Errorf("Do = %v", err)
	}
	r := log.decoded(t)[0]
	if want := []call.RecordReason{{Layer: "org", Code: "frozen"}, {Layer: "policy", Code: "plain"}}; !slices.Equal(r.Reasons, want) {
		t.Errorf("recorded %+v", r.Reasons)
	}
	if len(r.Policy) != 2 || r.Policy[0].Role != "restrict" {
		t.Errorf("decided by %+v", r.Policy)
	}
}

// A cap narrows what the manifest and the grants give, and is recorded as what is
// left.
func TestCapIsHonoured(t *testing.T) {
	const manifest = "name: echo\ndescription: x\nkind: host\nclass: read\ninput: {type: object, properties: {text: {type: string}}, additionalProperties: false}\ncaps: {secrets: [a, b], log: true, bounds: {timeout_ms: 5000}}\n"
	echoes := engine.Host(manifest, func(_ context.Context, _ *hostfx.Effects, in echoArgs) (string, error) { return in.Text, nil })
	no := false
	grants := []call.RuleGrant{{Caps: call.Caps{Secrets: []string{"a"}, Log: true}}, {Caps: call.Caps{Secrets: []string{"b"}, Bounds: call.Bounds{TimeoutMS: 900}}}}
	for name, tt := range map[string]struct {
		cap  *call.Cap
		want call.Caps
		code call.Code
	}{
		"none":       {nil, call.Caps{Secrets: []string{"a", "b"}, Log: true, Bounds: call.Bounds{TimeoutMS: 900}}, ""},
		"no opinion": {&call.Cap{}, call.Caps{Secrets: []string{"a", "b"}, Log: true, Bounds: call.Bounds{TimeoutMS: 900}}, ""},
		"narrower":   {&call.Cap{Secrets: []string{"b", "c"}, Log: &no, Bounds: call.Bounds{TimeoutMS: 50, Calls: 2}}, call.Caps{Secrets: []string{"b"}, Bounds: call.Bounds{TimeoutMS: 50, Calls: 2}}, ""},
		"nothing":    {&call.Cap{Secrets: []string{}, Log: &no}, call.Caps{Bounds: call.Bounds{TimeoutMS: 900}}, ""},
		"malformed":  {&call.Cap{Secrets: []string{"Not a name"}}, call.Caps{}, call.CodeCapsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			log := &memory{}
			p := layered(func(d *call.Decision) { d.Grants, d.Cap = grants, tt.cap })
			_, err := open(t, engine.Options{Policy: p, Tools: []engine.Tool{echoes}, Log: log}).Do(t.Context(), echo("x"))
			if d, ok := errors.AsType[*engine.Denial](err); ok != (tt.code != "") || ok && d.Code != tt.code {
				t.Fatalf("Do = %v", err)
			}
			if r := log.decoded(t)[0]; tt.code == "" && !reflect.DeepEqual(*r.Caps, tt.want) {
				t.Errorf("%+v, want %+v", *r.Caps, tt.want)
			}
		})
	}
}
