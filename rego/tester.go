package rego

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// Outcome is how a test ended.
type Outcome string

// The outcomes. Everything but pass and skip is a failure.
const (
	TestPass  Outcome = "pass"
	TestFail  Outcome = "fail"
	TestError Outcome = "error" // it could not be evaluated, or not in time
	TestSkip  Outcome = "skip"  // its name begins with todo_

	// TestDiffers is a test that passes under plain OPA and does not with the
	// engine's settings: errors of builtins are errors, and all rules are evaluated.
	TestDiffers Outcome = "differs_strict"
)

// TestSettings configure [Test]. The zero value runs all tests.
type TestSettings struct {
	// Run is a regular expression of the tests to run, by their whole names:
	// data.callgate.rules_test.test_x. Empty means all.
	Run string

	// Timeout bounds each test, each time it is run. Zero means 5 s.
	Timeout time.Duration
}

// TestReport is how the tests of a bundle ended.
type TestReport struct {
	Tests    []TestResult `json:"tests"` // by file and line
	Passed   int          `json:"passed"`
	Failed   int          `json:"failed"` // whatever the reason
	Skipped  int          `json:"skipped"`
	Coverage Coverage     `json:"coverage"`
}

// TestResult is how one test ended.
type TestResult struct {
	Name    string        `json:"name"`  // data.callgate.rules_test.test_x
	Where   string        `json:"where"` // file:line
	Outcome Outcome       `json:"outcome"`
	Detail  string        `json:"detail,omitzero"` // of a failure
	Output  string        `json:"output,omitzero"` // what it printed
	Took    time.Duration `json:"-"`
}

// Test runs the tests of the bundle in fsys with OPA's own runner, and those that
// pass once more with the engine's settings.
//
// # Errors
//
// An error means that the tests cannot be run: the bundle does not compile with
// [Capabilities], the pattern is none, or ctx ended.
func Test(ctx context.Context, fsys fs.FS, o TestSettings) (*TestReport, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if _, err := regexp.Compile(o.Run); err != nil {
		return nil, errors.New("rego: the pattern of tests is not a regular expression")
	}
	// However long they take, ctx ends it for the caller.
	return run(ctx, &givenUp{}, func() (*TestReport, error) { return runTests(ctx, fsys, o) }, func() {})
}

func runTests(ctx context.Context, fsys fs.FS, o TestSettings) (*TestReport, error) {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return nil, err
	}
	t := testRun{o: o, bundle: b, modules: map[string]*ast.Module{}, cover: cover.New()}
	t.store = inmem.NewFromObjectWithOpts(b.Data, inmem.OptReturnASTValuesOnRead(true))
	if t.txn, err = t.store.NewTransaction(ctx); err != nil {
		return nil, err
	}
	defer t.store.Abort(ctx, t.txn)
	for _, m := range b.Modules {
		t.modules[m.Path] = m.Parsed
	}
	// The runner calls it in tests that have cases.
	caps.Builtins = append(caps.Builtins, ast.InternalTestCase)
	t.compiler = ast.NewCompiler().
		WithCapabilities(caps).
		WithDefaultRegoVersion(ast.RegoV1).
		WithEnablePrintStatements(true).
		WithPathConflictsCheck(storage.NonEmpty(ctx, t.store, t.txn))
	return t.run(ctx)
}

// testRun is one run of a bundle's tests.
type testRun struct {
	o        TestSettings
	bundle   *bundle.Bundle
	modules  map[string]*ast.Module
	store    storage.Store
	txn      storage.Transaction
	compiler *ast.Compiler
	cover    *cover.Cover
}

func (t *testRun) run(ctx context.Context) (*TestReport, error) {
	parsed := map[string]*ast.Module{} // what the compiler makes of them is another thing
	for name, m := range t.modules {
		parsed[name] = m.Copy()
	}
	results, err := tester.NewRunner().
		SetCompiler(t.compiler).
		SetStore(t.store).
		SetModules(t.modules).
		SetDefaultRegoVersion(ast.RegoV1).
		SetCoverageQueryTracer(t.cover).
		CapturePrintOutput(true).
		Filter(t.o.Run).
		SetTimeout(t.o.Timeout).
		RunTests(ctx, t.txn)
	if err != nil {
		return nil, err
	}
	r := &TestReport{Tests: []TestResult{}}
	for x := range results {
		r.Tests = append(r.Tests, t.result(ctx, x))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(r.Tests, func(x, y TestResult) int {
		return FiredRule{Rule: x.Name, Where: x.Where}.compare(FiredRule{Rule: y.Name, Where: y.Where})
	})
	for _, x := range r.Tests {
		switch x.Outcome {
		case TestPass:
			r.Passed++
		case TestSkip:
			r.Skipped++
		default:
			r.Failed++
		}
	}
	r.Coverage = coverage(t.cover.Report(parsed), t.bundle)
	return r, nil
}

func (t *testRun) result(ctx context.Context, x *tester.Result) TestResult {
	r := TestResult{
		Name: x.Package + "." + x.Name, Where: placeOf(x.Location), Outcome: TestPass,
		Output: string(x.Output), Took: x.Duration,
	}
	switch {
	case x.Skip:
		r.Outcome = TestSkip
	case x.Error != nil:
		r.Outcome, r.Detail = TestError, x.Error.Error()
	case x.Fail:
		r.Outcome, r.Detail = TestFail, cmp.Or(failedCases(x), t.why(ctx, r.Name))
	default:
		if detail := t.strictly(ctx, r.Name, x); detail != "" {
			r.Outcome, r.Detail = TestDiffers, detail
		}
	}
	return r
}

// failedCases names the cases of a test with several.
func failedCases(x *tester.Result) string {
	var names []string
	for path, c := range x.SubResults.Iter {
		if c.Fail && len(c.SubResults) == 0 {
			names = append(names, strings.Join(path, "/"))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("cases: %s", strings.Join(names, ", "))
}
