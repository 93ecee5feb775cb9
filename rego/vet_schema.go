package rego

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
)

// node is one place of a JSON Schema: as much of it as says which fields there are
// and which constants.
type node struct {
	Type       string           `json:"type"`
	Enum       []any            `json:"enum"`
	Pattern    string           `json:"pattern"`
	Properties map[string]*node `json:"properties"`
	Patterns   map[string]*node `json:"patternProperties"`
	Items      *node            `json:"items"`
	Required   []string         `json:"required"`
	Additional jsontext.Value   `json:"additionalProperties"`
	Ref        string           `json:"$ref"`
	Defs       map[string]*node `json:"definitions"`

	path  string              // input.tool.class, as authors write it
	cased func(string) string // of text in one case, makes it so
	form  *regexp.Regexp      // of Pattern, if that is one of Go's
}

// UnmarshalJSONFrom takes the schemas true and false as well, which say nothing
// here.
func (n *node) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if k := d.PeekKind(); k == 't' || k == 'f' {
		return d.SkipValue()
	}
	type plain node
	return json.UnmarshalDecode(d, (*plain)(n))
}

var inputNode = sync.OnceValues(func() (*node, error) { return parseSchema(inputJSON, "input") })

var starterNode = sync.OnceValues(func() (*node, error) { return parseSchema(dataJSON, "data."+starterRoot) })

func parseSchema(text, path string) (*node, error) {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return nil, err
	}
	return n.settle(path, n.Defs, 0), nil
}

// maxDepth is more than any schema of ours is deep.
const maxDepth = 16

// settle gives each place its name, and puts definitions where they are used.
func (n *node) settle(path string, defs map[string]*node, depth int) *node {
	if n == nil || depth > maxDepth {
		return n
	}
	out := *n
	if def := defs[strings.TrimPrefix(n.Ref, "#/definitions/")]; n.Ref != "" && def != nil {
		out = *def
	}
	out.path = path
	if out.Pattern != "" {
		out.form, _ = regexp.Compile(out.Pattern)
	}
	out.Items = out.Items.settle(path+"[_]", defs, depth+1)
	out.Properties = settleAll(out.Properties, func(name string) string { return path + "." + name }, defs, depth)
	out.Patterns = settleAll(out.Patterns, func(string) string { return path + "[_]" }, defs, depth)
	return &out
}

func settleAll(ns map[string]*node, path func(string) string, defs map[string]*node, depth int) map[string]*node {
	if ns == nil {
		return nil
	}
	out := make(map[string]*node, len(ns))
	for name, n := range ns {
		out[name] = n.settle(path(name), defs, depth+1)
	}
	return out
}

func (n *node) closed() bool {
	return n.Type == "object" && string(n.Additional) == "false" && len(n.Patterns) == 0
}

// field is what stands at key, a constant or a variable. Neither a node nor
// missing is: the schema does not say.
func (n *node) field(key ast.Value) (_ *node, missing bool) {
	switch n.Type {
	case "array":
		switch key.(type) {
		case ast.Var, ast.Ref, ast.Number:
			return n.Items, false
		default:
			return nil, true
		}
	case "object":
		name, ok := key.(ast.String)
		if !ok {
			return nil, false
		}
		if p := n.Properties[string(name)]; p != nil {
			return p, false
		}
		return nil, n.closed()
	case "":
		return nil, false
	default:
		return nil, true
	}
}

// admits says that n can be c.
func (n *node) admits(c ast.Value) bool {
	at, _ := n.fault(c)
	return at == nil
}

// fault is the place in n that cannot be what stands there in c, and this; nil if n
// can be c.
func (n *node) fault(c ast.Value) (at *node, what ast.Value) {
	kind := ""
	switch c := c.(type) {
	case ast.Null: // a needless question, and an honest one
		return nil, nil
	case ast.String:
		if !n.mayBe(string(c)) {
			return n, c
		}
		kind = "string"
	case ast.Number:
		kind = "number"
	case ast.Boolean:
		kind = "boolean"
	case *ast.Array:
		kind = "array"
	case ast.Object:
		kind = "object"
	case ast.Set:
		kind = "set"
	}
	if n.Enum != nil && kind != "string" || n.Type != "" && strings.Replace(n.Type, "integer", "number", 1) != kind {
		return n, c
	}
	switch c := c.(type) {
	case *ast.Array:
		for i := range c.Len() {
			if at, what := n.faultAt(ast.IntNumberTerm(i).Value, c.Elem(i).Value); at != nil {
				return at, what
			}
		}
	case ast.Object:
		for _, k := range c.Keys() {
			if at, what := n.faultAt(k.Value, c.Get(k).Value); at != nil {
				return at, what
			}
		}
		for _, name := range n.Required {
			if n.closed() && c.Get(ast.StringTerm(name)) == nil {
				return n, c
			}
		}
	}
	return nil, nil
}

// mayBe says that a text can stand at n.
func (n *node) mayBe(s string) bool {
	switch {
	case n.Enum != nil:
		return slices.Contains(n.Enum, any(s))
	case n.cased != nil:
		return n.cased(s) == s
	default:
		return n.form == nil || n.form.MatchString(s)
	}
}

// mayHold says that a text of n can have part where holds looks for it.
func (n *node) mayHold(part string, holds func(s, part string) bool) bool {
	switch {
	case n.Enum != nil:
		return slices.ContainsFunc(n.names(), func(name string) bool { return holds(name, part) })
	case n.cased != nil:
		return n.cased(part) == part
	case n.form != nil && strings.HasPrefix(n.Pattern, "^[") && strings.HasSuffix(n.Pattern, "]*$"):
		return n.form.MatchString(part) // then each part of a text has its form
	case n.form != nil && strings.HasSuffix(n.Pattern, ")?$") && !holds("-"+part, part):
		return n.form.MatchString(part) // then each beginning has
	default:
		return true
	}
}

func (n *node) faultAt(key, c ast.Value) (at *node, what ast.Value) {
	next, missing := n.field(key)
	switch {
	case missing:
		return n, c
	case next == nil:
		return nil, nil
	default:
		return next.fault(c)
	}
}

// kindOf says what n is, for people.
func (n *node) kindOf() string {
	switch {
	case n.Enum != nil:
		names := make([]string, len(n.Enum))
		for i, e := range n.Enum {
			names[i], _ = e.(string)
		}
		return "one of " + strings.Join(names, ", ")
	case n.Type == "array":
		return "a list"
	case n.Type == "object":
		return "an object"
	case n.cased != nil && n.cased("a") == "a":
		return "text in lower case"
	case n.cased != nil:
		return "text in upper case"
	case n.form != nil:
		return "text like " + n.Pattern
	case n.Type == "string":
		return "text"
	case n.Type == "boolean":
		return "true or false"
	default:
		return "a number"
	}
}

func (n *node) names() []string {
	switch {
	case n.Enum != nil:
		var out []string
		for _, e := range n.Enum {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	case n.Type == "object":
		return sortedKeys(n.Properties)
	default:
		return nil
	}
}

// schemaNames says that the schema of the starter's data has a place at ref, which
// the data of a bundle may leave out.
func schemaNames(ref ast.Ref) bool {
	n, err := starterNode()
	if err != nil || len(ref) < 3 || !ref[1].Equal(ast.StringTerm(starterRoot)) {
		return false
	}
	for _, t := range ref[2:] {
		next, missing := n.field(t.Value)
		if next == nil {
			return !missing
		}
		n = next
	}
	return true
}
