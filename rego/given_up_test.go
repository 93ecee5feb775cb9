package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/callgate/callgate/engine/call"
)

// doubling is a rule whose last value is made of 2^n parts, in one step in which the
// evaluator does not look whether it should end.
func doubling(n int, guard string) string {
	var b strings.Builder
	b.WriteString("package callgate\n\nimport rego.v2\n\ndefault decision := false\n\ndecision if {\n\t" + guard + "\n\tx0 := input.tool.name\n")
	for i := range n {
		fmt.Fprintf(&b, "\tx%d := [x%d, x%d]\n", i+1, i, i)
	}
	fmt.Fprintf(&b, "\tcount(x%d) == 3\n}\n", n)
	return b.String()
}

// stuck is some policy of that kind that takes a while and ends.
func stuck(t *testing.T) *Policy {
	t.Helper()
	return mustOpen(t, files("p.rego", doubling(20, `input.tool.name == "stuck"`)))
}

// An evaluation ends for its caller with its time, whatever the evaluator does, and what
// was given up is counted until it ends.
func TestEvaluationsAreGivenUp(t *testing.T) {
	p := stuck(t)
	listed := &Listing{shown: p.query, store: p.store, txn: p.txn}
	in := input(t, "stuck", `{}`)
	for name, ask := range map[string]func(context.Context) error{
		"decide":  func(ctx context.Context) error { _, err := p.Decide(ctx, in); return err },
		"explain": func(ctx context.Context) error { _, err := p.Explain(ctx, in); return err },
		"listing": func(ctx context.Context) error {
			v, err := inputValue(in)
			if err != nil {
				return err
			}
			_, err = listed.eval(ctx, p.query, oparego.EvalParsedInput(v))
			return err
		},
		"set": func(ctx context.Context) error {
			set, err := NewSet(p, told(t, "other", Restrict))
			if err != nil {
				return err
			}
			_, err = set.Decide(ctx, in)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			// It is somewhere between the beginning, where it would end by itself, and
			// the end, some hundred times as late.
			for most := time.Millisecond; most < time.Second; most *= 2 {
				ctx, cancel := context.WithTimeout(t.Context(), most)
				defer cancel()
				err := ask(ctx)
				if err != nil && call.CodeOf(err, "") != call.CodePolicyTimeout {
					t.Fatalf("got %v", err)
				}
				if s, ok := errors.AsType[*StillRuns](err); ok {
					<-s.Done
					return
				}
			}
			t.Error("always waited to the end")
		})
	}
	if got := answer(p.Decide(t.Context(), input(t, "quick", `{}`))); got != "deny" {
		t.Errorf("afterwards: %s", got)
	}
}

// Work that does not end is given up a few times, and then not begun.
func TestGivenUpIsCounted(t *testing.T) {
	var g givenUp
	hold := make(chan struct{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var running []*StillRuns
	try := func(ctx context.Context) error {
		_, err := run(ctx, &g, func() (int, error) { <-hold; return 1, nil }, func() {})
		return err
	}
	if err := try(ended); !errors.Is(err, context.Canceled) || g.n.Load() != 0 {
		t.Errorf("begun although its time was over: %v", err)
	}
	for range maxGivenUp {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		s, ok := errors.AsType[*StillRuns](try(ctx))
		if !ok {
			t.Fatal("not given up")
		}
		running = append(running, s)
	}
	if err := try(t.Context()); call.CodeOf(err, "") != call.CodePolicyTimeout {
		t.Errorf("begun beside all those: %v", err)
	}
	close(hold)
	for _, s := range running {
		<-s.Done
	}
	if n := g.n.Load(); n != 0 || try(t.Context()) != nil {
		t.Errorf("%d are counted when all have ended", n)
	}
	if _, err := run(t.Context(), &g, func() (int, error) { panic("x") }, func() {}); call.CodeOf(err, "") != call.CodePolicyError {
		t.Errorf("a panic: %v", err)
	}
}

// A policy that cannot be had to end answers no at once.
func TestPolicyOfGivenUpEvaluations(t *testing.T) {
	p := mustOpen(t, files("p.rego", "package callgate\n\ndecision := false\n"))
	p.givenUp.n.Store(maxGivenUp)
	if got := answer(p.Decide(t.Context(), input(t, "x", `{}`))); got != "policy_timeout" {
		t.Error(got)
	}
	if x, err := p.Explain(t.Context(), input(t, "x", `{}`)); err != nil || x.Code != call.CodePolicyTimeout {
		t.Errorf("%+v, %v", x, err)
	}
	p.givenUp.n.Add(-1)
	if got := answer(p.Decide(t.Context(), input(t, "x", `{}`))); got != "deny" {
		t.Error(got)
	}
}

// A bundle that takes too long is refused with a code, by all that read bundles, and so
// is one whose first answer does.
func TestLoadingIsGivenUp(t *testing.T) {
	slowly := files("p.rego", doubling(20, "true"))
	for most := time.Millisecond; ; most *= 2 {
		_, err := Open(t.Context(), slowly, Options{LoadTimeout: most})
		if call.CodeOf(err, "") != call.CodePolicyTimeout || len(Places(err)) != 1 {
			t.Fatalf("within %v: %v", most, err)
		}
		if s, ok := errors.AsType[*StillRuns](err); ok {
			<-s.Done
			break
		}
	}
	found, err := Check(t.Context(), slowly, CheckOptions{LoadTimeout: time.Millisecond})
	if err != nil || len(found) != 1 || found[0].Code != string(call.CodePolicyTimeout) || found[0].Severity != SeverityError {
		t.Errorf("%v, %v", found, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, slowly, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Check(ended, slowly, CheckOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
