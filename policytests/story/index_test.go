package story

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/engine/call"
)

// An explanation evaluates without OPA's index of rules. It says of every call what the
// decision says.
func TestStoriesWithoutTheIndex(t *testing.T) {
	hidden := cmpopts.IgnoreFields(call.Reason{}, "Message", "Remedy") // explanations redact
	asked := 0
	for _, s := range tell(t) {
		layers, err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range s.scenes {
			if c.Steps != nil || i%12 != 0 {
				continue // explanations take their time
			}
			in, err := s.input(c.ask)
			if err != nil {
				continue // refused before any policy
			}
			for _, p := range layers.Layers() {
				asked++
				x, err := p.Explain(t.Context(), in)
				if err != nil {
					t.Fatalf("%s: %s: %v", s.name, c.name, err)
				}
				d, err := p.Decide(t.Context(), in)
				if code := call.CodeOf(err, ""); code != x.Code || err == nil && d.Verdict != x.Verdict {
					t.Errorf("%s: %s: with the index %s %s, without %s %s", s.name, c.name, code, d.Verdict, x.Code, x.Verdict)
				} else if err == nil {
					if diff := cmp.Diff(d, *x.Decision, hidden); diff != "" {
						t.Errorf("%s: %s: -with +without the index\n%s", s.name, c.name, diff)
					}
				}
			}
		}
	}
	if asked < fewestScenes/12 {
		t.Errorf("only %d decisions", asked)
	}
}
