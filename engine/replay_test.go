package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
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
