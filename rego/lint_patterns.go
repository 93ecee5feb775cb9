package rego

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// lintPatterns warns of patterns that match more than they seem to, where that
// permits more.
func (v *vetting) lintPatterns() {
	v.permissive(func(r *ast.Rule, e *ast.Expr) {
		if e.IsCall() {
			v.lintPattern(e.Location, e.Operator().String(), e.Operands(), func(t *ast.Term) ast.Value { return standsFor(r, t.Value) })
		}
	})
}

// standsFor is the reference that the compiler made a variable of.
func standsFor(r *ast.Rule, x ast.Value) ast.Value {
	out := x
	walkOwn(r, func(e *ast.Expr) {
		if e.IsEquality() && e.Operand(0).Value.Compare(x) == 0 {
			if ref, ok := e.Operand(1).Value.(ast.Ref); ok {
				out = ref
			}
		}
	})
	return out
}

func (v *vetting) lintPattern(l *ast.Location, op string, operands []*ast.Term, of func(*ast.Term) ast.Value) {
	if len(operands) < 2 {
		return
	}
	constant := func(i int) string {
		s, _ := operands[i].Value.(ast.String)
		return string(s)
	}
	switch op {
	case "regex.match", "re_match":
		if p := constant(0); p != "" && !anchored(p) {
			v.warn(l, "pattern_unanchored",
				"the pattern matches anywhere in the text; begin it with ^ and end it with $, or say .* where anything may stand")
		}
	case "endswith":
		if s := constant(1); isHost(of(operands[0]), s) && !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "@") {
			v.warn(l, "host_suffix", "%q is also the end of other hosts' names, as of evil%s; compare the whole host, or u.wildcard in {\"*.%s\"}", s, s, s)
		}
	case "startswith":
		if s := constant(1); isOrigin(s) {
			v.warn(l, "host_prefix", "%q is also the beginning of other hosts' names, as of %s.evil.example; compare u.host of input.facts.urls", s, s)
		}
	case "contains":
		if s := constant(1); isHost(of(operands[0]), s) {
			v.warn(l, "host_part", "%q can be anywhere in another host's name; compare the whole host", s)
		}
	case "glob.match":
		if _, ok := operands[1].Value.(ast.Null); ok {
			v.warn(l, "glob_undelimited", `with null for delimiters * matches dots and slashes; write ["."] or ["/"]`)
		}
	}
}

var (
	domain = regexp.MustCompile(`^[.@]?([a-z0-9-]+\.)+[a-z]{2,}$`)
	origin = regexp.MustCompile(`^[a-z]+://[^/]+$`)
)

func isOrigin(s string) bool { return origin.MatchString(s) }

// isHost says that x holds a host, by its name, and s is like one.
func isHost(x ast.Value, s string) bool {
	name := x.String()
	if ref, ok := x.(ast.Ref); ok {
		name = strings.Trim(ref[len(ref)-1].String(), `"`)
	}
	named := slices.ContainsFunc([]string{"host", "domain", "url", "origin", "server", "endpoint"}, func(part string) bool {
		return strings.Contains(strings.ToLower(name), part)
	})
	return named && domain.MatchString(s)
}

// anchored says that the pattern states both its ends, if only by .* or by an
// alternative.
func anchored(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return true // OPA says so
	}
	return ends(re, 0) && ends(re, 1)
}

// ends says that re states its beginning (side 0) or its end (side 1).
func ends(re *syntax.Regexp, side int) bool {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpBeginLine:
		return side == 0
	case syntax.OpEndText, syntax.OpEndLine:
		return side == 1
	case syntax.OpConcat:
		return ends(re.Sub[side*(len(re.Sub)-1)], side)
	case syntax.OpAlternate:
		if sided(re, side) {
			return true
		}
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !ends(s, side) })
	case syntax.OpCapture:
		return ends(re.Sub[0], side)
	case syntax.OpStar:
		return re.Sub[0].Op == syntax.OpAnyChar || re.Sub[0].Op == syntax.OpAnyCharNotNL
	default:
		return false
	}
}

// sided says that an alternative is nothing but the end of the text, as in
// (^|/)name: whoever wrote it has thought of what stands before.
func sided(re *syntax.Regexp, side int) bool {
	return slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool {
		switch s.Op {
		case syntax.OpBeginText, syntax.OpBeginLine:
			return side == 0
		case syntax.OpEndText, syntax.OpEndLine:
			return side == 1
		default:
			return false
		}
	})
}
