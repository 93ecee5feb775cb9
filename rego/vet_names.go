package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// checkNames refuses variables that hide a rule, and those that = makes where a
// comparison was meant.
func (v *vetting) checkNames() {
	all, helpers := map[string]map[ast.Var]bool{}, map[string]map[ast.Var]bool{}
	for _, m := range v.modules {
		if all[m.pkg] == nil {
			all[m.pkg], helpers[m.pkg] = map[ast.Var]bool{}, map[ast.Var]bool{}
		}
		for _, r := range m.parsed.Rules {
			if name, ok := r.Head.Ref()[0].Value.(ast.Var); ok {
				all[m.pkg][name] = true
				// Words are not read by their name alone, so that hiding one harms nobody.
				if !(v.library && m.pkg == rulesPath && v.words[string(name)]) {
					helpers[m.pkg][name] = true
				}
			}
		}
	}
	for _, m := range v.modules {
		if !m.authored() {
			continue
		}
		imported := map[ast.Var]bool{}
		for _, i := range m.parsed.Imports {
			imported[i.Name()] = true
		}
		for _, r := range m.parsed.Rules {
			v.checkHidden(r, helpers[m.pkg])
			v.checkMade(r, func(x ast.Var) bool {
				return all[m.pkg][x] || imported[x] || ast.RootDocumentNames.Contains(ast.VarTerm(string(x)))
			})
		}
	}
}

func (v *vetting) checkHidden(r *ast.Rule, helpers map[ast.Var]bool) {
	declared := func(l *ast.Location, t *ast.Term) {
		if t == nil {
			return
		}
		ast.WalkVars(t, func(x ast.Var) bool {
			if helpers[x] {
				v.refuse(l, "rule_hidden", "the variable %s hides the rule of that name; give one another name", x)
			}
			return false
		})
	}
	ast.WalkRules(r, func(r *ast.Rule) bool {
		for _, a := range r.Head.Args {
			declared(r.Location, a)
		}
		return false
	})
	ast.WalkExprs(r, func(e *ast.Expr) bool {
		switch terms := e.Terms.(type) {
		case *ast.SomeDecl:
			for _, s := range terms.Symbols {
				in, ok := s.Value.(ast.Call)
				if !ok {
					declared(e.Location, s)
					continue
				}
				for _, t := range in[1 : len(in)-1] {
					declared(e.Location, t)
				}
			}
		case *ast.Every:
			declared(e.Location, terms.Key)
			declared(e.Location, terms.Value)
		case []*ast.Term:
			if e.IsAssignment() {
				declared(e.Location, e.Operand(0))
			}
		}
		return false
	})
}

// checkMade refuses a variable that stands in r only beside a =. It is then made
// there, and equal to whatever the other side is.
func (v *vetting) checkMade(r *ast.Rule, known func(ast.Var) bool) {
	count := map[ast.Var]int{}
	ast.WalkVars(r, func(x ast.Var) bool {
		count[x]++
		return false
	})
	ast.WalkExprs(r, func(e *ast.Expr) bool {
		if !e.IsCall() || !e.Operator().Equal(ast.Equality.Ref()) || len(e.Operands()) != 2 {
			return false
		}
		for _, t := range e.Operands() {
			if x, ok := t.Value.(ast.Var); ok && count[x] == 1 && !x.IsWildcard() && !known(x) {
				v.refuse(e.Location, "variable_made", "%s stands nowhere else in the rule, so that = makes it, and it is whatever the other side is", x)
			}
		}
		return false
	})
}
