package engine_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
)

// witness keeps what a policy was asked and what it answered.
type witness struct {
	engine.Policy
	mu    sync.Mutex
	asked []question
}

type question struct {
	in       call.Input
	decision call.Decision
	err      error
}

func (w *witness) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	d, err := w.Policy.Decide(ctx, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, question{*in, d, err})
	return d, err
}

// What a grant does not give of the network and of credentials does not exist,
// whatever the manifest could have and the operator has.
func TestPromise5NoDialerNoSecret(t *testing.T) {
	entry := call.HTTP{Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"}, Networks: []string{"public"}}
	secret := entry
	secret.Secret = &call.Secret{Name: "key", As: "bearer"}
	manifest := `
name: ask
description: asks a host
kind: host
class: read
facts: none
input: {type: object, additionalProperties: false}
caps:
  http:
    - {hosts: [api.example.com], ports: [443], methods: [GET], paths: [/], networks: [public]}
    - {hosts: [api.example.com], ports: [443], methods: [GET], paths: [/], networks: [public], secret: {name: key, as: bearer}}
`
	tests := []struct {
		name    string
		granted []call.HTTP
		ask     hostfx.Request
		secrets []string // what the host is asked for
	}{
		{name: "nothing granted", ask: hostfx.Request{Method: "GET", URL: "https://api.example.com/"}},
		{name: "another host", granted: []call.HTTP{entry}, ask: hostfx.Request{Method: "GET", URL: "https://example.com/"}},
		{name: "another method", granted: []call.HTTP{entry}, ask: hostfx.Request{Method: "POST", URL: "https://api.example.com/"}},
		{name: "another port", granted: []call.HTTP{entry}, ask: hostfx.Request{Method: "GET", URL: "https://api.example.com:8443/"}},
		{name: "a credential that is not granted", granted: []call.HTTP{entry}, ask: hostfx.Request{Method: "GET", URL: "https://api.example.com/", Secret: "key"}},
		{name: "no credential where one is granted", granted: []call.HTTP{secret}, ask: hostfx.Request{Method: "GET", URL: "https://api.example.com/"}, secrets: []string{"key"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var read []string
			host, err := hostfx.New(hostfx.Options{
				// Nobody listens there: a connection would be an effect that failed.
				Names: []hostfx.Name{{Host: "api.example.com", Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}}},
				Secrets: func(name string) (hostfx.Secret, error) {
					read = append(read, name)
					return hostfx.Secret{Value: "canary-credential"}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			ask := engine.Host(manifest, func(ctx context.Context, fx *hostfx.Effects, _ struct{}) (string, error) {
				_, err := fx.HTTP(ctx, tt.ask)
				return "", err
			})
			d := allow
			d.Grants = []call.RuleGrant{{Caps: call.Caps{HTTP: tt.granted}}}
			e := open(t, engine.Options{Policy: always(d), Log: &memory{}, Host: host, Tools: []engine.Tool{ask}})
			_, err = e.Do(t.Context(), call.Call{Principal: alice, Tool: "ask"})
			te, ok := errors.AsType[*engine.ToolError](err)
			if !ok {
				t.Fatalf("Do = %v", err)
			}
			if fx := te.Result.Outcome.Effects; len(fx) != 1 || fx[0].Code != "refused" || fx[0].Within != "" {
				t.Errorf("effects %+v", fx)
			}
			if !slices.Equal(read, tt.secrets) {
				t.Errorf("the credentials %v were read", read)
			}
		})
	}
}

// A decision is a function of the bundle and the input: whoever has the bundle
// that the record names, and the input, gets the recorded decision again.
func TestPromise6PoliciesArePure(t *testing.T) {
	r := newReal(t)
	seen := &witness{Policy: r.o.Policy}
	r.o.Policy = seen
	e := open(t, r.o)
	calls := []call.Call{readFile("/docs/welcome.txt"), readFile("/docs/inbox/mail.txt"), readFile("/docs/welcome.txt")}
	calls[2].Principal.Roles = nil
	calls[2].Principal.OnBehalfOf = []call.Principal{alice}
	for range 3 {
		calls = append(calls, call.Call{Principal: alice, Tool: "list-dir", Args: []byte(`{"path":"/docs"}`)})
	}
	for _, c := range calls {
		_, _ = e.Do(t.Context(), c) // whether it ran is not the question
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := rego.Open(t.Context(), os.DirFS(filepath.Join(r.dir, "bundle")), rego.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var recorded []call.Record
	for _, rec := range r.records(t) {
		if rec.Type == call.TypeDecision {
			recorded = append(recorded, rec)
		}
	}
	if len(recorded) != len(calls) || len(seen.asked) != len(calls)+1 {
		t.Fatalf("%d records of %d calls, %d questions", len(recorded), len(calls), len(seen.asked))
	}
	for i, q := range seen.asked {
		for range 3 {
			d, err := again.Decide(t.Context(), &q.in)
			if diff := cmp.Diff(q.decision, d); diff != "" || err != nil {
				t.Fatalf("question %d is answered differently: %v\n%s", i, err, diff)
			}
		}
	}
	at := 0
	for i, rec := range recorded {
		q := seen.asked[at]
		at += 1 + len(calls[i].Principal.OnBehalfOf)
		if q.in.Env.NowNS != rec.Time.UnixNano() || q.in.Principal.ID != rec.Principal.ID || q.in.Session.ID != rec.Session {
			t.Errorf("record %d is about another input: %+v", i, rec)
		}
		if !slices.Equal(rec.Policy, []call.Revision{again.Revision()}) {
			t.Errorf("record %d names the policy %+v", i, rec.Policy)
		}
		if allowed := q.decision.Verdict == call.Allow; allowed != (rec.Verdict == call.Allow) && rec.Code != call.CodeRateLimited {
			t.Errorf("record %d says %s, policy said %s", i, rec.Verdict, q.decision.Verdict)
		}
	}

	// Another policy has another name.
	rules := filepath.Join(r.dir, "bundle", "docs.rego")
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rules, append(text, "\n# changed\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := rego.Open(t.Context(), os.DirFS(filepath.Join(r.dir, "bundle")), rego.Options{})
	if err != nil || changed.Revision().Digest == again.Revision().Digest {
		t.Errorf("a changed bundle is %+v, %v", changed.Revision(), err)
	}
}
