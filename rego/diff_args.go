package rego

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxArgsOf     = 200 // arguments made for one tool
	maxValuesOf   = 60  // values tried for one argument
	maxArgsDepth  = 6
	justification = "because it is part of my work"
)

// argShape is one place of the schema of a tool's arguments: as much of it as says
// which values are worth trying.
type argShape struct {
	Type       jsontext.Value       `json:"type"`
	Enum       []jsontext.Value     `json:"enum"`
	Const      jsontext.Value       `json:"const"`
	Properties map[string]*argShape `json:"properties"`
	Items      *argShape            `json:"items"`
	MinItems   int                  `json:"minItems"`
	Minimum    jsontext.Value       `json:"minimum"`
	Maximum    jsontext.Value       `json:"maximum"`
	Ref        string               `json:"$ref"`
	Defs       map[string]*argShape `json:"$defs"`
}

func (s *argShape) is(name string) bool { return strings.Contains(string(s.Type), `"`+name+`"`) }

// argsFor are arguments for one tool: one document in which each argument has its
// first value, then each of the others in turn, and then some by chance.
func (g *generator) argsFor(t ToolInfo, rnd *dice) []jsontext.Value {
	var root argShape
	if t.Args == nil || json.Unmarshal(t.Args, &root) != nil {
		root = argShape{Properties: map[string]*argShape{}}
		for name := range g.c.args {
			root.Properties[name] = &argShape{Type: jsontext.Value(`"string"`)}
		}
	}
	g.defs = root.Defs
	pool := g.textsFor(t)
	values := map[string][]any{}
	names := sortedKeys(root.Properties)
	for _, name := range names {
		values[name] = g.values(root.Properties[name], pool, 0)
	}
	doc := func(pick func(name string, n int) int) jsontext.Value {
		d := map[string]any{}
		for _, name := range names {
			if i := pick(name, len(values[name])); i >= 0 && i < len(values[name]) {
				d[name] = values[name][i]
			}
		}
		b, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			return jsontext.Value("{}")
		}
		return b
	}
	out := []jsontext.Value{doc(func(string, int) int { return 0 }), jsontext.Value("{}")}
	for _, vary := range names {
		for i := range len(values[vary]) + 1 { // the last is without it
			out = append(out, doc(func(name string, n int) int {
				if name == vary {
					return (i + 1) % (n + 1)
				}
				return 0
			}))
		}
	}
	for range 20 {
		if len(names) > 1 {
			out = append(out, doc(func(_ string, n int) int { return rnd.IntN(n+1) - 1 }))
		}
	}
	// Those at the end of the list matter as much as those at its beginning.
	if rest := out[min(2, len(out)):]; len(out) > maxArgsOf {
		mix(rnd, rest)
	}
	return out[:min(len(out), maxArgsOf)]
}

func (g *generator) values(s *argShape, pool []string, depth int) []any {
	if s == nil || depth > maxArgsDepth {
		return nil
	}
	if def := g.defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; s.Ref != "" && def != nil {
		return g.values(def, pool, depth+1)
	}
	var out []any
	switch {
	case s.Const != nil:
		return []any{s.Const}
	case s.Enum != nil:
		for _, v := range s.Enum {
			out = append(out, v)
		}
	case s.is("boolean"):
		return []any{false, true}
	case s.is("integer"), s.is("number"):
		out = g.numbersFor(s)
	case s.is("array"):
		for _, v := range g.values(s.Items, pool, depth+1) {
			list := []any{v}
			for len(list) < s.MinItems && len(list) < 16 {
				list = append(list, v)
			}
			out = append(out, list)
		}
	case s.is("object") || s.Properties != nil:
		out = g.objects(s, pool, depth)
	default:
		for _, t := range pool {
			out = append(out, t)
		}
	}
	return out[:min(len(out), maxValuesOf)]
}

func (g *generator) objects(s *argShape, pool []string, depth int) []any {
	first := map[string]any{}
	more := map[string][]any{}
	for name, p := range s.Properties {
		if vs := g.values(p, pool, depth+1); len(vs) > 0 {
			first[name], more[name] = vs[0], vs[1:]
		}
	}
	out := []any{first}
	for _, name := range sortedKeys(more) {
		for _, v := range more[name] {
			d := map[string]any{}
			for k, w := range first {
				d[k] = w
			}
			d[name] = v
			out = append(out, d)
		}
	}
	return out
}

// numbersFor are the numbers of rules and those beside them.
func (g *generator) numbersFor(s *argShape) []any {
	var out []any
	add := func(n int64) { out = append(out, n) }
	for _, v := range []jsontext.Value{s.Minimum, s.Maximum} {
		var n int64
		if v != nil && json.Unmarshal(v, &n) == nil {
			add(n)
		}
	}
	add(1)
	add(0)
	for _, t := range sortedKeys(g.c.numbers) {
		var n int64
		if json.Unmarshal([]byte(t), &n) == nil && n > -1<<52 && n < 1<<52 {
			add(n)
			add(n + 1)
			add(n - 1)
		}
	}
	return out
}

// textsFor are texts to try: what the tool could reach, and what rules and data
// speak of, as it stands and as a URL or path of it.
func (g *generator) textsFor(t ToolInfo) []string {
	var out []string
	add := func(s string) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, f := range t.Caps.FS {
		dir := "/" + f.Root
		if f.Path != "." {
			dir += "/" + f.Path
		}
		add(dir + "/a.txt")
		add(dir)
	}
	for _, h := range t.Caps.HTTP {
		for _, host := range h.Hosts {
			add("https://" + strings.ReplaceAll(host, "*", "a") + "/")
		}
	}
	for _, e := range t.Caps.Exec {
		add(strings.TrimSpace(e.Command + " " + strings.ReplaceAll(strings.Join(e.Args, " "), "*", "x")))
	}
	add("x")
	var more []string
	for _, s := range sortedKeys(g.c.texts) {
		plain := strings.ReplaceAll(s, "*", "x")
		more = append(more, plain)
		if host := plain; strings.Contains(host, ".") && !strings.ContainsAny(host, "/ :") {
			more = append(more, "https://"+host+"/")
		}
		for _, f := range t.Caps.FS {
			if p := strings.Trim(plain, "/"); p != "" && !strings.ContainsAny(p, " :") {
				more = append(more, "/"+f.Root+"/"+p)
			}
		}
	}
	// Of more than can be tried, each tool gets others.
	rnd := newDice(t.Name+" texts", g.o.Seed)
	mix(rnd, more)
	for _, s := range more {
		if add(s); len(out) >= maxValuesOf {
			break
		}
	}
	return out
}
