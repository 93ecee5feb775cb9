package rego

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// The most that is taken from a bundle to make calls of.
const (
	maxConstants   = 400 // texts and numbers of rules, and as many of data
	maxConstantLen = 200 // bytes
)

// constants are what rules and data of bundles speak of.
type constants struct {
	places  map[string]map[string]bool // by place of the input: input.tool.name
	args    map[string]bool            // names of arguments
	texts   map[string]bool            // all other texts
	numbers map[string]bool
}

func newConstants() *constants {
	return &constants{places: map[string]map[string]bool{}, args: map[string]bool{}, texts: map[string]bool{}, numbers: map[string]bool{}}
}

// at are the texts that a place of the input is compared with, sorted.
func (c *constants) at(place string) []string { return sortedKeys(c.places[place]) }

func (c *constants) put(place, text string) {
	if text == "" || len(text) > maxConstantLen || len(c.places[place]) >= maxConstants {
		return
	}
	if c.places[place] == nil {
		c.places[place] = map[string]bool{}
	}
	c.places[place][text] = true
}

// read adds what the bundle in fsys speaks of. It must be one that loads.
func (c *constants) read(ctx context.Context, fsys fs.FS, entrypoint string) error {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return err
	}
	store := inmem.NewFromObjectWithOpts(b.Data, inmem.OptReturnASTValuesOnRead(true))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return err
	}
	defer store.Abort(ctx, txn)
	compiler, err := compile(b, caps, storage.NonEmpty(ctx, store, txn), entrypoint)
	if err != nil {
		return err
	}
	v := newVetting(b, compiler, entrypoint)
	f, err := newFlow(v)
	if err != nil {
		return err
	}
	v.authors(func(_ *module, r *ast.Rule) {
		walkOwn(r, func(e *ast.Expr) { c.compared(f, f.scopes[r], e) })
		c.collect(r)
	})
	for _, m := range v.modules {
		if !m.test {
			c.labels(m)
		}
	}
	data, err := ast.InterfaceToValue(b.Data)
	if err != nil {
		return err
	}
	c.document(nil, data)
	return nil
}

// compared adds the texts that an expression compares a place of the input with.
func (c *constants) compared(f *flow, s scope, e *ast.Expr) {
	if !e.IsCall() {
		return
	}
	of := func(i int) meaning { return f.mean(e.Operand(i), s, start(e)) }
	pair := func(place, given meaning) {
		for _, n := range place.nodes {
			for _, x := range given.consts {
				for _, t := range texts(x) {
					c.put(n.path, t)
				}
			}
		}
	}
	switch op := e.Operator(); {
	case e.IsEquality(), op.Equal(ast.NotEqual.Ref()):
		pair(of(0), of(1))
		pair(of(1), of(0))
	case op.Equal(ast.Member.Ref()):
		elems := step(of(1), ast.Wildcard.Value)
		pair(of(0), elems)
		pair(elems, of(0))
	case op.String() == "data.callgate.lib.role", op.String() == "data.callgate.lib.untouched":
		place := "input.principal.roles[_]"
		if strings.HasSuffix(op.String(), "untouched") {
			place = labelsPlace
		}
		for _, x := range of(0).consts {
			for _, t := range texts(x) {
				c.put(place, t)
			}
		}
	case op.Equal(ast.StartsWith.Ref()) || op.Equal(ast.GlobMatch.Ref()):
		at, pattern := 0, 1
		if op.Equal(ast.GlobMatch.Ref()) {
			at, pattern = 2, 0
		}
		if t, ok := e.Operand(pattern).Value.(ast.String); ok && isAt(of(at), "input.tool.name") {
			c.put("input.tool.name", strings.ReplaceAll(string(t), "*", "x"))
		}
	}
}

const labelsPlace = "input.session.labels[_]"

// labels adds those that the rules of m give, the library's too.
func (c *constants) labels(m *module) {
	for _, r := range m.compiled.Rules {
		if name := nameOf(r); (name == "label" || name == "result_label") && r.Head.Key != nil {
			if s, ok := r.Head.Key.Value.(ast.String); ok {
				c.put(labelsPlace, string(s))
			}
		}
	}
}

// collect adds the texts and numbers of a rule, and the names of its arguments.
func (c *constants) collect(r *ast.Rule) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Ref:
			if name, ok := argument(x); ok {
				c.args[name] = true
			}
			return true // its parts are names
		case ast.String:
			c.text(string(x))
		case ast.Number:
			if len(c.numbers) < maxConstants {
				c.numbers[string(x)] = true
			}
		}
		return false
	}).Walk(r)
}

func (c *constants) text(s string) {
	if s != "" && len(s) <= maxConstantLen && len(c.texts) < maxConstants {
		c.texts[s] = true
	}
}

// document adds the texts of data, and what data says of tools and roles by where
// it says so.
func (c *constants) document(path []string, v ast.Value) {
	in := func(names ...string) bool { return slices.Equal(path, names) }
	switch v := v.(type) {
	case ast.Object:
		v.Foreach(func(k, x *ast.Term) {
			name := keyText(k)
			switch {
			case in("starter", "tools"):
				c.put("input.tool.name", name)
			case in("starter", "roles"), in("inherits"):
				c.put("input.principal.roles[_]", name)
			case len(path) > 0 && path[len(path)-1] == "args":
				c.args[name] = true
			}
			c.document(append(slices.Clone(path), name), x.Value)
		})
	case *ast.Array:
		v.Foreach(func(x *ast.Term) { c.document(path, x.Value) })
	case ast.String:
		if len(path) > 0 {
			switch last := path[len(path)-1]; {
			case last == "roles", len(path) == 2 && path[0] == "inherits":
				c.put("input.principal.roles[_]", string(v))
			case last == "labels":
				c.put(labelsPlace, string(v))
			case last == "ids":
				c.put("input.principal.id", string(v))
			case last == "tenants":
				c.put("input.principal.tenant", string(v))
			case len(path) == 3 && path[0] == starterRoot && path[1] == "roles" && !strings.Contains(string(v), "*"):
				c.put("input.tool.name", string(v))
			case last == "tools" && !strings.Contains(string(v), "*"):
				c.put("input.tool.name", string(v))
			}
		}
		c.text(string(v))
	case ast.Number:
		if len(c.numbers) < maxConstants {
			c.numbers[string(v)] = true
		}
	}
}
