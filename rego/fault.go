package rego

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/callgate/callgate/engine/call"
)

// fault is something to mend in a bundle. Its place is a file's name or a place in
// data, and nothing of what stands there; neither is its error's text, unless that
// is quoting.
type fault struct {
	place string
	err   error
}

func (f *fault) Error() string { return f.place + ": " + f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// quoting is an error whose text quotes what stands in a file, and what to say in
// its stead where that must not show.
type quoting struct {
	instead string
	error
}

func (q *quoting) Unwrap() error { return q.error }

// Places lists what an error of [Load] or [Open] says is to be mended: the names of
// files, with lines, or places in data, and what is wrong there. Unlike the error's
// text, it quotes nothing of what stands there, so that a log may hold it. Errors of
// others take part by a method Places() []string.
func Places(err error) []string {
	switch e := err.(type) { //nolint:errorlint // every error of the tree is looked at
	case nil:
		return nil
	case *fault:
		if q, ok := errors.AsType[*quoting](e.err); ok {
			return []string{e.place + ": " + q.instead}
		}
		return []string{e.Error()}
	case interface{ Places() []string }:
		return e.Places()
	case *call.Error:
		return []string{strings.TrimSpace(string(e.Code) + " " + e.Where)}
	case *ast.Error:
		if e.Location == nil {
			return []string{e.Code}
		}
		return []string{fmt.Sprintf("%s:%d: %s", e.Location.File, e.Location.Row, e.Code)}
	case ast.Errors:
		var out []string
		for _, x := range e {
			out = append(out, Places(x)...)
		}
		return out
	case interface{ Unwrap() []error }:
		var out []string
		for _, x := range e.Unwrap() {
			out = append(out, Places(x)...)
		}
		return out
	case interface{ Unwrap() error }:
		return Places(e.Unwrap())
	}
	return nil
}
