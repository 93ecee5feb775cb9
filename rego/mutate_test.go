package rego

import (
	"encoding/json"
	"maps"
	"testing"

	gojson "github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
)

// mutants calls f with every version of v in which one value is gone or has
// another type. The engine makes none of them; policies must not need to be told.
func mutants(v any, f func(what string, mutant any)) {
	mutate(v, "", func(what string, mutant any, gone bool) {
		if !gone {
			f(what, mutant)
		}
	})
}

func mutate(v any, path string, f func(what string, mutant any, gone bool)) {
	f(path+" gone", nil, true)
	for name, other := range map[string]any{
		"null": nil, "true": true, "zero": 0, "empty text": "", "text": "analyst",
		"list": []any{"analyst"}, "empty list": []any{}, "object": map[string]any{"analyst": "analyst"}, "empty object": map[string]any{},
	} {
		if kind(other) != kind(v) {
			f(path+" is "+name, other, false)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			mutate(child, path+"/"+k, func(what string, mutant any, gone bool) {
				m := maps.Clone(v)
				if m[k] = mutant; gone {
					delete(m, k)
				}
				f(what, m, false)
			})
		}
	case []any:
		for i, child := range v {
			mutate(child, path+"/item", func(what string, mutant any, gone bool) {
				l := append([]any(nil), v...)
				if l[i] = mutant; gone {
					l = append(l[:i], l[i+1:]...)
				}
				f(what, l, false)
			})
		}
	}
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

// treeOf is an input as a tree to mutate.
func treeOf(t *testing.T, in *call.Input) (tree any) {
	t.Helper()
	b, err := gojson.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func valueOf(t *testing.T, tree any) ast.Value {
	t.Helper()
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	v, err := parseValue(b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMutantsNeverGetMore(t *testing.T) {
	p := mustOpen(t, withBase(t, bundles.Project()))
	calls := map[string]func() *call.Input{
		"allowed": func() *call.Input { return input(t, "echo", `{"text":"x"}`, "analyst") },
		"other role": func() *call.Input {
			in := input(t, "read-file", `{"path":"a"}`, "visitor")
			in.Facts.Paths = []call.Path{{Root: "docs", Path: "a", Segments: []string{"a"}, Mode: "read"}}
			return in
		},
		"findings": func() *call.Input {
			in := input(t, "list-dir", `{}`, "analyst")
			in.Tool.Findings = []string{"hidden instructions", "changed description"}
			return in
		},
		"unclassified": func() *call.Input {
			in := input(t, "echo", `{}`, "analyst")
			in.Tool.Class = "unclassified"
			return in
		},
	}
	for name, in := range calls {
		t.Run(name, func(t *testing.T) {
			in := in()
			original, err := p.Decide(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			tree := treeOf(t, in)
			n := 0
			mutants(tree, func(what string, mutant any) {
				n++
				d, err := p.decide(t.Context(), valueOf(t, mutant), in.Env.NowNS)
				if err != nil || d.Verdict == call.Deny {
					return
				}
				if d.Verdict == call.Allow && original.Verdict != call.Allow {
					t.Errorf("%s: %s becomes %s", what, original.Verdict, d.Verdict)
				}
				if len(d.Limits) == 0 {
					t.Errorf("%s: the limits are gone", what)
				}
			})
			if n < 200 {
				t.Errorf("only %d mutants", n)
			}
		})
	}
}
