package rego

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/callgate/callgate/engine/call"
)

// maxMisses is how many rules that nearly held are told.
const maxMisses = 20

// Explanation is what one layer answers, and why. Of the call it shows single
// values, cut, and none that looks like a secret.
type Explanation struct {
	Revision call.Revision  `json:"revision"`
	Verdict  call.Verdict   `json:"verdict"`           // deny also if there is no answer
	Code     call.Code      `json:"code,omitzero"`     // why there is no answer; "" if there is one
	Where    string         `json:"where,omitzero"`    // of the fault, if the policy has one
	Decision *call.Decision `json:"decision,omitzero"` // nil if there is no answer

	Fired  []FiredRule `json:"fired"`  // rules of the policy that held
	Nearly []NearMiss  `json:"nearly"` // rules that failed late, the closest first
	More   int         `json:"more,omitzero"`
}

// FiredRule is a rule that held.
type FiredRule struct {
	Rule  string `json:"rule"`  // callgate.rules.allow
	Where string `json:"where"` // file:line
	Title string `json:"title,omitzero"`
}

// NearMiss is a rule that was tried and failed, and the expression that failed.
type NearMiss struct {
	FiredRule
	Held   int        `json:"held"` // expressions that held before it
	Of     int        `json:"of"`   // expressions in the rule's body
	Failed Failure    `json:"failed"`
	Inside []NearMiss `json:"inside,omitzero"` // helpers that failed in it
}

// Failure is an expression that failed, and what stood in it.
type Failure struct {
	Expr   string       `json:"expr"`
	Where  string       `json:"where"`
	Values []ShownValue `json:"values,omitzero"`
}

// ShownValue is a part of an expression and its value, as JSON, cut and redacted.
type ShownValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Explain asks the policy about one call as [Policy.Decide] does, and watches. It
// takes many times as long.
//
// # Errors
//
// A fault of the policy is no error but an explanation with its code. An error means
// that nothing can be told: ctx ended, or the input has no JSON form.
func (p *Policy) Explain(ctx context.Context, in *call.Input) (x *Explanation, err error) {
	v, err := inputValue(in)
	if err != nil {
		return nil, noInput(err)
	}
	defer func() {
		if r := recover(); r != nil {
			x, err = nil, &call.Error{Code: call.CodePolicyError, Err: fmt.Errorf("panic in the evaluator: %v", r)}
		}
	}()
	w := newWatch()
	d, err := p.watched(ctx, v, in.Env.NowNS, w)
	if ctx.Err() != nil {
		// The evaluator may still write to w, and keep things in v.
		return nil, &call.Error{Code: call.CodePolicyTimeout, Err: errors.Join(ctx.Err(), err)}
	}
	hide := newRedactor(v)
	x = &Explanation{Revision: p.revision, Verdict: call.Deny}
	x.Fired, x.Nearly, x.More = w.report(hide)
	if e, ok := errors.AsType[*call.Error](err); ok {
		x.Code, x.Where = e.Code, e.Where
		return x, nil
	} else if err != nil {
		return nil, err
	}
	p.sign(&d)
	x.Verdict, x.Decision = d.Verdict, hide.decision(d)
	return x, nil
}

// watched is decide, with a tracer.
func (p *Policy) watched(ctx context.Context, in ast.Value, nowNS int64, w *watch) (call.Decision, error) {
	// The index leaves out what nearly held.
	v, err := p.eval(ctx, in, nowNS, oparego.EvalQueryTracer(w), oparego.EvalRuleIndexing(false))
	if err != nil {
		return call.Decision{}, err
	}
	return decode(v, p.role)
}

// report tells what was seen.
func (w *watch) report(hide redactor) (fired []FiredRule, nearly []NearMiss, more int) {
	fired, nearly = []FiredRule{}, []NearMiss{}
	for _, r := range w.fired {
		if tells(r) {
			fired = append(fired, named(r))
		}
	}
	best := map[*ast.Rule]*frame{}
	for _, f := range w.failed {
		if w.held[f.rule] || !missable(f.rule) || f.miss == nil {
			continue
		}
		if b := best[f.rule]; b == nil || f.miss.at > b.miss.at {
			best[f.rule] = f
		}
	}
	for _, f := range best {
		if mentionsTool(f.miss.expr) {
			continue // it is about another tool
		}
		if m := f.nearMiss(hide, maxInside); m.Held > 0 || m.Of == 1 {
			nearly = append(nearly, m)
		}
	}
	slices.SortFunc(fired, FiredRule.compare)
	fired = slices.Compact(fired)
	slices.SortFunc(nearly, NearMiss.compare)
	if more = len(nearly) - maxMisses; more > 0 {
		return fired, nearly[:maxMisses], more
	}
	return fired, nearly, 0
}
