package rego

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// fixed answers every call with the same decision.
type fixed struct {
	d   call.Decision
	err error
}

func (f fixed) Decide(context.Context, *call.Input) (call.Decision, error) { return f.d, f.err }

func diffOf(t testing.TB, a, b Decider) *Difference {
	t.Helper()
	r, err := Diff(t.Context(), a, b, slices.Values([]Case{{"one", input(t, "x", `{"password":"hunter2hunter2"}`)}}))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Differences) == 0 {
		return nil
	}
	return &r.Differences[0]
}

func TestDiffKinds(t *testing.T) {
	docs := func(modes ...string) []call.RuleGrant {
		return []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: modes}}}}}
	}
	allow := func(change func(*call.Decision)) fixed {
		d := call.Decision{Verdict: call.Allow, Grants: docs("read")}
		if change != nil {
			change(&d)
		}
		return fixed{d: d}
	}
	ask := func(count int, roles ...string) fixed {
		return fixed{d: call.Decision{Verdict: call.Ask, Grants: docs("read"), Approvals: []call.ApprovalRule{{Name: "a", Count: count, From: call.From{Roles: roles}}}}}
	}
	limit := func(burst int64, per string) func(*call.Decision) {
		return func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: burst, Per: per}} }
	}
	charge := func(name string) func(*call.Decision) {
		return func(d *call.Decision) { d.Limits = []call.Limit{{Name: "l", Burst: 1, Per: "day", Charge: name}} }
	}
	deny, broken := fixed{d: call.Decision{Verdict: call.Deny}}, fixed{err: &call.Error{Code: call.CodePolicyError}}
	for _, tt := range []struct {
		name  string
		a, b  fixed
		want  DiffKind
		opens bool
	}{
		{"nothing", allow(nil), allow(nil), "", false},
		{"deny to allow", deny, allow(nil), NewlyAllowed, true},
		{"fault to allow", broken, allow(nil), NewlyAllowed, true},
		{"fault to deny", broken, deny, "", false},
		{"ask to allow", ask(1, "x"), allow(nil), NewlyAllowed, true},
		{"deny to ask", deny, ask(1, "x"), NewlyAsking, true},
		{"allow to ask", allow(nil), ask(1, "x"), NewlyAsking, false},
		{"allow to deny", allow(nil), deny, NewlyDenied, false},
		{"allow to fault", allow(nil), broken, NewlyDenied, false},
		{"wider", allow(nil), allow(func(d *call.Decision) { d.Grants = docs("read", "write") }), GrantWider, true},
		{"narrower", allow(func(d *call.Decision) { d.Grants = docs("read", "write") }), allow(nil), GrantLess, false},
		{"neither", allow(nil), allow(func(d *call.Decision) { d.Grants = docs("write") }), GrantOther, true},
		{"a cap taken away", allow(func(d *call.Decision) { d.Cap = &call.Cap{FS: []call.FS{}} }), allow(nil), GrantWider, true},
		{"grants that are none", allow(func(d *call.Decision) { d.Grants = []call.RuleGrant{{Caps: call.Caps{FS: []call.FS{{Root: "/"}}}}} }), allow(nil), NewlyAllowed, true},
		{"a limit taken away", allow(limit(1, "1m")), allow(nil), Eased, true},
		{"a larger limit", allow(limit(1, "1m")), allow(limit(2, "1m")), Eased, true},
		{"a faster limit", allow(limit(1, "1m")), allow(limit(1, "30s")), Eased, true},
		{"a smaller limit that is faster", allow(limit(60, "1h")), allow(limit(2, "1m")), Eased, true},
		{"a quota in place of a limit", allow(limit(1, "24h")), allow(limit(1, "day")), Eased, true},
		{"a longer quota", allow(limit(1, "day")), allow(limit(1, "month")), Eased, true},
		{"a smaller quota", allow(limit(2, "day")), allow(limit(1, "day")), Tightened, false},
		{"another charge", allow(charge("fuel")), allow(charge("time_ms")), Eased, true},
		{"a limit more", allow(nil), allow(limit(1, "1m")), Tightened, false},
		{"a smaller limit", allow(limit(2, "1m")), allow(limit(1, "1m")), Tightened, false},
		{"narrower and without a limit", allow(func(d *call.Decision) { d.Grants = docs("read", "write"); limit(1, "1m")(d) }), allow(nil), Eased, true},
		{"fewer approvers", ask(2, "x"), ask(1, "x"), Eased, true},
		{"other approvers", ask(1, "x"), ask(1, "x", "y"), Eased, true},
		{"more approvers", ask(1, "x", "y"), ask(2, "x"), Tightened, false},
		{"a label taken away", allow(func(d *call.Decision) { d.Labels = []string{"l"} }), allow(nil), Eased, true},
		{"an obligation taken away", allow(func(d *call.Decision) { d.Rows = call.Obligation{[]byte("5")} }), allow(nil), Eased, true},
		{"another obligation", allow(func(d *call.Decision) { d.Rows = call.Obligation{[]byte("5")} }), allow(func(d *call.Decision) { d.Rows = call.Obligation{[]byte("9")} }), Eased, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := diffOf(t, tt.a, tt.b)
			if d == nil {
				d = &Difference{}
			}
			if d.Kind != tt.want || d.Opens != tt.opens {
				t.Errorf("%s, opens %t; want %s, %t", d.Kind, d.Opens, tt.want, tt.opens)
			}
			if strings.Contains(d.Args, "hunter2") {
				t.Errorf("shows %s", d.Args)
			}
		})
	}
}

