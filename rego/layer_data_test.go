package rego

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// withLimits is a policy with this data under data.lim, and rules that have limits in
// a list of records and in a map.
func withLimits(t testing.TB, data string) *Policy {
	t.Helper()
	const src = `package callgate

decision if {
	input.tool.name == "t"
	not many
}

many if {
	some r in object.get(data.lim, "rules", [])
	input.args.n > object.get(r, "max", 0)
}

many if input.args.n > object.get(data.lim, "most", {})[input.principal.tenant]
`
	return mustOpen(t, files("p.rego", src, "lim/data.json", data))
}

// One release after the other is taken, and the last one is refused at the places
// told, or taken as well.
func TestRetypedInside(t *testing.T) {
	tests := []struct {
		name string
		data []string
		want string // places of types, or "" if the last is taken
	}{
		{"a record of a list", []string{`{"rules": [{"max": 3}]}`, `{"rules": [{"max": "3"}]}`}, "lim/rules[]/max: is of type string and was of type number"},
		{"one record of many", []string{`{"rules": [{"max": 3}, {"max": 4}]}`, `{"rules": [{"max": 3}, {"max": 4}, {"max": "5"}]}`}, "lim/rules[]/max: is of type string"},
		{"a record that had none", []string{`{"rules": [{"x": 1, "y": ""}, {"max": 4}]}`, `{"rules": [{"x": 1, "y": "", "max": "4"}]}`}, "lim/rules[]/max: is of type string"},
		{"either type was there", []string{`{"rules": [{"max": 3}, {"max": "4"}]}`, `{"rules": [{"max": "3"}]}`}, ""},
		{"neither type was there", []string{`{"rules": [{"max": 3}, {"max": "4"}]}`, `{"rules": [{"max": true}]}`}, "lim/rules[]/max: is of type boolean and was of type number or string"},
		{"a list in a list", []string{`{"rules": [[[1]]]}`, `{"rules": [[], [[2, "3"]]]}`}, "lim/rules[][][]: is of type string"},
		{"other records", []string{`{"rules": [{"max": 3}]}`, `{"rules": [{"max": 1}, {}, {"max": 4}]}`}, ""},

		{"a new key", []string{`{"most": {"a": 3, "b": 3, "c": 4}}`, `{"most": {"a": 3, "b": 3, "c": 4, "acme": "3"}}`}, "lim/most/acme: is of type string and was of type number"},
		{"a new key of few", []string{`{"most": {"beta": 3}}`, `{"most": {"beta": 3, "acme": "3"}}`}, ""},
		{"a new field beside objects", []string{`{"most": {"grant": {}, "args": {}}}`, `{"most": {"grant": {}, "args": {}, "who": ["a"]}}`}, ""},
		{"a new key of their type", []string{`{"most": {"beta": 3}}`, `{"most": {"beta": 3, "acme": 7}}`}, ""},
		{"the others do not agree", []string{`{"most": {"beta": 3, "note": "x"}}`, `{"most": {"beta": 3, "note": "x", "acme": "3"}}`}, ""},
		{"a new record", []string{`{"most": {"a": {"n": 1}, "b": {"n": 2, "m": [1]}}}`, `{"most": {"c": {"n": 1, "m": ["1"]}}}`}, "lim/most/c/m[]: is of type string"},
		{"a new key of a new record", []string{`{"most": {"a": {"n": 1, "o": 2, "p": 3}}}`, `{"most": {"b": {"m": "1"}}}`}, "lim/most/b/m: is of type string"},

		{"emptied, and filled", []string{`{"most": {"acme": 3}}`, `{"most": {}}`, `{"most": {"acme": "3"}}`}, "lim/most/acme: is of type string"},
		{"emptied, and filled with others", []string{`{"most": {"a": 3, "b": 4, "c": 5}}`, `{"most": {}}`, `{"most": {"beta": "3"}}`}, "lim/most/beta: is of type string"},
		{"emptied for long", []string{`{"most": {"acme": 3}}`, `{"most": {}}`, `{"most": {}, "rules": {}}`, `{"most": {"acme": "3"}}`}, "lim/most/acme: is of type string"},
		{"emptied, and filled alike", []string{`{"most": {"acme": 3}}`, `{"most": {}}`, `{"most": {"acme": 4}}`}, ""},
		{"a list emptied", []string{`{"rules": [{"max": 3}]}`, `{"rules": []}`, `{"rules": [{"max": "3"}]}`}, "lim/rules[]/max: is of type string"},
		{"emptied in a record", []string{`{"rules": [{"most": {"acme": 3}}]}`, `{"rules": [{"most": {}}]}`, `{"rules": [{"most": {"acme": "3"}}]}`}, "lim/rules[]/most/acme: is of type string"},
		{"gone among others", []string{`{"a": 1, "b": "", "c": {}}`, `{"b": "", "c": {}}`, `{"a": "1", "b": "", "c": {}}`}, "lim/a: is of type string"},
		{"gone with all", []string{`{"most": {"acme": 3}}`, `{}`, `{"most": {"acme": "3"}}`}, "lim/most/acme: is of type string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var now *Policy
			for i, data := range tt.data {
				next := withLimits(t, data)
				if now == nil {
					now = next
					continue
				}
				err := now.Retyped(t.Context(), next)
				want := tt.want
				if i < len(tt.data)-1 {
					want = ""
				}
				if places := Places(err); err == nil != (want == "") || err != nil && (len(places) != 1 || !strings.HasPrefix(places[0], "data/"+want)) {
					t.Fatalf("release %d: %v, want %q", i, err, want)
				}
				now = next
			}
		})
	}
}

