package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkZones refuses calls whose time zone might be "Local": the answer would
// depend on the machine, and a replay elsewhere would differ. So a zone is
// written out where it is used.
func checkZones(m *ast.Module) []error {
	var errs []error
	say := func(l *ast.Location, name string) {
		errs = append(errs, &fault{l.String(), fmt.Errorf(`%s takes env.now_ns, time.now_ns() or [ns, "Area/City"] with the zone written out, and never "Local"`, name)})
	}
	check := func(l *ast.Location, op ast.Ref, operands []*ast.Term) {
		for i := 0; i < zoned(op) && i < len(operands); i++ {
			if !namesZone(operands[i].Value) {
				say(l, op.String())
				return
			}
		}
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if x.IsCall() {
				check(x.Location, x.Operator(), x.Operands())
			}
		case *ast.Term:
			if c, ok := x.Value.(ast.Call); ok {
				check(x.Location, c.Operator(), c.Operands())
			}
		case *ast.With:
			if r, ok := x.Value.Value.(ast.Ref); ok && zoned(r) > 0 {
				say(x.Location, r.String())
			}
		}
		return false
	}).Walk(m)
	return errs
}

// zoned is how many of the first operands of op may carry a time zone.
func zoned(op ast.Ref) int {
	switch op.String() {
	case "time.add_date", "time.clock", "time.date", "time.format", "time.weekday":
		return 1
	case "time.diff":
		return 2
	default:
		return 0
	}
}

func namesZone(v ast.Value) bool {
	switch v := v.(type) {
	case ast.Number:
		return true
	case ast.Ref:
		return v.String() == "input.env.now_ns"
	case ast.Call:
		return v.Operator().String() == "time.now_ns"
	case *ast.Array:
		if v.Len() < 2 {
			return true
		}
		zone, ok := v.Elem(1).Value.(ast.String)
		return ok && zone != "Local"
	default:
		return false
	}
}