func TestDiffCannotTell(t *testing.T) {
	late := fixed{err: &call.Error{Code: call.CodePolicyTimeout}}
	cases := slices.Values([]Case{{"one", input(t, "x", "{}")}})
	if r, err := Diff(t.Context(), fixed{}, late, cases); err == nil {
		t.Errorf("tells %+v of a policy that does not answer", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Diff(ctx, mustOpen(t, withBase(t, bundles.Project())), fixed{}, cases); err == nil {
		t.Errorf("tells %+v", r)
	}
}

// mutants are single changes of the project's policy, each of which lets somebody do
// more, and is found by the calls that are made.
func TestGeneratedCallsFindWhatOpens(t *testing.T) {
	project := withBase(t, bundles.Project())
	was := mustOpen(t, project)
	for _, tt := range []struct{ file, from, to string }{
		{"office.rego", `lib.role("support")`, `lib.role("analyst")`},
		{"office.rego", `if input.tool.name == "list-dir"`, `if { input.tool.name == "list-dir"; every task in input.session.plan { task.status != "active" } }`},
		{"office.rego", `	lib.role("analyst")` + "\n", ""},
		{"office.rego", `"burst": 2, "per": "1h"`, `"burst": 9, "per": "1h"`},
		{"office.rego", `not _untouched`, `not _untouched` + "\n\tinput.tool.name == \"x\""},
		{"office.rego", `[a-z0-9_-]+[.]txt$`, `.*$`},
		{"docs.rego", `"modes": ["read"]`, `"modes": ["read", "write"]`},
		{"docs.rego", `not input.tool.findings in [[], ["raw"]]`, `input.tool.findings == ["x"]`},
	} {
		t.Run(tt.from, func(t *testing.T) {
			src := string(project[tt.file].Data)
			if !strings.Contains(src, tt.from) {
				t.Fatalf("%s no longer has it", tt.file)
			}
			next := fstest.MapFS{}
			add(t, next, "", project)
			next[tt.file] = &fstest.MapFile{Data: []byte(strings.Replace(src, tt.from, tt.to, 1))}
			is, err := Open(t.Context(), next, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cases, _, err := Generate(t.Context(), GenerateOptions{
				Bundles: []GenerateBundle{{FS: project}, {FS: next}}, Tools: office().Tools, Most: 300,
			})
			if err != nil {
				t.Fatal(err)
			}
			r, err := Diff(t.Context(), was, is, slices.Values(cases))
			if err != nil {
				t.Fatal(err)
			}
			if r.Opens == 0 {
				t.Errorf("finds nothing that opens among %d calls", r.Calls)
			}
			if !strings.Contains(r.Text(), "! ") {
				t.Errorf("tells nothing:\n%s", r.Text())
			}
		})
	}
}

// Of the starter, data alone says who may what.
func TestGeneratedCallsKnowTheStarter(t *testing.T) {
	b := withBase(t, bundles.Starter())
	cases, world, err := Generate(t.Context(), GenerateOptions{Bundles: []GenerateBundle{{FS: b}}, Most: 400})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(world.Roles, "analyst") || !slices.ContainsFunc(world.Tools, func(t ToolInfo) bool { return t.Name == "read-file" }) {
		t.Errorf("knows %v and %d tools", world.Roles, len(world.Tools))
	}
	p, allowed := mustOpen(t, b), 0
	for _, c := range cases {
		if d, err := p.Decide(t.Context(), c.Input); err == nil && d.Verdict != call.Deny {
			allowed++
		}
	}
	if allowed == 0 {
		t.Errorf("none of %d calls is let through", len(cases))
	}
}

func TestGeneratedCallsAreTheSameEachTime(t *testing.T) {
	o := GenerateOptions{Bundles: []GenerateBundle{{FS: withBase(t, bundles.Project())}}, Tools: office().Tools, Most: 300, Seed: 7}
	bytes := func(o GenerateOptions) string {
		cases, _, err := Generate(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) == 0 || len(cases) > 300 {
			t.Errorf("%d calls", len(cases))
		}
		b, err := json.Marshal(cases)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := bytes(o)
	if diff := cmp.Diff(first, bytes(o)); diff != "" {
		t.Error(diff)
	}
	if o.Seed = 8; bytes(o) == first {
		t.Error("another seed makes the same calls")
	}
}

func TestCompleteLeavesOutWhatTheEngineRefuses(t *testing.T) {
	o := GenerateOptions{Bundles: []GenerateBundle{{FS: withBase(t, bundles.Project())}}, Tools: office().Tools, Most: 200}
	o.Complete = func(in *call.Input) error {
		if in.Tool.Name != "fib" {
			return fmt.Errorf("refused")
		}
		in.Facts.Paths = []call.Path{{Root: "r"}}
		return nil
	}
	cases, _, err := Generate(t.Context(), o)
	if err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		if c.Input.Tool.Name != "fib" || len(c.Input.Facts.Paths) != 1 {
			t.Errorf("kept %+v", c.Input)
		}
	}
}

func TestReadCorpus(t *testing.T) {
	good, err := json.Marshal(input(t, "x", `{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		give fs.FS
		want int // calls; -1 for an error
	}{
		{"json", files("a.json", string(good), "d/b.json", string(good)), 2},
		{"txtar", files("a.txtar", "Two calls.\n-- a.json --\n"+string(good)+"\n-- b.json --\n"+string(good)+"\n"), 2},
		{"others", files("a.json", string(good), "README.md", "x", ".gitignore", "x"), 1},
		{"nothing", files(), 0},
		{"unknown files", files("a.yaml", "x"), -1},
		{"unknown sections", files("a.txtar", "-- a.yaml --\nx\n"), -1},
		{"an empty archive", files("a.txtar", "prose\n"), -1},
		{"unknown members", files("a.json", `{"tool":{"name":"x"},"extra":1}`), -1},
		{"an argument twice", files("a.json", `{"args":{"a":1,"a":2}}`), -1},
		{"no JSON", files("a.json", `{`), -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadCorpus(tt.give)
			if (err != nil) != (tt.want < 0) || err == nil && len(got) != tt.want {
				t.Errorf("%d calls, %v", len(got), err)
			}
		})
	}
}

// Whatever stands in a corpus, it is read or refused; what is read can be decided on.
func FuzzCorpus(f *testing.F) {
	f.Add("a.json", []byte(`{"tool":{"name":"x"},"args":{"a":[1,"b"]},"principal":{"roles":["r"]},"env":{"now_ns":1,"node":"n"}}`))
	f.Add("a.txtar", []byte("x\n-- a.json --\n{}\n"))
	f.Add("a.json", []byte(`{"args":null}`))
	f.Add("a.txtar", []byte("x\n-- --\n{}\n"))
	p, err := Open(f.Context(), withBase(f, bundles.Project()), Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		cases, err := corpusCases(name, b)
		if err != nil {
			return
		}
		for _, c := range cases {
			if _, err := Diff(t.Context(), p, p, slices.Values([]Case{c})); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(c.Input)
			if err != nil {
				t.Fatalf("has no JSON form: %v", err)
			}
			if in, err := ParseInput(again); err != nil || in.Args != c.Input.Args {
				t.Fatalf("is not read again: %v", err)
			}
		}
	})
}
