package rego

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/bundles"
)

const tested = `package p

default allow := false

allow if input.tool.name == "x"

size := n if {
	n := to_number(input.args.n)
}

never := 1 if input.tool.name == "never"
`

func test(t testing.TB, src string, o TestSettings) *TestReport {
	t.Helper()
	r, err := Test(t.Context(), files("p.rego", tested, "p_test.rego", "package p_test\n\nimport data.p\n\n"+src), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      Outcome
		detail    string
	}{
		{"passes", `test_x if p.allow with input as {"tool": {"name": "x"}}`, TestPass, ""},
		{"fails", `test_x if p.allow with input as {"tool": {"name": "y"}}`, TestFail, ""},
		{"is skipped", `todo_test_x if p.allow`, TestSkip, ""},
		{"conflicts", "f := 1\n\nf := 2 if p.allow with input as {\"tool\": {\"name\": \"x\"}}\n\ntest_x if f == 1", TestError, "conflict"},
		{"has cases", "test_x[name] if {\n\tsome name, n in {\"a\": \"x\", \"b\": \"x\"}\n\tp.allow with input as {\"tool\": {\"name\": n}}\n}", TestPass, ""},
		{"has a case that fails", "test_x[name] if {\n\tsome name, n in {\"a\": \"x\", \"b\": \"y\"}\n\tp.allow with input as {\"tool\": {\"name\": n}}\n}", TestFail, "cases: b"},
		// An error of a builtin is undefined to plain OPA, and so not true.
		{"needs a builtin to fail", `test_x if not p.size with input as {"args": {"n": "many"}}`, TestDiffers, "to_number"},
		{"takes too long", `test_x if count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a == b]) == 3000`, TestError, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := TestSettings{Timeout: time.Minute}
			if tt.name == "takes too long" {
				o.Timeout = time.Millisecond
			}
			r := test(t, tt.src, o)
			if len(r.Tests) != 1 {
				t.Fatalf("%d tests: %+v", len(r.Tests), r.Tests)
			}
			got := r.Tests[0]
			if got.Outcome != tt.want || !strings.Contains(got.Detail, tt.detail) {
				t.Errorf("%s (%s), want %s (%s)", got.Outcome, got.Detail, tt.want, tt.detail)
			}
			if bad := tt.want != TestPass && tt.want != TestSkip; (r.Failed == 1) != bad {
				t.Errorf("%d failed", r.Failed)
			}
		})
	}
}

// Without early exit all rules are asked, so that a conflict that plain OPA passes
// over is one.
func TestDiffersWithoutEarlyExit(t *testing.T) {
	src := "f(x) if x == 1\n\nf(x) if {\n\tx == 1\n\tto_number(\"many\") == 2\n}\n\ntest_x if f(1)"
	if got := test(t, src, TestSettings{}).Tests[0]; got.Outcome != TestDiffers {
		t.Errorf("%s (%s)", got.Outcome, got.Detail)
	}
}

func TestRunChoosesTests(t *testing.T) {
	src := "test_a if true\n\ntest_b if true"
	if r := test(t, src, TestSettings{Run: "test_b$"}); len(r.Tests) != 1 || r.Tests[0].Name != "data.p_test.test_b" {
		t.Errorf("ran %+v", r.Tests)
	}
	if _, err := Test(t.Context(), files("p.rego", tested), TestSettings{Run: "("}); err == nil {
		t.Error("takes a pattern that is none")
	}
}

func TestCoverageIsOfWhatAuthorsWrote(t *testing.T) {
	c := test(t, `test_x if p.allow with input as {"tool": {"name": "x"}}`, TestSettings{}).Coverage
	if len(c.Files) != 1 || c.Files[0].File != "p.rego" || c.Percent >= 100 || c.Percent <= 0 || c.Missed == 0 {
		t.Fatalf("covered %+v", c)
	}
	found := false
	for _, l := range c.Files[0].Missed {
		found = found || l.First == 11
	}
	if !found {
		t.Errorf("the rule that nothing reaches is not in %+v", c.Files[0].Missed)
	}
}

// The bundles that are shipped pass, and their own tests reach all of their rules.
func TestShippedTestsPassStrictly(t *testing.T) {
	for name, b := range map[string]fs.FS{"project": withBase(t, bundles.Project()), "starter": withBase(t, bundles.Starter())} {
		r, err := Test(t.Context(), b, TestSettings{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed > 0 || r.Passed == 0 {
			t.Errorf("%s: %d passed, %d failed: %+v", name, r.Passed, r.Failed, r.Tests)
		}
		for _, f := range r.Coverage.Files {
			if strings.HasPrefix(f.File, "callgate/") || strings.HasSuffix(f.File, "_test.rego") {
				t.Errorf("%s: %s is counted", name, f.File)
			}
		}
		t.Logf("%s: %d tests reach %.1f%%", name, r.Passed, r.Coverage.Percent)
	}
}

func TestBundlesThatCannotBeTested(t *testing.T) {
	for name, src := range map[string]string{
		"syntax":                   "package p\n\nallow if",
		"a builtin left out":       "package p\n\nallow if http.send({\"url\": input.url, \"method\": \"get\"})",
		"a name that is not there": "package p\n\nallow if nothing",
	} {
		if r, err := Test(t.Context(), files("p.rego", src), TestSettings{}); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Test(ctx, files("p.rego", tested, "p_test.rego", "package p_test\n\ntest_x if true"), TestSettings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestJUnit(t *testing.T) {
	r := test(t, "test_a if true\n\ntest_b if {\n\tprint(\"a \\u0007 <bell>\")\n\tfalse\n}\n\ntodo_test_c if true", TestSettings{})
	var b bytes.Buffer
	if err := r.JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if got.Tests != 3 || got.Failures != 1 || got.Skipped != 1 || len(got.Suites) != 1 || got.Suites[0].Name != "data.p_test" || len(got.Suites[0].Cases) != 3 {
		t.Errorf("wrote %s", b.String())
	}
	if !strings.Contains(b.String(), `type="fail"`) || !strings.Contains(b.String(), "&lt;bell&gt;") {
		t.Errorf("wrote %s", b.String())
	}
}
