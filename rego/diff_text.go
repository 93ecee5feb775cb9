package rego

import (
	"fmt"
	"strings"
)

// kindsInOrder are the kinds as people are told them.
var kindsInOrder = []DiffKind{NewlyAllowed, NewlyAsking, NewlyDenied, GrantWider, GrantOther, GrantLess, Eased, Tightened}

// Text is the report for people. Calls of one tool by people of the same roles that
// differ in the same way are told once, with the first of them.
func (r *DiffReport) Text() string {
	var b strings.Builder
	alike := map[string]int{}
	for _, d := range r.Differences {
		alike[d.likeness()]++
	}
	for _, d := range r.Differences {
		n := alike[d.likeness()]
		if n == 0 {
			continue // told already
		}
		alike[d.likeness()] = 0
		mark := " "
		if d.Opens {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %s\n    %s", mark, d.likeness(), strings.TrimSpace(d.Case+" by "+d.Who+" "+d.Args))
		if n > 1 {
			fmt.Fprintf(&b, "\n    and %d more calls", n-1)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "%d calls: %d as before", r.Calls, r.Same)
	for _, k := range kindsInOrder {
		if n := r.Kinds[k]; n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, strings.ReplaceAll(string(k), "_", " "))
		}
	}
	fmt.Fprintf(&b, "; %d open what was closed\n", r.Opens)
	return b.String()
}

func (d Difference) likeness() string {
	s := fmt.Sprintf("%s: %s by %s: %s -> %s", d.Kind, d.Tool, rolesText(d.Roles), d.WasAnswer, d.IsAnswer)
	if d.What != "" {
		s += " (" + d.What + ")"
	}
	return s
}

func rolesText(roles []string) string {
	if len(roles) == 0 {
		return "people of no role"
	}
	return "roles " + strings.Join(roles, ", ")
}
