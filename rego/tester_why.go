package rego

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
)

// why says at which expression a test failed and what stood in it, or "" if that
// cannot be told. What tests ask about is made up, and no call: nothing is hidden but
// what has the shape of a key.
func (t *testRun) why(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	query, err := oparego.New(
		oparego.Query(name),
		oparego.Compiler(t.compiler),
		oparego.Store(t.store),
		oparego.Transaction(t.txn),
	).PrepareForEval(ast.WithCompiler(ctx, t.compiler))
	if err != nil {
		return ""
	}
	w := newWatch()
	if _, err := query.Eval(ctx, oparego.EvalTransaction(t.txn), oparego.EvalQueryTracer(w), oparego.EvalRuleIndexing(false)); err != nil {
		return ""
	}
	for _, f := range w.failed {
		if f.rule.Module != nil && f.miss != nil && !f.exited && f.rule.Module.Package.Path.String()+"."+nameOf(f.rule) == name {
			var b strings.Builder
			writeMiss(&b, f.nearMiss(redactor{}, maxInside), "")
			return strings.TrimSuffix(b.String(), "\n")
		}
	}
	return ""
}

func writeMiss(b *strings.Builder, m NearMiss, indent string) {
	fmt.Fprintf(b, "%sfailed at %s: %s\n", indent, m.Failed.Where, m.Failed.Expr)
	for _, v := range m.Failed.Values {
		fmt.Fprintf(b, "%s  %s = %s\n", indent, v.Name, v.Value)
	}
	for _, in := range m.Inside {
		fmt.Fprintf(b, "%s  %s\n", indent, in.Rule)
		writeMiss(b, in, indent+"    ")
	}
}
