package rego

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/callgate/callgate/engine/call"
)

// CheckOptions say what [Check] knows of where the bundle will decide. The zero
// value is a permit layer of which nothing else is known.
type CheckOptions struct {
	Role       Role
	Entrypoint string // as in [Options]

	// Tools are all there are. Nil is not known, and then rules for tools that
	// nobody has and grants that no tool can use are not found.
	Tools []ToolInfo

	// Roles are all that principals can have. Nil is not known.
	Roles []string

	// Lint asks for warnings as well.
	Lint bool

	// LoadTimeout is as in [Options]. A bundle that takes longer is found to.
	LoadTimeout time.Duration
}

// ToolInfo is what is known of one tool.
type ToolInfo struct {
	Name string
	Tool call.Tool
	Caps call.Caps // the most that its manifest allows

	// Args is the JSON Schema of its arguments. Nil is not known.
	Args jsontext.Value
}

// Check says what is wrong with the bundle in fsys, sorted by place: everything
// that [Open] would refuse it for has severity error. A bundle with none of those
// loads.
//
// # Errors
//
// An error is about the options, or says that ctx ended: nothing is known of the
// bundle.
func Check(ctx context.Context, fsys fs.FS, o CheckOptions) ([]Finding, error) {
	open := Options{Role: o.Role, Entrypoint: o.Entrypoint}
	if err := open.defaults(); err != nil {
		return nil, err
	}
	all, err := loading(ctx, o.LoadTimeout, func(ctx context.Context) ([]Finding, error) { return checkAll(ctx, fsys, open, o) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if code := call.CodeOf(err, ""); code != "" {
		return found("answer", err), nil
	}
	return all, err
}

func checkAll(ctx context.Context, fsys fs.FS, open Options, o CheckOptions) ([]Finding, error) {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return inOrder(found("bundle_files", err)), ctx.Err()
	}
	store := inmem.NewFromObjectWithOpts(b.Data, inmem.OptReturnASTValuesOnRead(true))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	c, err := compile(b, caps, storage.NonEmpty(ctx, store, txn), open.Entrypoint)
	if err := ctx.Err(); err != nil {
		return nil, err // nobody waits for more
	}
	v := newVetting(b, c, open.Entrypoint)
	v.findings = slices.Concat(
		found("package_reserved", checkLibraryPlace(b)), found("starter_data", checkStarter(b)), found("rules", err),
	)
	all := v.errors()
	if o.Lint && v.compiler != nil {
		v.lint(o)
		all = inOrder(v.findings)
	}
	if asError(all) == nil {
		// What shows only when it is asked.
		_, err := Open(ctx, fsys, open)
		all = inOrder(append(all, found("answer", err)...))
	}
	return all, ctx.Err()
}

// found is the tree of err as findings. Errors without a code of their own get code.
func found(code string, err error) []Finding {
	one := func(code, where, format string, args ...any) []Finding {
		return []Finding{{SeverityError, code, where, fmt.Sprintf(format, args...)}}
	}
	switch e := err.(type) { //nolint:errorlint // every error of the tree is looked at
	case nil:
		return nil
	case *fault:
		return one(code, e.place, "%v", e.err)
	case *call.Error:
		return one(string(e.Code), cmp.Or(e.Where, "bundle"), "%v", err)
	case *ast.Error:
		return one(e.Code, placeOf(e.Location), "%s", e.Message)
	case ast.Errors:
		var out []Finding
		for _, x := range e {
			out = append(out, found(code, x)...)
		}
		return out
	case interface{ Unwrap() []error }:
		var out []Finding
		for _, x := range e.Unwrap() {
			out = append(out, found(code, x)...)
		}
		return out
	}
	if inner := errors.Unwrap(err); inner != nil && code == "answer" {
		return found(code, inner)
	}
	return one(code, "bundle", "%v", err)
}
