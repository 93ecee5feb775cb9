package rego

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
)

// lintWorld warns of rules that can never hold where the bundle will decide: for
// tools, roles or arguments that there are none of.
func (v *vetting) lintWorld(o CheckOptions) {
	f, err := newFlow(v)
	if err != nil {
		return // said already
	}
	w := worldly{v: v, o: o, f: f}
	w.labels, w.allLabels = v.labelsOf()
	v.authors(func(_ *module, r *ast.Rule) {
		s := f.scopes[r]
		walkOwn(r, func(e *ast.Expr) {
			w.lintNames(s, e)
			ast.WalkRefs(e, func(ref ast.Ref) bool {
				v.lintArgument(o, r, e.Location, ref)
				return false
			})
		})
	})
	v.lintApprovers(o)
}

// labelsOf are the labels that the rules of the bundle add, and whether these are
// all of them.
func (v *vetting) labelsOf() (names []string, all bool) {
	all = v.library
	v.authors(func(m *module, r *ast.Rule) {
		if word := v.wordOf(m, r); word != "label" && word != "result_label" || r.Head.Key == nil {
			return
		}
		if s, ok := r.Head.Key.Value.(ast.String); ok {
			names = append(names, string(s))
		} else {
			all = false
		}
	})
	return names, all && len(names) > 0
}

// worldly is what names are compared with.
type worldly struct {
	v         *vetting
	o         CheckOptions
	f         *flow
	labels    []string
	allLabels bool
}

func (w *worldly) lintNames(s scope, e *ast.Expr) {
	if !e.IsCall() {
		return
	}
	of := func(i int) meaning { return w.f.mean(e.Operand(i), s, start(e)) }
	switch op := e.Operator(); {
	case e.IsEquality(), op.Equal(ast.NotEqual.Ref()):
		w.lintPair(e.Location, of(0), of(1))
		w.lintPair(e.Location, of(1), of(0))
	case op.Equal(ast.Member.Ref()):
		elems := step(of(1), ast.Wildcard.Value)
		w.lintPair(e.Location, of(0), elems)
		w.lintPair(e.Location, elems, of(0))
	case op.Equal(ast.StartsWith.Ref()):
		p, ok := e.Operand(1).Value.(ast.String)
		begins := func(t ToolInfo) bool { return strings.HasPrefix(t.Name, string(p)) }
		if ok && w.o.Tools != nil && isAt(of(0), "input.tool.name") && !slices.ContainsFunc(w.o.Tools, begins) {
			w.v.warn(e.Location, "tool_unknown", "no tool's name begins with %s", p)
		}
	case op.String() == "data.callgate.lib.role":
		for _, c := range of(0).consts {
			w.v.lintRole(w.o, e.Location, texts(c))
		}
	}
}

// isAt says that m is this place of the input and nothing else.
func isAt(m meaning, path string) bool {
	return len(m.nodes) == 1 && len(m.consts) == 0 && m.nodes[0].path == path
}

func (w *worldly) lintPair(l *ast.Location, place, given meaning) {
	if !place.known || !given.known || len(place.nodes) == 0 {
		return
	}
	for _, c := range given.consts {
		switch place.nodes[0].path {
		case "input.tool.name":
			w.v.lintTool(w.o, l, texts(c))
		case "input.principal.roles[_]":
			w.v.lintRole(w.o, l, texts(c))
		case "input.session.labels[_]":
			w.lintLabel(l, texts(c))
		}
	}
}

func (w *worldly) lintLabel(l *ast.Location, names []string) {
	for _, n := range names {
		if w.allLabels && !slices.Contains(w.labels, n) {
			w.v.warn(l, "label_unknown", "no rule of this bundle adds the label %s%s", n, didYouMean(n, w.labels))
		}
	}
}

func (v *vetting) lintTool(o CheckOptions, l *ast.Location, names []string) {
	if o.Tools == nil {
		return
	}
	var all []string
	for _, t := range o.Tools {
		all = append(all, t.Name)
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			v.warn(l, "tool_unknown", "no tool is named %s%s", n, didYouMean(n, all))
		}
	}
}

