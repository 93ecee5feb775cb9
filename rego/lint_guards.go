package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lintGuards warns of rules whose first guard OPA has no index for: it is tried on
// every call of every tool.
func (v *vetting) lintGuards() {
	v.written(func(m *module, r *ast.Rule) {
		if v.wordOf(m, r) == "" || len(r.Body) == 0 {
			return
		}
		first := r.Body[0]
		switch {
		case indexed(first), isBare(first):
		case iterates(first) && slices.ContainsFunc(r.Body[1:], func(e *ast.Expr) bool { return indexed(e) || contains(e, isToolName) }):
			v.warn(first.Location, "guard_unindexed", "some x in comes first, so OPA tries the rule on every call; %s", guardAdvice)
		case first.IsCall() && first.Operator().String() == "contains":
			v.warn(first.Location, "guard_unindexed", "OPA has no index for contains; %s", guardAdvice)
		case first.IsCall() && slices.ContainsFunc(first.Operands(), func(t *ast.Term) bool { return isToolName(t.Value) }):
			v.warn(first.Location, "guard_unindexed", "OPA has no index for this question about the tool's name; %s", guardAdvice)
		case slices.ContainsFunc(r.Body[1:], func(e *ast.Expr) bool { return indexed(e) && contains(e, isToolName) }):
			v.warn(first.Location, "guard_unindexed", "the tool is named only after this; %s", guardAdvice)
		}
	})
}

const guardAdvice = `begin with input.tool.name == "x", input.tool.name in {"x", "y"} or glob.match("x.*", ["."], input.tool.name)`

// isBare is the body of a rule without one.
func isBare(e *ast.Expr) bool {
	t, ok := e.Terms.(*ast.Term)
	return ok && ast.IsConstant(t.Value)
}

// iterates says that e is some x in.
func iterates(e *ast.Expr) bool {
	some, ok := e.Terms.(*ast.SomeDecl)
	if !ok || len(some.Symbols) == 0 {
		return false
	}
	_, ok = some.Symbols[0].Value.(ast.Call)
	return ok
}

func isToolName(x ast.Value) bool { return x.String() == "input.tool.name" }

// indexed says that OPA finds the rules that e holds for without trying them.
func indexed(e *ast.Expr) bool {
	if e.IsNegated() || len(e.With) > 0 || !e.IsCall() {
		return false
	}
	field := func(i int) bool {
		ref, ok := e.Operand(i).Value.(ast.Ref)
		return ok && ref.HasPrefix(ast.InputRootRef) && ref.IsGround()
	}
	constant := func(i int) bool { return ast.IsConstant(e.Operand(i).Value) }
	switch op := e.Operator(); {
	case isEqual(op):
		return field(0) && constant(1) || constant(0) && field(1)
	case op.Equal(ast.Member.Ref()):
		return field(0) && constant(1) || constant(0) && field(1)
	case op.Equal(ast.StartsWith.Ref()):
		return field(0) && constant(1)
	case op.Equal(ast.GlobMatch.Ref()):
		_, delimited := e.Operand(1).Value.(*ast.Array)
		return constant(0) && delimited && constant(1) && field(2)
	default:
		return false
	}
}
