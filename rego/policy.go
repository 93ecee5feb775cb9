// Package rego turns a bundle of Rego into a Policy.
//
// [Open] reads, checks and compiles a bundle once and may take its time;
// [Policy.Decide] is the hot path: concurrent, and a pure function of the bundle
// and the input. Policies are plain OPA. Two settings are stricter than those of
// a plain opa test: an error in a builtin is an error of the decision, and every
// rule is evaluated, so that the order of rules never matters.
//
// # Layers
//
// A [Set] of policies decides together. Each is a layer with a [Role]: one that
// permits answers in data.callgate.decision, one that restricts in
// data.callgate.restriction, or either in what [Options].Entrypoint names. The
// answer is a boolean, {"allow": boolean, "reason"}, {"decision", "reason"} as
// adapters for agents have it, or a whole [call.Decision]. A [Shadow] tries layers
// that decide nothing yet.
//
// # What a policy cannot do
//
// Read anything but its input and its data. Builtins that could, such as
// http.send, are not among [Capabilities], and a bundle that calls one does not
// load. The time is the input's env.now_ns.
package rego

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/callgate/callgate/engine/call"
)

// Policy is one bundle, compiled: one layer. It never changes, and may be used by
// any number of goroutines at once. Layers decide together in a [Set].
type Policy struct {
	query    oparego.PreparedEvalQuery
	store    storage.Store
	txn      storage.Transaction // open for reading for ever: nothing writes
	patterns *patterns
	givenUp  givenUp                // evaluations that still run
	modules  string                 // digest of the rules alone
	places   atomic.Pointer[places] // of the data, and of what it no longer has; nil: as the data alone
	role     Role
	revision call.Revision
}

// Role is what the layer is there for.
func (p *Policy) Role() Role { return p.role }

// Revision names the bundle that decides.
func (p *Policy) Revision() call.Revision { return p.revision }

// Decide asks the policy about one call. It neither keeps nor changes in.
//
// # Errors
//
// Each is an [*call.Error] and means no. [call.CodePolicyUndefined]: the policy
// has no answer. [call.CodePolicyError]: a conflict, a builtin's error, or a
// defect in the evaluator. [call.CodePolicyTimeout]: ctx ended first, by its
// deadline or because the caller went away, or four evaluations that were given up
// still run: nothing can end them, see [StillRuns]. [call.CodePolicyShape]: the answer is
// not a decision. [call.CodeCapsInvalid] and [call.CodeCapsTooMany]: it grants
// what are not capabilities, or too many. [call.CodeObligationUnsupported]: it
// charges a limit afterwards. A restrict layer alone permits nothing: it passes.
func (p *Policy) Decide(ctx context.Context, in *call.Input) (call.Decision, error) {
	v, err := inputValue(in)
	if err != nil {
		return call.Decision{}, noInput(err)
	}
	return p.decide(ctx, v, in.Env.NowNS)
}

func noInput(err error) error {
	return &call.Error{Code: call.CodePolicyError, Detail: "the input has no JSON form", Err: err}
}

// decide takes the input as a value, so that tests can ask about inputs that
// the engine never makes.
func (p *Policy) decide(ctx context.Context, in ast.Value, nowNS int64) (_ call.Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &call.Error{Code: call.CodePolicyError, Err: fmt.Errorf("panic in the evaluator: %v", r)}
		}
	}()
	v, err := p.eval(ctx, in, nowNS)
	if err != nil {
		return call.Decision{}, err
	}
	d, err := decode(v, p.role)
	if err != nil {
		return call.Decision{}, err
	}
	p.sign(&d)
	return d, nil
}

// sign says whose decision it is.
func (p *Policy) sign(d *call.Decision) {
	for i := range d.Reasons {
		d.Reasons[i].Layer = p.revision.Name
	}
	for i := range d.Approvals {
		d.Approvals[i].Layer = p.revision.Name
	}
	for i := range d.Limits {
		d.Limits[i].Layer = p.revision.Name
	}
	d.Revisions = []call.Revision{p.revision}
}

// where is the kind and place of an evaluator's error, without its text, which may
// quote the input.
func where(err error) string {
	e, ok := errors.AsType[*topdown.Error](err)
	if !ok || e.Location == nil {
		return ""
	}
	return fmt.Sprintf("%s at %s:%d", e.Code, e.Location.File, e.Location.Row)
}

// eval asks the policy under the engine's settings, which more may only add to. It
// ends when ctx does. If the evaluator then still runs, in and what is in more are its
// own for ever.
func (p *Policy) eval(ctx context.Context, in ast.Value, nowNS int64, more ...oparego.EvalOption) (ast.Value, error) {
	cancel := topdown.NewCancel()
	rs, err := run(ctx, &p.givenUp, func() (oparego.ResultSet, error) {
		return p.query.Eval(ctx, append(more,
			oparego.EvalParsedInput(in),
			oparego.EvalTime(time.Unix(0, nowNS).UTC()),
			oparego.EvalEarlyExit(false),
			oparego.EvalTransaction(p.txn),
			oparego.EvalInterQueryBuiltinValueCache(p.patterns),
			oparego.EvalExternalCancel(cancel), // spares OPA a goroutine for each call
			oparego.EvalMetrics(metrics.NoOp()),
			oparego.EvalGenerateJSON(func(t *ast.Term, _ *oparego.EvalContext) (any, error) { return t.Value, nil }),
		)...)
	}, cancel.Cancel)
	refused, _ := errors.AsType[*call.Error](err)
	switch {
	case refused != nil && refused.Code == call.CodePolicyTimeout:
		return nil, refused
	case ctx.Err() != nil:
		// Even with an answer: some builtins do not watch for the end.
		return nil, &call.Error{Code: call.CodePolicyTimeout, Err: errors.Join(ctx.Err(), err)}
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, &call.Error{Code: call.CodePolicyError, Where: where(err), Err: err}
	case len(rs) != 1 || len(rs[0].Expressions) != 1:
		return nil, &call.Error{Code: call.CodePolicyUndefined}
	}
	v, ok := rs[0].Expressions[0].Value.(ast.Value)
	if !ok {
		return nil, &call.Error{Code: call.CodePolicyUndefined}
	}
	return v, nil
}
