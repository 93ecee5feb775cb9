package rego

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // also what pools and finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// grown runs f and says by how much it made the heap grow.
func grown(f func()) int64 {
	before := heap()
	f()
	return heap() - before
}

const mib = 1 << 20

// matching is a policy that makes patterns of its arguments.
const matching = `package callgate

decision := count(matched) == 0 if input.tool.name == "t"

matched contains "regex" if regex.match(input.args.patterns[_], "none")

matched contains "find" if count(regex.find_n(input.args.patterns[_], "none", 1)) > 0

matched contains "replace" if regex.replace("none", input.args.patterns[_], "x") != "none"

matched contains "split" if count(regex.split(input.args.patterns[_], "none")) > 1

matched contains "glob" if glob.match(input.args.patterns[_], ["."], "none")

matched contains "prefix" if strings.any_prefix_match("none", input.args.patterns)
`

func matches(t *testing.T, p *Policy, patterns []string) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"patterns": patterns})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer(p.Decide(t.Context(), input(t, "t", string(args)))); got != "allow" {
		t.Fatal(got)
	}
}

// Patterns that arguments bring are not kept for ever, however many there are.
func TestManyPatternsAreNotKept(t *testing.T) {
	p := mustOpen(t, files("p.rego", matching))
	matches(t, p, []string{"warm"})
	more := grown(func() {
		for n := range 30 {
			patterns := make([]string, 100)
			for i := range patterns {
				patterns[i] = fmt.Sprintf("^[a-z][0-9]{300}%d-%d$", n, i)
			}
			matches(t, p, patterns)
		}
	})
	if more > maxPatterns+4*mib {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	if p.patterns.size > maxPatterns {
		t.Errorf("%d bytes of patterns are kept", p.patterns.size)
	}
	runtime.KeepAlive(p)
}

// Nor is a large one, which an argument of few characters can be.
func TestLargePatternsAreNotKept(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := regex.match(input.args.patterns[0], \"x\") == false if input.tool.name == \"t\"\n"))
	matches(t, p, []string{"warm"})
	more := grown(func() {
		for n := range 10 {
			matches(t, p, []string{fmt.Sprint("^", strings.Repeat("a{1000}", 100), n, "$")})
		}
	})
	if more > 8*mib {
		t.Errorf("the heap has grown by %d bytes", more)
	}
	runtime.KeepAlive(p)
}

// What policies themselves have for patterns is compiled once.
func TestPatternsOfPoliciesAreKept(t *testing.T) {
	p := mustOpen(t, files("p.rego", `package callgate

decision if {
	input.tool.name == "t"
	regex.match("^[a-z]{1,63}(\\.[a-z]{1,63}){1,8}$", input.args.host)
	glob.match("*.example", ["."], input.args.host)
	regex.match(data.paths, input.args.path)
}
`, "data.json", `{"paths": "^(/[a-z0-9]+)+$"}`))
	for range 3 {
		if got := answer(p.Decide(t.Context(), input(t, "t", `{"host":"a.example","path":"/x/y"}`))); got != "allow" {
			t.Fatal(got)
		}
	}
	if n := len(p.patterns.all); n != 3 {
		t.Errorf("%d patterns are kept", n)
	}
	if _, ok := p.patterns.Get(ast.String("^(/[a-z0-9]+)+$")); !ok {
		t.Error("the pattern in data is compiled anew for each decision")
	}
}

func TestPatternCache(t *testing.T) {
	p := newPatterns()
	key := func(n int) ast.Value { return ast.String(strings.Repeat("x", 1000) + fmt.Sprint(n)) }
	gone := 0
	for n := range 1000 {
		gone += p.Insert(key(n), n)
		gone += p.Insert(key(n), n) // as two that compile it at once do
	}
	if len(p.all)+gone != 1000 || p.size > maxPatterns || p.size < maxPatterns/2 {
		t.Errorf("%d kept, %d gone, %d bytes", len(p.all), gone, p.size)
	}
	for n := range 1000 {
		if v, ok := p.Get(key(n)); ok && v != n {
			t.Errorf("%d is %v", n, v)
		}
		p.Delete(key(n))
	}
	if len(p.all) != 0 || p.size != 0 {
		t.Errorf("emptied, %d bytes of %d patterns", p.size, len(p.all))
	}
	p.Insert(ast.Number("1"), 1)
	p.Delete(ast.Number("1"))
	if _, ok := p.Get(ast.Number("1")); ok || p.GetCache("any_prefix_match") != nil {
		t.Error("keeps what is no pattern")
	}
}

// A decision is the same with and without what was kept.
func TestKeptPatternsChangeNothing(t *testing.T) {
	p := mustOpen(t, files("p.rego", `package callgate

decision := {"decision": "deny", "reasons": [{"code": sprintf("r%v.g%v", [regex.match(input.args.p, "a-b"), glob.match(input.args.p, [], "a-b")])}]} if input.tool.name == "t"
`))
	// As a glob without delimiters, a* has the key of the pattern a*-.
	for _, args := range []string{`{"p":"a*"}`, `{"p":"a*-"}`, `{"p":"a*"}`, `{"p":"a*-"}`} {
		in := input(t, "t", args)
		want, err := mustOpen(t, files("p.rego", `package callgate

decision := {"decision": "deny", "reasons": [{"code": sprintf("r%v.g%v", [regex.match(input.args.p, "a-b"), glob.match(input.args.p, [], "a-b")])}]} if input.tool.name == "t"
`)).Decide(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var got call.Decision
		for range 2 {
			if got, err = p.Decide(t.Context(), in); err != nil || got.Reasons[0].Code != want.Reasons[0].Code {
				t.Errorf("%s: %v, %v, want %v", args, got.Reasons, err, want.Reasons)
			}
		}
	}
}