func (v *vetting) lintRole(o CheckOptions, l *ast.Location, names []string) {
	for _, n := range names {
		if o.Roles != nil && !slices.Contains(o.Roles, n) {
			v.warn(l, "role_unknown", "nobody has the role %s%s", n, didYouMean(n, o.Roles))
		}
	}
}

// lintApprovers warns of an approval that nobody can give.
func (v *vetting) lintApprovers(o CheckOptions) {
	v.written(func(m *module, r *ast.Rule) {
		if v.wordOf(m, r) != "ask" || r.Head.Key == nil {
			return
		}
		if entry, ok := r.Head.Key.Value.(ast.Object); ok {
			if roles := entry.Get(ast.StringTerm("from")); roles != nil {
				if from, ok := roles.Value.(ast.Object); ok && from.Get(ast.StringTerm("roles")) != nil {
					v.lintRole(o, r.Location, texts(from.Get(ast.StringTerm("roles")).Value))
				}
			}
		}
	})
}

// toolsOf are the tools that r can hold for: those that its guards name, else all.
func toolsOf(o CheckOptions, r *ast.Rule) []ToolInfo {
	named := map[string]bool{}
	locals := map[string]bool{"input.tool.name": true}
	for _, e := range r.Body {
		if !e.IsCall() || e.IsNegated() {
			continue
		}
		for i := range 2 {
			if len(e.Operands()) == 2 && isEqual(e.Operator()) && locals[e.Operand(i).Value.String()] {
				locals[e.Operand(1-i).Value.String()] = true
			}
		}
		var given []string
		switch op := e.Operator(); {
		case isEqual(op) && locals[e.Operand(0).Value.String()]:
			given = texts(e.Operand(1).Value)
		case isEqual(op) && locals[e.Operand(1).Value.String()]:
			given = texts(e.Operand(0).Value)
		case op.Equal(ast.Member.Ref()) && locals[e.Operand(0).Value.String()]:
			given = texts(e.Operand(1).Value)
		}
		for _, n := range given {
			named[n] = true
		}
	}
	if len(named) == 0 {
		return o.Tools
	}
	var out []ToolInfo
	for _, t := range o.Tools {
		if named[t.Name] {
			out = append(out, t)
		}
	}
	return out
}

// lintArgument warns of an argument that no tool of the rule has.
func (v *vetting) lintArgument(o CheckOptions, r *ast.Rule, l *ast.Location, ref ast.Ref) {
	name, ok := argument(ref)
	if !ok {
		return
	}
	tools := toolsOf(o, r)
	var all []string
	for _, t := range tools {
		n, known := argsOf(t)
		if !known || !n.closed() || n.Properties[name] != nil {
			return
		}
		all = append(all, n.names()...)
	}
	if len(tools) > 0 {
		v.warn(l, "argument_unknown", "no tool that the rule is for has an argument %s%s", name, didYouMean(name, all))
	}
}

func argument(ref ast.Ref) (string, bool) {
	if len(ref) < 3 || !ref.HasPrefix(ast.InputRootRef) || !ref[1].Equal(ast.StringTerm("args")) {
		return "", false
	}
	name, ok := ref[2].Value.(ast.String)
	return string(name), ok
}

func argsOf(t ToolInfo) (*node, bool) {
	if t.Args == nil {
		return nil, false
	}
	var n node
	if err := json.Unmarshal(t.Args, &n); err != nil {
		return nil, false
	}
	return n.settle(fmt.Sprintf("arguments of %s", t.Name), n.Defs, 0), true
}

// required says that every tool of r requires the argument at ref.
func (v *vetting) required(o CheckOptions, r *ast.Rule, ref ast.Ref) bool {
	name, ok := argument(ref)
	if !ok || len(ref) > 3 {
		return false
	}
	tools := toolsOf(o, r)
	for _, t := range tools {
		n, known := argsOf(t)
		if !known || !slices.Contains(n.Required, name) {
			return false
		}
	}
	return len(tools) > 0
}
