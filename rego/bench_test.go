package rego

import (
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/callgate/callgate/bundles"
)

// BenchmarkDecide compares a whole decision, typed at both ends, with OPA's
// plain evaluation of the same query on the same input. One iteration does both,
// so only the medians say something: plain/decide is how many times faster Decide
// is.
func BenchmarkDecide(b *testing.B) {
	project := withBase(b, bundles.Project())
	p := mustOpen(b, project)
	in := input(b, "read-file", `{"path":"a.txt"}`, "analyst")
	plain := plainQuery(b, project)

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
		oparego.Query(entrypoint),
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
