package bundles_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// The sizes that are compared.
const (
	few  = 20
	many = 2000
)

// indexed are the first guards by which OPA finds the rules of a call without trying
// them all. Each is about rule n, and holds for the call of the benchmark when n is 7.
var indexed = map[string]string{
	"name":       `input.tool.name == "tool-%d.run"`,
	"names":      `input.tool.name in {"tool-%[1]d.run", "tool-%[1]d.stop"}`,
	"startswith": `startswith(input.tool.name, "tool-%d.")`,
	"glob":       `glob.match("tool-%d.*", ["."], input.tool.name)`,
	"label":      `"label-%d" in input.session.labels`,
	"argument":   `input.args.kind == "kind-%d"`,
}

// rulesOf has n rules that begin with the guard.
func rulesOf(guard string, n int) string {
	var src strings.Builder
	src.WriteString("package callgate.rules\n\nimport data.callgate.lib\nimport rego.v2\n")
	for i := range n {
		fmt.Fprintf(&src, "\nallow contains {\"id\": \"rule-%d\"} if {\n\t"+guard+"\n\tlib.role(\"analyst\")\n}\n", i, i)
	}
	return src.String()
}

// ruled is a policy of these rules.
func ruled(b *testing.B, guard string, n int) *rego.Policy {
	b.Helper()
	fsys := fstest.MapFS{"rules.rego": &fstest.MapFile{Data: []byte(rulesOf(guard, n))}}
	err := fs.WalkDir(bundles.Base(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(bundles.Base(), name)
		fsys["callgate/"+name] = &fstest.MapFile{Data: body}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	p, err := rego.Open(b.Context(), fsys, rego.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// counter counts what an evaluation does.
type counter struct{ n int }

func (*counter) Enabled() bool               { return true }
func (c *counter) TraceEvent(topdown.Event)  { c.n++ }
func (*counter) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// steps is what a decision about the benchmark's call takes.
func steps(t *testing.T, guard string, n int) int {
	t.Helper()
	q := query(t, "data.callgate.decision", oparego.Module("rules.rego", rulesOf(guard, n)))
	b, err := json.Marshal(benchInput(t))
	if err != nil {
		t.Fatal(err)
	}
	var in any
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	var c counter
	rs, err := q.Eval(t.Context(), oparego.EvalInput(in), oparego.EvalQueryTracer(&c), oparego.EvalEarlyExit(false))
	if err != nil || len(rs) != 1 || rs[0].Expressions[0].Value.(map[string]any)["decision"] != "allow" {
		t.Fatal(rs, err)
	}
	return c.n
}

// With such a guard a decision among many rules takes the very steps that one among
// few takes. Fewer than in the benchmark are enough to count.
func TestGuardsAreIndexed(t *testing.T) {
	const many = 20 * few
	for name, guard := range indexed {
		if x, y := steps(t, guard, few), steps(t, guard, many); x != y {
			t.Errorf("%s: %d steps among %d rules, %d among %d", name, x, few, y, many)
		}
	}
	const not = `contains(input.tool.name, "ool-%d.r")`
	if x, y := steps(t, not, few), steps(t, not, many); y < 3*x {
		t.Errorf("contains: %d steps among %d rules, %d among %d", x, few, y, many)
	}
}

// benchInput is the call that rule 7 allows.
func benchInput(t testing.TB) *call.Input {
	t.Helper()
	args, err := call.Canonical([]byte(`{"kind": "kind-7"}`))
	if err != nil {
		t.Fatal(err)
	}
	return &call.Input{
		Tool:      call.Tool{Name: "tool-7.run", Kind: "wasm", Class: "read", Digest: call.Digest(nil)},
		Args:      args,
		Principal: call.Principal{ID: "alice", Kind: "agent", Roles: []string{"analyst"}, Tenant: "acme", Auth: call.Auth{Method: "asserted"}},
		Session:   call.Session{ID: "s", Run: "r", Labels: []string{"label-7"}},
		Env:       call.Env{NowNS: 1_800_000_000_000_000_000, Node: "n"},
	}
}

// BenchmarkRules compares decisions among many rules with decisions among few, for
// each form of guard that OPA indexes. One iteration does both, so only the medians
// say something: many/few is how many times longer a decision takes.
func BenchmarkRules(b *testing.B) {
	for name, guard := range indexed {
		b.Run(name, func(b *testing.B) {
			in := benchInput(b)
			policies := []*rego.Policy{ruled(b, guard, few), ruled(b, guard, many)}
			took := make([][]time.Duration, len(policies))
			for b.Loop() {
				for i, p := range policies {
					start := time.Now()
					d, err := p.Decide(b.Context(), in)
					took[i] = append(took[i], time.Since(start))
					if err != nil || d.Verdict != call.Allow || len(d.Grants) != 1 || d.Grants[0].ID != "rule-7" {
						b.Fatalf("%+v, %v", d, err)
					}
				}
			}
			for _, all := range took {
				slices.Sort(all)
			}
			median := func(i int) float64 { return float64(took[i][len(took[i])/2]) }
			b.ReportMetric(median(0), "p50-ns")
			b.ReportMetric(median(1)/median(0), "many/few")
		})
	}
}
