package rego

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/callgate/callgate/engine/call"
)

// ErrNoListing says that a policy has no rules that say what principals are shown.
var ErrNoListing = errors.New("the policy does not say which tools are visible")

// visibleRule is where a policy says what a principal is shown.
const visibleRule = "data.callgate.visible"

// maxListed is how many names and patterns one principal is shown.
const maxListed = 10_000

// Listing knows which tools a policy shows to whom. To be shown is not to be
// allowed.
type Listing struct {
	shown, match oparego.PreparedEvalQuery
	store        storage.Store
	txn          storage.Transaction
	givenUp      givenUp
}

// OpenListing reads the rule visible of the bundle in fsys. With the base library
// that is what the rules of the word visible say.
//
// # Errors
//
// [ErrNoListing], and what [Open] says of a bundle that does not load.
func OpenListing(ctx context.Context, fsys fs.FS, o Options) (*Listing, error) {
	p, err := Open(ctx, fsys, o)
	if err != nil {
		return nil, err
	}
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return loading(ctx, o.LoadTimeout, func(ctx context.Context) (*Listing, error) { return openListing(ctx, fsys, o, p) })
}

func openListing(ctx context.Context, fsys fs.FS, o Options, p *Policy) (*Listing, error) {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return nil, err
	}
	l := &Listing{store: inmem.NewFromObjectWithOpts(b.Data, inmem.OptReturnASTValuesOnRead(true))}
	if l.txn, err = l.store.NewTransaction(ctx); err != nil {
		return nil, err
	}
	c, err := compile(b, caps, storage.NonEmpty(ctx, l.store, l.txn), o.Entrypoint)
	if err != nil {
		return nil, err
	}
	if !saysVisible(newVetting(b, c, o.Entrypoint)) {
		return nil, fmt.Errorf("bundle %s: %w", p.revision.Name, ErrNoListing)
	}
	l.shown, err = oparego.New(
		oparego.Query(visibleRule), oparego.Compiler(c), oparego.Store(l.store), oparego.Transaction(l.txn), oparego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	l.match, err = oparego.New(
		oparego.Query(`glob.match(input.pattern, ["."], input.name)`), oparego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	return l, err
}

// saysVisible says that an author has a rule that shows something: a word of the
// library, or without it a rule of the name.
func saysVisible(v *vetting) bool {
	found := false
	v.authors(func(m *module, r *ast.Rule) {
		switch {
		case v.library:
			found = found || m.pkg == rulesPath && nameOf(r) == "visible"
		default:
			found = found || m.pkg == "data."+ownRoot && nameOf(r) == "visible"
		}
	})
	return found
}

// Shown are the names and patterns that the principal is shown, sorted.
//
// # Errors
//
// [call.CodePolicyTimeout] if ctx ends first, and as [Policy.Decide].
func (l *Listing) Shown(ctx context.Context, who call.Principal, now time.Time) ([]string, error) {
	args, err := call.Canonical([]byte("{}"))
	if err != nil {
		return nil, err
	}
	in, err := inputValue(&call.Input{Args: args, Principal: who, Env: call.Env{NowNS: now.UnixNano()}})
	if err != nil {
		return nil, noInput(err)
	}
	rs, err := l.eval(ctx, l.shown, oparego.EvalParsedInput(in), oparego.EvalTime(now.UTC()), oparego.EvalTransaction(l.txn))
	if err != nil {
		return nil, err
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return nil, &call.Error{Code: call.CodePolicyUndefined}
	}
	list, ok := rs[0].Expressions[0].Value.([]any)
	if !ok || len(list) > maxListed {
		return nil, shape("visible: not a list of names", nil)
	}
	out := make([]string, 0, len(list))
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return nil, shape("visible: not a list of names", nil)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Shows says that one of the patterns is the tool's name or matches it, as the base
// library matches: a * stays within one part of a dotted name.
func (l *Listing) Shows(ctx context.Context, patterns []string, tool string) (bool, error) {
	if slices.Contains(patterns, tool) {
		return true, nil
	}
	for _, p := range patterns {
		if !strings.ContainsAny(p, "*?[{") {
			continue
		}
		rs, err := l.eval(ctx, l.match, oparego.EvalInput(map[string]any{"pattern": p, "name": tool}))
		if err != nil {
			return false, err
		}
		if rs.Allowed() {
			return true, nil
		}
	}
	return false, nil
}

// eval ends when ctx does.
func (l *Listing) eval(ctx context.Context, q oparego.PreparedEvalQuery, with ...oparego.EvalOption) (oparego.ResultSet, error) {
	cancel := topdown.NewCancel()
	rs, err := run(ctx, &l.givenUp, func() (oparego.ResultSet, error) {
		return q.Eval(ctx, append(with, oparego.EvalEarlyExit(false), oparego.EvalExternalCancel(cancel))...)
	}, cancel.Cancel)
	if e, ok := errors.AsType[*call.Error](err); ok {
		return nil, e
	}
	if ctx.Err() != nil {
		return nil, &call.Error{Code: call.CodePolicyTimeout, Err: errors.Join(ctx.Err(), err)}
	}
	if err != nil {
		return nil, &call.Error{Code: call.CodePolicyError, Where: where(err), Err: err}
	}
	return rs, nil
}
