package rego

import (
	"context"
	"fmt"

	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/open-policy-agent/opa/v1/ast"
)

// strictly runs a test that has passed once more, as the engine would evaluate it,
// and says how it differs, or "".
func (t *testRun) strictly(ctx context.Context, name string, x *tester.Result) string {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	query, err := oparego.New(
		oparego.Query(name),
		oparego.Compiler(t.compiler),
		oparego.Store(t.store),
		oparego.Transaction(t.txn),
		oparego.StrictBuiltinErrors(true),
	).PrepareForEval(ast.WithCompiler(ctx, t.compiler))
	if err != nil {
		return "with the engine's settings: " + err.Error()
	}
	rs, err := query.Eval(ctx, oparego.EvalTransaction(t.txn), oparego.EvalEarlyExit(false))
	switch {
	case err != nil:
		return "with the engine's settings: " + err.Error()
	case len(rs) != 1 || len(rs[0].Expressions) != 1:
		return "with the engine's settings it is undefined"
	}
	cases, ok := countTrue(rs[0].Expressions[0].Value)
	if !ok {
		return "with the engine's settings it fails"
	}
	if want := countCases(x.SubResults); want > 0 && cases != want {
		return fmt.Sprintf("with the engine's settings it has %d cases, not %d", cases, want)
	}
	return ""
}

// countTrue counts the cases of a test's value, all of which must be true.
func countTrue(v any) (n int, ok bool) {
	switch v := v.(type) {
	case bool:
		return 1, v
	case map[string]any:
		for _, x := range v {
			m, ok := countTrue(x)
			if !ok {
				return 0, false
			}
			n += m
		}
		return n, true
	}
	return 0, false
}

func countCases(all tester.SubResultMap) (n int) {
	for _, c := range all.Iter {
		if len(c.SubResults) == 0 {
			n++
		}
	}
	return n
}
