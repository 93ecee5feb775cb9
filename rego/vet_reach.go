package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// reach finds the rules that a decision can read: those that the entrypoint reads
// and, as the library's other rules answer other questions, those that they read.
func (v *vetting) reach() {
	var queue []*ast.Rule
	push := func(r *ast.Rule) {
		for ; r != nil && !v.reached[r]; r = r.Else {
			v.reached[r] = true
			queue = append(queue, r)
		}
	}
	if entry, err := ast.ParseRef(v.entry); err == nil {
		for _, r := range v.compiler.GetRules(entry) {
			push(r)
		}
	}
	for _, m := range v.modules {
		if m.library && !m.test {
			for _, r := range m.compiled.Rules {
				push(r)
			}
		}
	}
	for len(queue) > 0 {
		r := queue[0]
		queue = queue[1:]
		for x := range v.compiler.Graph.Dependencies(r) {
			if dep, ok := x.(*ast.Rule); ok {
				push(dep)
			}
		}
	}
}

// tested are the rules that tests read.
func (v *vetting) tested() map[*ast.Rule]bool {
	out := map[*ast.Rule]bool{}
	var visit func(r *ast.Rule)
	visit = func(r *ast.Rule) {
		for ; r != nil && !out[r]; r = r.Else {
			out[r] = true
			for x := range v.compiler.Graph.Dependencies(r) {
				if dep, ok := x.(*ast.Rule); ok {
					visit(dep)
				}
			}
		}
	}
	for _, m := range v.modules {
		if !m.test || m.compiled == nil {
			continue
		}
		for _, r := range m.compiled.Rules {
			if strings.HasPrefix(nameOf(r), "test_") {
				visit(r)
			}
		}
	}
	return out
}

// didYouMean proposes the nearest of names, if one is near.
func didYouMean(given string, names []string) string {
	best, least := "", 3
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(given, n); d < least && d*2 <= len(given) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters are to be added, dropped or changed (Levenshtein).
func distance(x, y string) int {
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(x) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(y) {
			changed := corner
			if x[i] != y[j] {
				changed++
			}
			corner = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
