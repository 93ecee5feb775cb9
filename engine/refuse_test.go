package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// Every way in which the road refuses a call: the code, the class, the record,
// and nothing that ran.
func TestRefusals(t *testing.T) {
	deny := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "not_you", Message: "no", Rule: "r"}, {Code: "inner", Hidden: true}}}
	ask := call.Decision{Verdict: call.Ask, Approvals: []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}}
	boom := errors.New("boom")
	failing := func(err error) policy {
		return func(*call.Input) (call.Decision, error) { return call.Decision{}, err }
	}
	with := func(d call.Decision, change func(*call.Decision)) policy {
		change(&d)
		return always(d)
	}
	tests := []struct {
		name   string
		policy policy // nil: allow
		state  state.Store
		change func(*call.Call)
		want   call.Code
		is     error
	}{
		{name: "nobody", change: func(c *call.Call) { c.Principal = call.Principal{} }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a kind nobody knows", change: func(c *call.Call) { c.Principal.Kind = "root" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id with a space around it", change: func(c *call.Call) { c.Principal.ID = "alice " }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id in two spellings", change: func(c *call.Call) { c.Principal.ID = "rene\u0301e" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id with a line break", change: func(c *call.Call) { c.Principal.ID = "a\nb" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an id that is not text", change: func(c *call.Call) { c.Principal.ID = "\xff" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "too many roles", change: func(c *call.Call) { c.Principal.Roles = make([]string, 65) }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "claims without end", change: func(c *call.Call) {
			c.Principal.Claims = map[string]jsontext.Value{"x": jsontext.Value(`"` + strings.Repeat("x", 64<<10) + `"`)}
		}, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "an authentication nobody knows", change: func(c *call.Call) { c.Principal.Auth.Method = "magic" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a long chain", change: func(c *call.Call) { c.Principal.OnBehalfOf = make([]call.Principal, 9) }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a nested chain", change: func(c *call.Call) {
			c.Principal.OnBehalfOf = []call.Principal{{ID: "b", Kind: "user", OnBehalfOf: []call.Principal{alice}}}
		}, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "claims that are not JSON", change: func(c *call.Call) { c.Principal.Claims = map[string]jsontext.Value{"x": []byte("{")} }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "a session of nobody's", change: func(c *call.Call) { c.Session = "canary-invented" }, want: call.CodeSessionInvalid, is: engine.ErrDenied},
		{name: "a client with a line break", change: func(c *call.Call) { c.Client = "a\nb" }, want: call.CodePrincipalInvalid, is: engine.ErrDenied},
		{name: "too large", change: func(c *call.Call) { c.Args = []byte(`{"text":"` + strings.Repeat("x", call.MaxArgsBytes) + `"}`) }, want: call.CodeArgsTooLarge, is: engine.ErrDenied},
		{name: "an unknown tool in a session without end", change: func(c *call.Call) { c.Session, c.Tool = strings.Repeat("canary", 1<<19), "nothing" }, want: call.CodeToolUnknown, is: engine.ErrDenied},
		{name: "an unknown tool in a session that is not text", change: func(c *call.Call) { c.Session, c.Tool = "\xff", "nothing" }, want: call.CodeToolUnknown, is: engine.ErrDenied},
		{name: "duplicate keys in an invented session", change: func(c *call.Call) { c.Session, c.Args = "canary-session", []byte(`{"text":"a","text":"b"}`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "duplicate keys", change: func(c *call.Call) { c.Args = []byte(`{"text":"a","text":"b"}`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "not JSON", change: func(c *call.Call) { c.Args = []byte(`hello`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "not an object", change: func(c *call.Call) { c.Args = []byte(`[]`) }, want: call.CodeArgsInvalid, is: engine.ErrDenied},
		{name: "a number that no float64 holds", change: func(c *call.Call) { c.Args = []byte(`{"n":9007199254740993}`) }, want: call.CodeArgsInexact, is: engine.ErrDenied},
		{name: "asserted is no object", change: func(c *call.Call) { c.Asserted = []byte(`7`) }, want: call.CodeAssertedInvalid, is: engine.ErrDenied},
		{name: "asserted with another key", change: func(c *call.Call) { c.Asserted = []byte(`{"role":"admin"}`) }, want: call.CodeAssertedInvalid, is: engine.ErrDenied},
		{name: "an unknown tool", change: func(c *call.Call) { c.Tool = "canary-tool" }, want: call.CodeToolUnknown, is: engine.ErrDenied},
		{name: "a schema violation", change: func(c *call.Call) { c.Args = []byte(`{"text":7}`) }, want: call.CodeArgsSchema, is: engine.ErrDenied},
		{name: "an argument the schema does not know", change: func(c *call.Call) { c.Args = []byte(`{"more":1}`) }, want: call.CodeArgsSchema, is: engine.ErrDenied},

		{name: "denied", policy: always(deny), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "the zero decision", policy: always(call.Decision{}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "pass is no permit", policy: always(call.Decision{Verdict: call.Pass}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "a verdict nobody knows", policy: always(call.Decision{Verdict: "ALLOW"}), want: call.CodePolicyDenied, is: engine.ErrDenied},
		{name: "policy fails", policy: failing(boom), want: call.CodePolicyError, is: engine.ErrUnavailable},
		{name: "policy claims an operator's code", policy: failing(&call.Error{Code: call.CodeStateUnavailable, Err: errors.New("canary-cause")}), want: call.CodePolicyError, is: engine.ErrUnavailable},
		{name: "policy has no answer", policy: failing(&call.Error{Code: call.CodePolicyUndefined}), want: call.CodePolicyUndefined, is: engine.ErrUnavailable},
		{name: "policy panics", policy: func(*call.Input) (call.Decision, error) { panic("canary-panic") }, want: call.CodeInternal, is: engine.ErrUnavailable},
		{name: "allowed yet asking", policy: with(ask, func(d *call.Decision) { d.Verdict = call.Allow }), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "asking for nothing", policy: always(call.Decision{Verdict: call.Ask}), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "a limit without a time", policy: with(allow, func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Per: "soon"}} }), want: call.CodePolicyShape, is: engine.ErrUnavailable},
		{name: "an obligation nobody can honour", policy: with(allow, func(d *call.Decision) { d.Redact = call.Obligation{jsontext.Value(`[]`)} }), want: call.CodeObligationUnsupported, is: engine.ErrUnavailable},
		{name: "a result label nobody can add", policy: with(allow, func(d *call.Decision) { d.ResultLabels = []string{"x"} }), want: call.CodeObligationUnsupported, is: engine.ErrUnavailable},

		{name: "an approval is needed", policy: always(ask), want: call.CodeRequiresApproval, is: engine.ErrPending},
		{name: "over the limit", policy: with(allow, func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Cost: 2, Per: "1m"}} }), want: call.CodeRateLimited, is: engine.ErrDenied},
		{name: "the session keeps changing", state: brokenState{err: state.ErrSessionChanged}, want: call.CodeSessionChanged, is: engine.ErrUnavailable},
		{name: "the state cannot tell", state: brokenState{err: boom}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
		{name: "the state says nothing", state: brokenState{}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
		{name: "the session cannot be read", state: brokenState{sessionErr: boom}, want: call.CodeStateUnavailable, is: engine.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, tool := &memory{}, &counted{}
			if tt.policy == nil {
				tt.policy = always(allow)
			}
			var operator strings.Builder
			e := open(t, engine.Options{Policy: tt.policy, State: tt.state, Log: log, Logger: zerolog.New(&operator), Tools: []engine.Tool{tool.tool()}})
			c := echo("canary-argument")
			if tt.change != nil {
				tt.change(&c)
			}
			res, err := e.Do(t.Context(), c)
			var d *engine.Denial
			if res != nil || !errors.As(err, &d) {
				t.Fatalf("Do = %v, %v, want a denial", res, err)
			}
			if d.Code != tt.want || !errors.Is(err, tt.is) {
				t.Errorf("code %s, %v; want %s, %v", d.Code, err, tt.want, tt.is)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "inner") {
				t.Errorf("the error says too much: %v", err)
			}
			if n := tool.count(); n != 0 {
				t.Errorf("the tool ran %d times", n)
			}
			recs := log.decoded(t)
			if len(recs) != 1 || recs[0].Type != call.TypeDecision || recs[0].Code != tt.want || recs[0].Call != d.CallID || recs[0].Verdict == call.Allow {
				t.Fatalf("records %+v, want one refusal with code %s", recs, tt.want)
			}
			if d.Receipt.Index != 0 {
				t.Errorf("receipt %d, want 0", d.Receipt.Index)
			}
			if c := recs[0].Change; c != nil && len(c.TATs) > 0 {
				t.Errorf("the refused call was charged: %+v", c)
			}
			if s := operator.String(); !strings.Contains(s, d.CallID) || !strings.Contains(s, string(tt.want)) || strings.Contains(s, "canary") {
				t.Errorf("the operator's log: %s", s)
			}
			for _, line := range log.records {
				if strings.Contains(string(line), "canary") {
					t.Errorf("the record holds arguments or free text: %s", line)
				}
			}
		})
	}
}

// brokenState cannot tell, or says nothing.
type brokenState struct {
	state.Store
	err, sessionErr error
}

func (b brokenState) Session(context.Context, string, time.Time) (state.Session, error) {
	return state.Session{}, b.sessionErr
}
func (b brokenState) Admit(context.Context, state.Admission) (state.Answer, error) {
	return state.Answer{}, b.err
}
func (b brokenState) Settle(string, int64) {}

func TestReasonsWithoutHiddenOnes(t *testing.T) {
	d := call.Decision{Verdict: call.Deny, Reasons: []call.Reason{{Code: "shown", Message: "why"}, {Code: "inner", Hidden: true}}}
	log := &memory{}
	e := open(t, engine.Options{Policy: always(d), Log: log, Tools: []engine.Tool{(&counted{}).tool()}})
	_, err := e.Do(t.Context(), echo("x"))
	if want := "echo: policy_denied: policy says no (shown: why)"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	// The operator sees both in the record, without the text.
	if r := log.decoded(t)[0].Reasons; len(r) != 2 || r[1].Code != "inner" {
		t.Errorf("recorded reasons %+v", r)
	}
}
