package rego

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/bundles"
)

// times is one text n times, with the number in it.
func times(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// deep is a rule with n levels of something.
func deep(n int, open, closing string) string {
	return "x := " + times(n, open) + "1" + strings.Repeat(closing, n) + "\n"
}

// What OPA takes for ever to compile is refused before it is parsed, with its place.
func TestBounds(t *testing.T) {
	for name, tt := range map[string]struct{ good, bad, want string }{
		"comprehensions in bodies": {deep(8, "{ y%[1]d | y%[1]d := ", "}"), deep(9, "{ y%[1]d | y%[1]d := ", "}"), "comprehensions"},
		"comprehensions in heads":  {deep(8, "[%.0d", " | true]"), deep(9, "[%.0d", " | true]"), "comprehensions"},
		"objects":                  {deep(8, "{ 1: y%[1]d | y%[1]d := ", "}"), deep(20, "{ 1: y%[1]d | y%[1]d := ", "}"), "comprehensions"},
		"templates":                {deep(8, `$"a{%.0d`, `}\{"`), deep(9, `$"a{%.0d`, `}\{"`), "templates"},
		"raw templates":            {deep(8, "$`\n{%.0d", "}`"), deep(300, "$`\n{%.0d", "}`"), "templates"},
		"composite keys":           {deep(9, "{%.0d", ": 1}"), deep(64, "{%.0d", "\n# x\n: 1}"), "composite keys"},
		"every": {
			"x if {" + times(8, "every y%d in [1] { ") + "true" + strings.Repeat("}", 9) + "\n",
			"x if {" + times(9, "every y%d in [1] { ") + "true" + strings.Repeat("}", 10) + "\n", "every",
		},
		"brackets": {deep(64, "[%.0d", "]"), deep(65, "[%.0d", "]"), "brackets"},
		"mixed":    {deep(21, "{[(%.0d", ")]}"), deep(22, "{[(%.0d", ")]}"), "brackets"},
		"else":     {"x if 1" + times(500, " else if %d") + "\n", "x if 1" + times(501, " else if %d") + "\n", "else"},
		"with":     {"x if a" + times(2000, " with data.a%d as 1") + "\n", "x if a" + times(20_000, " with data.a%d as 1") + "\n", "with"},
		"rules":    {times(10_000, "p%d if input\n"), times(30_000, "p%d if input\n"), "rules"},
	} {
		if err := checkBounds(files("good.rego", tt.good+strings.Repeat("# {[($\"|\n", 1000))); err != nil {
			t.Errorf("%s: good: %v", name, err)
		}
		err := checkBounds(files("d/bad.rego", "\n\n"+tt.bad))
		if places := Places(err); err == nil || len(places) != 1 || !strings.HasPrefix(places[0], "d/bad.rego:") || !strings.Contains(places[0], tt.want) {
			t.Errorf("%s: bad: %v", name, places)
		}
		if _, err := Open(t.Context(), files("bad.rego", "package callgate\n\nimport rego.v2\n\ndecision := false\n\n"+tt.bad), Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: opened: %v", name, err)
		}
	}
}

// What stands in texts and comments, or beside each other, is not deep.
func TestBoundsOfWhatIsFlat(t *testing.T) {
	for _, src := range []string{
		`x := "` + strings.Repeat("{ [", 100) + `"`,
		"x := `" + strings.Repeat("{ [\n\\", 100) + "`",
		`x := "\"` + strings.Repeat("{", 100) + `"`,
		`x := "\\"` + "\ny := \"" + strings.Repeat("[", 100) + `"`,
		`x := $"\{` + strings.Repeat(`\{`, 100) + `"`,
		"#" + strings.Repeat("{", 100),
		"x := [" + strings.Repeat("[a | a := 1], ", 1000) + "]",
		strings.Repeat("x if { some y in [z | z := {1} | {2}]; $\"{y} { {y: 1} }\" }\n", 1000),
		strings.Repeat("x := {\"a\": {\"b\": {\"c\": [1]}}, {1}: 2}\n", 1000),
		"x := \"" + strings.Repeat("with else ", 10_000) + "\"",
		strings.Repeat("x if {\n\ty := 1\n\tz\n}\n", 9_000),
	} {
		if err := checkBounds(files("p.rego", src+"\n")); err != nil {
			t.Errorf("%.60s: %v", src, err)
		}
	}
}

// The bundles that we ship are far below each bound.
func TestBoundsOfShippedBundles(t *testing.T) {
	for _, fsys := range []fs.FS{bundles.Base(), bundles.Project(), bundles.Starter(), bundles.CodingAgent(), bundles.OrgBaseline(), bundles.Web()} {
		if err := checkBounds(fsys); err != nil {
			t.Error(err)
		}
	}
}

func FuzzBounds(f *testing.F) {
	for _, src := range []string{"", "x := $\"{1}\"", "{ a | b }", "x := `\n", "}])", "$\"", "\"\\", deep(9, "$`{%.0d", "}`"), "every x in y { {1}: 2 }"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s := scan{text: src, line: 1, open: []bracket{{}}}
		err := s.run()
		if s.at > len(src) || s.line > len(src)+1 || len(s.open) > maxBrackets+2 {
			t.Fatalf("at %d of %d, line %d, %d open", s.at, len(src), s.line, len(s.open))
		}
		// Brackets alone say nothing wrong, so whatever is refused has words or many of them.
		if err != nil && len(src) < 2*maxHeavyDeep {
			t.Fatalf("refused: %v", err)
		}
		_ = checkBounds(fstest.MapFS{"p.rego": {Data: src}})
	})
}
