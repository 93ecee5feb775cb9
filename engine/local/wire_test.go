package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// sent is a as the other side gets it.
func sent[T any](t testing.TB, a T) (out T) {
	t.Helper()
	line, err := encode(a)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.IndexByte(line, '\n') != len(line)-1 {
		t.Fatalf("not one line: %q", line)
	}
	if err := decode(line, &out); err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	return out
}

var sample = &engine.Result{
	CallID: "C", Output: []byte{0, 0xff, '\n'}, Receipt: engine.Receipt{Index: 7},
	Outcome: call.Outcome{
		Status: call.Failed, Code: call.CodeFuelExhausted, Exit: 3, Fuel: math.MaxInt64, MemoryBytes: 1 << 60, MemoryRefused: true,
		Took: 1<<62 + 1, Stderr: []byte("\xfe said\n"),
		Effects: []call.Effect{{Kind: "fs.read", Within: "docs", Target: "/docs/a", Code: "ok", Address: "192.0.2.1:443", BytesIn: 1<<53 + 1, BytesOut: 1<<53 + 3, TookUS: 1, Enforcement: "structural"}},
	},
}

func TestErrorsCross(t *testing.T) {
	tests := []struct {
		name string
		err  error
		is   []error
	}{
		{"a denial", &engine.Denial{
			CallID: "C", Tool: "wipe", Code: call.CodeRateLimited, ApprovalID: "ap-A", RetryAfter: 1<<62 + 1, Receipt: engine.Receipt{Index: -1},
			Detail: "at /n", Reasons: []call.Reason{{Code: "a", Message: "b\n", Rule: "c", Remedy: "d"}},
			Limited: &state.Limited{Name: "n", Limit: 1 << 60, Remaining: 1, RetryAfter: 1<<62 + 1},
		}, []error{engine.ErrDenied}},
		{"a pending denial", &engine.Denial{Tool: "wipe", Code: call.CodeRequiresApproval}, []error{engine.ErrPending}},
		{"a tool's error", &engine.ToolError{Tool: "spin", Result: sample}, []error{engine.ErrTool}},
		{"asserted", engine.ErrAsserted, []error{engine.ErrAsserted}},
		{"no approval", state.ErrNoApproval, []error{state.ErrNoApproval}},
		{"may not vote", fmt.Errorf("bob: %w", state.ErrMayNotVote), []error{state.ErrMayNotVote}},
		{"not approved", fmt.Errorf("%w: %s", engine.ErrNotApproved, state.Denied), []error{engine.ErrNotApproved}},
		{"cancelled", errors.Join(context.Canceled, nil), []error{context.Canceled}},
		{"deadline", context.DeadlineExceeded, []error{context.DeadlineExceeded}},
		{"another", errors.New("arguments of ap-A: gone"), nil},
		{"coded", &call.Error{Code: call.CodeOverloaded, Detail: "busy"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a answer
			a.fail(tt.err)
			a = sent(t, a)
			got := a.err()
			if got == nil || got.Error() != tt.err.Error() {
				t.Fatalf("got %v, want %v", got, tt.err)
			}
			for _, is := range tt.is {
				if !errors.Is(got, is) {
					t.Errorf("%v is not %v", got, is)
				}
			}
			if call.CodeOf(got, "none") != call.CodeOf(tt.err, "none") {
				t.Errorf("code %s", call.CodeOf(got, "none"))
			}
			if d, ok := errors.AsType[*engine.Denial](tt.err); ok {
				if diff := cmp.Diff(d, got, cmpopts.IgnoreUnexported(engine.Denial{})); diff != "" {
					t.Error(diff)
				}
			}
			if te, ok := errors.AsType[*engine.ToolError](tt.err); ok {
				if diff := cmp.Diff(te, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	var a answer
	a.fail(&call.Error{Code: call.CodeInternal, Err: errors.New("secret")})
	if line, err := encode(a); err != nil || bytes.Contains(line, []byte("secret")) {
		t.Errorf("%s, %v", line, err)
	}
	a = answer{}
	if a.fail(nil); a.err() != nil {
		t.Error("no error became one")
	}
}

func TestValuesCross(t *testing.T) {
	for _, r := range []*engine.Result{sample, {CallID: "D"}, {Output: []byte{}}, nil} {
		if diff := cmp.Diff(r, sent(t, answer{Result: wireResultOf(r)}).Result.result(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	who := call.RecordPrincipal{ID: "bob", Kind: "user", Auth: call.Auth{Method: "uid"}}
	a := state.Approval{
		Approval: call.Approval{
			ID: "ap-A", Binding: "b", Asked: at, Expires: at.Add(1), Requester: who, Tool: call.RecordTool{Name: "wipe"},
			Rules: []call.ApprovalRule{{Name: "r", Count: 2, From: call.From{Roles: []string{"x"}}, TTL: 60}},
			Caps:  call.Caps{Bounds: call.Bounds{Fuel: 1<<53 - 1}}, Epoch: 3,
		},
		Standing: state.Approved, Votes: []call.Vote{{Approval: "ap-A", By: who}},
	}
	w := wireApprovalOf(a)
	w = sent(t, w)
	if diff := cmp.Diff(a, w.approval()); diff != "" {
		t.Error(diff)
	}
}

func TestExplanationsCross(t *testing.T) {
	args, err := call.Canonical([]byte(`{"n": 9007199254740991, "e": 1e-7, "a": "\u2028\u001F\ud83d\ude00<&\u007f"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*engine.Explanation{nil, {}, {Verdict: call.Deny, Code: call.CodeToolUnknown}, {
		Verdict: call.Ask, Code: call.CodeRequiresApproval, Detail: "d", Reasons: []call.Reason{{Code: "a", Message: "b\n", Rule: "c", Remedy: "d"}},
		Tool: engine.ExplainedTool{Name: "wipe", Kind: "host", Class: "destructive", Digest: "sha256:1"}, Session: "so-X",
		Args: args.Bytes(), Facts: call.Facts{Paths: []call.Path{{Root: "docs", Segments: []string{}}}},
		Caps: &call.Caps{Bounds: call.Bounds{Fuel: 1<<53 - 1}}, Labels: []string{"l"}, Limits: []engine.ExplainedLimit{{Name: "n", Limit: 1 << 60, RetryMS: 1<<53 + 1}},
		Approvals: []call.ApprovalRule{{Name: "r", Count: 2, From: call.From{IDs: []string{"x"}}, Reason: "why"}}, ApprovalID: "ap-A", Standing: state.Open,
		Policy: []call.Revision{{Name: "p", Revision: "7", Digest: "sha256:2"}},
	}} {
		if diff := cmp.Diff(x, sent(t, answer{Explanation: x}).Explanation); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCallsCross(t *testing.T) {
	p := call.Principal{
		ID: "alice", Kind: "agent", Roles: []string{"a", "b"}, Tenant: "t", Auth: call.Auth{Method: "jwt", Issuer: "i"},
		Claims:     map[string]jsontext.Value{"n": jsontext.Value("9007199254740993"), "o": jsontext.Value(`{"b":1,"a":[null]}`)},
		OnBehalfOf: []call.Principal{{ID: "carol", Kind: "user", Auth: call.Auth{Method: "mtls"}}},
	}
	c := call.Call{
		Principal: p, Session: "so-X", Tool: "echo",
		Args: jsontext.Value("{\n\"a\": 1e400, \xff"), Asserted: jsontext.Value(`{ }`),
	}
	want := c
	want.Principal.Auth = assertedBy(7)
	want.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user", Auth: assertedBy(7)}}
	line, err := encode(request{Op: opDo, Call: wireCallOf(c)})
	if err != nil {
		t.Fatal(err)
	}
	q, err := decodeRequest(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, q.Call.from(7)); diff != "" {
		t.Error(diff)
	}
	c.Args = make([]byte, 3*call.MaxArgsBytes)
	if n := len(wireCallOf(c).Args); n != call.MaxArgsBytes+1 {
		t.Errorf("%d bytes of arguments are sent", n)
	}
}

// A request has the parts of its operation and no others.
func TestRequestParts(t *testing.T) {
	const of = `"call":{"principal":{"id":"a","kind":"user"},"tool":"t"}`
	for _, ok := range []string{
		`{"op":"explain",` + of + `}`, `{"op":"do",` + of + `}`, `{"op":"issue",` + of + `,"audience":"r"}`, `{"op":"execute","grant":{"token":"t"}}`,
		`{"op":"revoke","revoke":{"tool":"t"}}`, `{"op":"vote","by":{"id":"bob","kind":"user"},"reason":"r"}`, `{"op":"reveal","approval":"ap-A","by":{"id":"bob","kind":"user"}}`,
	} {
		if _, err := decodeRequest([]byte(ok)); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, op := range []string{"do", "explain"} {
		for _, part := range []string{`"by":{"id":"bob","kind":"user"}`, `"approval":"ap-A"`, `"deny":true`, `"reason":"r"`, `"audience":"r"`, `"grant":{"token":"t"}`, `"revoke":{"tool":"t"}`} {
			q := `{"op":"` + op + `",` + of + `,` + part + `}`
			if _, err := decodeRequest([]byte(q)); call.CodeOf(err, "") != call.CodeRequestInvalid {
				t.Errorf("%s: %v", q, err)
			}
		}
	}
}

func TestFrom(t *testing.T) {
	word, kernel := call.Auth{Method: "asserted", Issuer: "uid:7"}, call.Auth{Method: "uid"}
	tests := []struct {
		name string
		who  principal
		want call.Auth
	}{
		{"itself", principal{ID: "uid:7", Kind: "user"}, kernel},
		{"somebody else", principal{ID: "alice", Kind: "user"}, word},
		{"another user", principal{ID: "uid:0", Kind: "user"}, word},
		{"as an agent", principal{ID: "uid:7", Kind: "agent"}, word},
		{"with a role", principal{ID: "uid:7", Kind: "user", Roles: []string{"approver"}}, word},
		{"with a tenant", principal{ID: "uid:7", Kind: "user", Tenant: "t"}, word},
		{"with a claim", principal{ID: "uid:7", Kind: "user", Claims: map[string]jsontext.Value{"a": nil}}, word},
		{"for another", principal{ID: "uid:7", Kind: "user", OnBehalfOf: []principal{{ID: "a"}}}, word},
	}
	for _, tt := range tests {
		if got := tt.who.from(7).Auth; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What decodes is one request with its parts, and says the same when it is sent
// again. Everything else has the code.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"op":"approvals"}`, `{"op":"wait","approval":"ap-A"}`, `{"op":"approval"}`,
		`{"op":"vote","approval":"ap-A","by":{"id":"bob","kind":"user"},"deny":true,"reason":"r"}`,
		`{"op":"reveal","approval":"ap-A","by":{"id":"bob","kind":"user"}}`, `{"op":"reveal","approval":"ap-A"}`, `{"op":"wait","approval":"ap-A","reason":"r"}`,
		`{"op":"do","call":{"principal":{"id":"a","kind":"user","claims":{"n":1e400}},"tool":"t","args":"e30="}}`,
		`{"op":"explain","call":{"principal":{"id":"a","kind":"user"},"tool":"t"}}`, `{"op":"explain"}`, `{"op":"do"}`, `{"op":"execute","grant":{"token":"t","args":"e30="}}`, `{"op":"execute"}`,
		`{"op":"issue","call":{"principal":{"id":"a","kind":"user"},"tool":"t"},"audience":"r"}`, `{"op":"revoke","revoke":{"epoch":1}}`, `{"op":"wait","by":{}}`, `{"op":"approvals","deny":true}`, `{"op":"approvals","op":"do"}`, `null`, "", "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := decodeRequest(line)
		if err != nil {
			if call.CodeOf(err, "") != call.CodeRequestInvalid {
				t.Fatalf("%v has no code", err)
			}
			return
		}
		if (q.Grant != nil) != (q.Op == opExecute) || (q.Revoke != nil) != (q.Op == opRevoke) || q.Audience != "" && q.Op != opIssue {
			t.Fatalf("%s has the parts of another: %+v", q.Op, q)
		}
		if (q.Call != nil) != (q.Op == opDo || q.Op == opExplain || q.Op == opIssue) || (q.By != nil) != (q.Op == opVote || q.Op == opReveal) || q.Reason != "" && q.Op != opVote {
			t.Fatalf("%s has the parts of another: %+v", q.Op, q)
		}
		if q.By != nil {
			if a := q.By.from(7).Auth; a != assertedBy(7) && a != userOf(7).Auth {
				t.Fatalf("authenticated as %+v", a)
			}
		}
		again, err := encode(q)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decodeRequest(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if twice, err := encode(r); err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("%s became %s, %v", again, twice, err)
		}
	})
}
