package rego

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// BenchmarkDecide compares a whole decision, typed at both ends, with OPA's
// plain evaluation of the same query on the same input. One iteration does both,
// so only the medians say something: plain/decide is how many times faster Decide
// is.
func BenchmarkDecide(b *testing.B) {
	b.Run("project", func(b *testing.B) {
		compare(b, withBase(b, bundles.Project()), input(b, "read-file", `{"path":"a.txt"}`, "analyst"))
	})
	for _, n := range []int{20, 1000, 20000} {
		b.Run(fmt.Sprintf("starter/tools=%d", n), func(b *testing.B) {
			compare(b, starterOf(b, n), input(b, "tool-7", `{}`, "analyst"))
		})
		b.Run(fmt.Sprintf("coding-agent/commands=%d", n), func(b *testing.B) {
			in := input(b, "shell", `{"command":"tool-7 a"}`, "developer")
			in.Facts.Commands = []call.Command{{Name: "tool-7", Argv: []string{"tool-7", "a"}, Via: []string{}, Reads: []string{}, Writes: []string{}}}
			compare(b, codingOf(b, n), in)
		})
	}
}

// starterOf is the starter policy with n tools.
func starterOf(b *testing.B, n int) fstest.MapFS {
	b.Helper()
	tools := map[string]any{}
	for i := range n {
		tools[fmt.Sprintf("tool-%d", i)] = map[string]any{"grant": map[string]any{}, "who": []any{map[string]any{"roles": []string{"analyst"}}}}
	}
	fsys := withBase(b, bundles.Starter())
	maps.DeleteFunc(fsys, func(name string, _ *fstest.MapFile) bool { return path.Base(name) == "data.json" })
	fsys["starter/data.json"] = asJSON(b, map[string]any{"frozen": false, "blocked": []any{}, "tools": tools})
	return fsys
}

// codingOf is the policy of coding agents with n commands that are routine.
func codingOf(b *testing.B, n int) fstest.MapFS {
	b.Helper()
	fsys := withBase(b, bundles.CodingAgent())
	var data map[string]any
	if err := json.Unmarshal(fsys["coding/data.json"].Data, &data); err != nil {
		b.Fatal(err)
	}
	commands := map[string]any{}
	for i := range n {
		commands[fmt.Sprintf("tool-%d", i)] = [][]string{{"**"}}
	}
	data["commands"] = commands
	fsys["coding/data.json"] = asJSON(b, data)
	return fsys
}

func asJSON(b *testing.B, v any) *fstest.MapFile {
	b.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return &fstest.MapFile{Data: text}
}

func compare(b *testing.B, fsys fs.FS, in *call.Input) {
	p := mustOpen(b, fsys)
	plain := plainQuery(b, fsys)
	var decide, plainOPA []time.Duration
	for b.Loop() {
		start := time.Now()
		d, err := p.Decide(b.Context(), in)
		decide = append(decide, time.Since(start))
		if got := answer(d, err); got != "allow" {
			b.Fatal(got)
		}
		start = time.Now()
		raw, err := json.Marshal(in)
		if err != nil {
			b.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			b.Fatal(err)
		}
		rs, err := plain.Eval(b.Context(), oparego.EvalInput(v))
		plainOPA = append(plainOPA, time.Since(start))
		if err != nil || len(rs) != 1 {
			b.Fatal(rs, err)
		}
	}
	slices.Sort(decide)
	slices.Sort(plainOPA)
	b.ReportMetric(float64(decide[len(decide)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(plainOPA[len(plainOPA)/2])/float64(decide[len(decide)/2]), "plain/decide")
}

func plainQuery(b *testing.B, fsys fs.FS) oparego.PreparedEvalQuery {
	b.Helper()
	l := bundle.NewFSLoaderWithRoot(fsys, ".").WithPathFormat(bundle.Passthrough)
	bu, err := bundle.NewCustomReader(l).WithSkipBundleVerification(true).Read()
	if err != nil {
		b.Fatal(err)
	}
	options := []func(*oparego.Rego){
		oparego.Query(entrypoints[Permit]),
		oparego.Store(inmem.NewFromObject(bu.Data)),
		oparego.SetRegoVersion(ast.RegoV1),
	}
	for _, m := range bu.Modules {
		options = append(options, oparego.ParsedModule(m.Parsed))
	}
	q, err := oparego.New(options...).PrepareForEval(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return q
}
