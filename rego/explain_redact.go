package rego

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// hidden stands where a secret was.
const hidden = "[hidden]"

// secretNames are how things are called that nobody is shown.
var secretNames = regexp.MustCompile(`(?i)(secret|passw|passphrase|token|api_?-?key|private_?-?key|credential|authorization|cookie|bearer|signature)`)

// secretShapes are what keys and tokens look like, wherever they stand.
var secretShapes = regexp.MustCompile(`-----BEGIN |\b(AKIA|ASIA)[A-Z0-9]{16}|\bgh[opsur]_[A-Za-z0-9]{20}|\bgithub_pat_|\bglpat-|\bxox[abprs]-|\b[sr]k[-_](live|test|ant|proj)?[-_]?[A-Za-z0-9]{16}|\bAIza[A-Za-z0-9_-]{20}|\beyJ[A-Za-z0-9_-]{8,}\.|(?i)\b(bearer|basic) [A-Za-z0-9+/=_-]{8}|[a-z]://[^/\s:@]*:[^/\s@]+@`)

// minSecret is how long a text is that is looked for in others.
const minSecret = 4

// redactor hides what looks like a secret in the call, and whatever contains it or
// is a part of it.
type redactor struct{ secrets []string }

func newRedactor(in ast.Value) redactor {
	var r redactor
	r.collect("", in)
	slices.Sort(r.secrets)
	r.secrets = slices.Compact(r.secrets)
	return r
}

func secretName(name string) bool {
	return secretNames.MatchString(name[strings.LastIndexAny(name, `.["`)+1:]) || secretNames.MatchString(name)
}

func (r *redactor) collect(name string, v ast.Value) {
	switch v := v.(type) {
	case ast.String:
		if s := string(v); len(s) >= minSecret && (secretName(name) || secretShapes.MatchString(s)) {
			r.secrets = append(r.secrets, s)
		}
	case ast.Object:
		v.Foreach(func(k, x *ast.Term) { r.collect(name+"."+keyText(k), x.Value) })
	case *ast.Array:
		v.Foreach(func(x *ast.Term) { r.collect(name, x.Value) })
	}
}

// hides says that s must not be shown.
func (r redactor) hides(s string) bool {
	if secretShapes.MatchString(s) {
		return true
	}
	return slices.ContainsFunc(r.secrets, func(x string) bool {
		return strings.Contains(s, x) || len(s) >= minSecret && strings.Contains(x, s)
	})
}

func (r redactor) text(s string) string {
	if r.hides(s) {
		return hidden
	}
	return s
}

// value is v without what must not be shown.
func (r redactor) value(v ast.Value) ast.Value {
	switch v := v.(type) {
	case ast.String:
		return ast.String(r.text(string(v)))
	case *ast.Array:
		terms := make([]*ast.Term, 0, v.Len())
		v.Foreach(func(t *ast.Term) { terms = append(terms, ast.NewTerm(r.value(t.Value))) })
		return ast.NewArray(terms...)
	case ast.Set:
		out := ast.NewSet()
		v.Foreach(func(t *ast.Term) { out.Add(ast.NewTerm(r.value(t.Value))) })
		return out
	case ast.Object:
		var pairs [][2]*ast.Term
		v.Foreach(func(k, x *ast.Term) {
			shown := r.value(x.Value)
			if secretName(keyText(k)) {
				shown = ast.String(hidden)
			}
			pairs = append(pairs, [2]*ast.Term{ast.NewTerm(r.value(k.Value)), ast.NewTerm(shown)})
		})
		return ast.NewObject(pairs...)
	}
	return v
}

// Redacted is a decision about in as [Policy.Explain] shows it: without what looks like
// a secret of the call.
//
// # Errors
//
// The input has no JSON form.
func Redacted(in *call.Input, d call.Decision) (*call.Decision, error) {
	v, err := inputValue(in)
	if err != nil {
		return nil, noInput(err)
	}
	return newRedactor(v).decision(d), nil
}

// decision is d without secrets in what rules made of arguments.
func (r redactor) decision(d call.Decision) *call.Decision {
	d.Reasons, d.Limits, d.Approvals = slices.Clone(d.Reasons), slices.Clone(d.Limits), slices.Clone(d.Approvals)
	for i := range d.Reasons {
		d.Reasons[i].Message, d.Reasons[i].Remedy = r.text(d.Reasons[i].Message), r.text(d.Reasons[i].Remedy)
	}
	for i := range d.Limits {
		d.Limits[i].Key = r.text(d.Limits[i].Key)
	}
	for i := range d.Approvals {
		d.Approvals[i].Reason = r.text(d.Approvals[i].Reason)
	}
	return &d
}

// args is a whole document on one line, with what looks like a secret hidden.
func (r redactor) args(v ast.Value) string {
	b := bounded{max: 2 * call.MaxArgsBytes}
	if err := writeValue(jsontext.NewEncoder(&b), r.value(v), true); err != nil {
		return hidden
	}
	return cutText(string(bytes.TrimSpace(b.b)), maxArgsShown)
}