// What Retyped is there for: a limit in a list or in a map, which no longer holds.
func TestRetypedLimits(t *testing.T) {
	for good, bad := range map[string]string{
		`{"rules": [{"max": 3}]}`:                         `{"rules": [{"max": "3"}]}`,
		`{"most": {"acme": 3, "beta": 3}}`:                `{"most": {"acme": "3", "beta": 3}}`,
		`{"most": {"a": 3, "b": 3, "c": 3}, "rules": []}`: `{"most": {"a": 3, "b": 3, "c": 3, "acme": "3"}, "rules": []}`,
	} {
		before, after := withLimits(t, good), withLimits(t, bad)
		if got := answer(after.Decide(t.Context(), input(t, "t", `{"n":5}`))); got != "allow" {
			t.Errorf("%s: %s: the limit holds", bad, got)
		}
		if before.Retyped(t.Context(), after) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// A refused release is not remembered, and neither is data under other rules.
func TestRetypedRemembersWhatDecides(t *testing.T) {
	a, b := withLimits(t, `{"most": {"acme": 3}}`), withLimits(t, `{"most": {"acme": "3"}}`)
	if a.Retyped(t.Context(), b) == nil {
		t.Fatal("taken")
	}
	if err := b.Retyped(t.Context(), withLimits(t, `{"most": {"acme": "4"}}`)); err != nil {
		t.Errorf("after a start with it: %v", err)
	}
	other := mustOpen(t, files("p.rego", "package callgate\n\ndecision := false\n", "lim/data.json", `{"most": {}}`))
	if err := a.Retyped(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, files("p.rego", "package callgate\n\ndecision := false\n", "lim/data.json", `{"most": {"acme": "3"}}`))
	if err := other.Retyped(t.Context(), again); err != nil {
		t.Errorf("other rules: %v", err)
	}
}

// Whatever is wrong, few places are told, and little is remembered.
func TestRetypedIsBounded(t *testing.T) {
	many := func(value string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":%s`, i, value)
		}
		return b.String()[1:]
	}
	for name, give := range map[string][2]string{
		"keys":     {`{` + many(`1`, 50) + `}`, `{` + many(`""`, 50) + `}`},
		"in depth": {`{` + many(`{"x":[1]}`, 50) + `}`, `{` + many(`{"x":["",{}]}`, 50) + `}`},
		"new keys": {`{"a": 1, "b": 2, "c": 3}`, `{` + many(`""`, 50) + `}`},
		"records":  {`{"l": [{` + many(`1`, 50) + `}]}`, `{"l": [{` + many(`""`, 50) + `}]}`},
		"types":    {`{` + many(`1`, 7) + `, "z": [1]}`, `{` + many(`""`, 7) + `, "z": [null, "", [], {}, true]}`},
	} {
		err := withLimits(t, give[0]).Retyped(t.Context(), withLimits(t, give[1]))
		if n := len(Places(err)); n != maxRetyped {
			t.Errorf("%s: %d places", name, n)
		}
	}

	full := withLimits(t, `{"most": {`+many(`1`, maxGone+100)+`}, "rules": [7]}`)
	empty := withLimits(t, `{"most": {}, "rules": []}`)
	if err := full.Retyped(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	if n := len(empty.places.Load().keys["lim"].keys["most"].keys); n != maxGone {
		t.Errorf("%d places are remembered", n)
	}
	if err := empty.Retyped(t.Context(), withLimits(t, `{"most": {"k0": ""}}`)); err == nil {
		t.Error("nothing is remembered of what is more than fits")
	}

	deep := func(n int) *Policy {
		return withLimits(t, `{"d": `+strings.Repeat(`[`, n)+strings.Repeat(`]`, n)+`}`)
	}
	if err := deep(maxDeep-2).Retyped(t.Context(), deep(maxDeep-2)); err != nil {
		t.Error(err)
	}
	if err := deep(1).Retyped(t.Context(), deep(maxDeep-1)); len(Places(err)) != 1 || !strings.Contains(err.Error(), "100 deep") {
		t.Errorf("deeper: %v", err)
	}
}

// One policy may be asked about several at once.
func TestRetypedAtOnce(t *testing.T) {
	p, next := withLimits(t, `{"most": {"acme": 3}}`), withLimits(t, `{"most": {}}`)
	done := make(chan error)
	for range 4 {
		go func() { done <- p.Retyped(context.Background(), next) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
