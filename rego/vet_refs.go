package rego

import (
	"maps"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkRefs refuses references to data that is neither a rule nor a document of
// the bundle. They are undefined for ever: a deny that asks for one never fires.
func (v *vetting) checkRefs() {
	v.authors(func(_ *module, r *ast.Rule) {
		aliases := aliasesOf(r)
		ast.WalkExprs(r, func(e *ast.Expr) bool {
			given := targets(e)
			for _, target := range given {
				v.checkRef(e.Location, target, nil)
			}
			ast.WalkRefs(e, func(ref ast.Ref) bool {
				v.checkRef(e.Location, expand(ref, aliases), given)
				return false
			})
			return false
		})
		for _, t := range []*ast.Term{r.Head.Key, r.Head.Value} {
			if t != nil {
				ast.WalkRefs(t, func(ref ast.Ref) bool {
					v.checkRef(r.Location, expand(ref, aliases), nil)
					return false
				})
			}
		}
	})
}

// aliasesOf are the variables of r that stand for a place in data: x after
// x := data.hosts. The compiler gives each scope variables of its own.
func aliasesOf(r *ast.Rule) map[ast.Var]ast.Ref {
	out := map[ast.Var]ast.Ref{}
	ast.WalkExprs(r, func(e *ast.Expr) bool {
		if !e.IsEquality() || e.Negated {
			return false
		}
		for i := range 2 {
			name, ok := e.Operand(i).Value.(ast.Var)
			ref, isRef := e.Operand(1 - i).Value.(ast.Ref)
			if ok && isRef && !ref.HasPrefix(ast.InputRootRef) && len(ref.ConstantPrefix()) >= len(ref)-1 {
				out[name] = ref
			}
		}
		return false
	})
	return out
}

func expand(ref ast.Ref, aliases map[ast.Var]ast.Ref) ast.Ref {
	for range 8 { // an alias of an alias, and so on
		name, ok := ref[0].Value.(ast.Var)
		if !ok || aliases[name] == nil {
			return ref
		}
		ref = aliases[name].Concat(ref[1:])
	}
	return ref
}

// targets are what the modifiers of e replace: data that need not be there.
func targets(e *ast.Expr) []ast.Ref {
	var out []ast.Ref
	for _, w := range e.With {
		if ref, ok := w.Target.Value.(ast.Ref); ok {
			out = append(out, ref)
		}
	}
	return out
}

func (v *vetting) checkRef(l *ast.Location, ref ast.Ref, given []ast.Ref) {
	if !ref.HasPrefix(ast.DefaultRootRef) || len(ref) < 2 {
		return
	}
	prefix := ref.ConstantPrefix()
	for _, g := range given {
		if prefix.HasPrefix(g) {
			return
		}
	}
	for i := 2; i <= len(prefix); i++ {
		if len(v.compiler.GetRulesExact(prefix[:i])) > 0 {
			return // what is in a rule's value, OPA's types know
		}
		if v.isData(prefix[:i]) || v.isPackage(prefix[:i]) || schemaNames(prefix[:i]) {
			continue
		}
		name := strings.Trim(prefix[i-1].String(), `"`)
		v.refuse(l, "data_unknown", "%s is neither a rule nor data of this bundle%s", prefix[:i], didYouMean(name, v.beside(prefix[:i-1])))
		return
	}
}

// isPackage says that there are rules below ref.
func (v *vetting) isPackage(ref ast.Ref) bool { return v.compiler.RuleTree.Find(ref) != nil }

// isData says that the bundle has a document at ref.
func (v *vetting) isData(ref ast.Ref) bool {
	_, ok := document(v.bundle.Data, ref)
	return ok
}

func document(data any, ref ast.Ref) (any, bool) {
	for _, t := range ref[1:] {
		switch d := data.(type) {
		case map[string]any:
			name, ok := t.Value.(ast.String)
			if !ok {
				return nil, false
			}
			if data, ok = d[string(name)]; !ok {
				return nil, false
			}
		case []any:
			n, ok := t.Value.(ast.Number)
			i, whole := n.Int()
			if !ok || !whole || i < 0 || i >= len(d) {
				return nil, false
			}
			data = d[i]
		default:
			return nil, false
		}
	}
	return data, true
}

// beside are the names of rules and data below ref.
func (v *vetting) beside(ref ast.Ref) []string {
	names := map[string]bool{}
	for _, r := range v.compiler.GetRulesWithPrefix(ref) {
		if full := r.Ref(); len(full) > len(ref) {
			names[strings.Trim(full[len(ref)].String(), `"`)] = true
		}
	}
	d, _ := document(v.bundle.Data, ref)
	if m, ok := d.(map[string]any); ok {
		for name := range maps.Keys(m) {
			names[name] = true
		}
	}
	return sortedKeys(names)
}
