package sandbox

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero/api"

	"github.com/callgate/callgate/sandbox/wasi"
)

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section returns the part of docs/guest-abi.md below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, s, ok := strings.Cut(text(t, "../docs/guest-abi.md"), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("no section %q", heading)
	}
	s, _, _ = strings.Cut(s, "\n##")
	return s
}

// rows are the first n cells of each row of a section's table.
func rows(t *testing.T, heading string, n int) [][]string {
	t.Helper()
	var out [][]string
	for line := range strings.SplitSeq(section(t, heading), "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, cells[:n])
		}
	}
	return out[1:] // without the head
}

var quoted = regexp.MustCompile("`([^`]+)`")

func linked(t *testing.T) map[string]map[string]signature {
	t.Helper()
	s, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s.functions
}

func TestDocumentedFunctionsAreLinked(t *testing.T) {
	functions := linked(t)
	modules := []string{hostModule, wasi.ModuleName}
	if d := cmp.Diff(modules, slices.Sorted(maps.Keys(functions))); d != "" {
		t.Errorf("modules (-want +got):\n%s", d)
	}
	want := map[string]string{}
	for _, r := range rows(t, "## Functions of `callgate`", 2) {
		want[strings.Trim(r[0], "`")] = strings.Trim(r[1], "`")
	}
	have := map[string]string{}
	types := func(list []byte) string {
		var names []string
		for _, v := range list {
			names = append(names, api.ValueTypeName(v))
		}
		return strings.Join(names, ", ")
	}
	for name, sig := range functions[hostModule] {
		have[name] = fmt.Sprintf("(%s) -> %s", types(sig.params), types(sig.results))
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("functions of callgate (-documented +linked):\n%s", d)
	}
	var documented []string
	for _, r := range rows(t, "## WASI", 1) {
		for _, m := range quoted.FindAllStringSubmatch(r[0], -1) {
			documented = append(documented, m[1])
		}
	}
	slices.Sort(documented)
	if d := cmp.Diff(documented, slices.Sorted(maps.Keys(functions[wasi.ModuleName]))); d != "" {
		t.Errorf("functions of WASI (-documented +linked):\n%s", d)
	}
}

var (
	headerError  = regexp.MustCompile(`CALLGATE_([A-Z_]+) = (\d+),`)
	headerImport = regexp.MustCompile(`CALLGATE_IMPORT\("(\w+)"\) int32_t callgate_(\w+)\(([^)]*)\);`)
)

// The header for C says the same as the document and the host.
func TestHeader(t *testing.T) {
	header := text(t, "guests/src/callgate.h")
	var have [][]string
	for _, m := range headerError.FindAllStringSubmatch(header, -1) {
		have = append(have, []string{m[2], "`" + strings.ToLower(m[1]) + "`"})
	}
	documented := rows(t, "### Error numbers", 2)
	if d := cmp.Diff(documented, have); d != "" {
		t.Errorf("error numbers (-documented +header):\n%s", d)
	}
	if len(documented) != numStatus+1 {
		t.Errorf("%d error numbers are documented, the host has %d", len(documented), numStatus+1)
	}
	imports := map[string]int{}
	for _, m := range headerImport.FindAllStringSubmatch(header, -1) {
		if m[1] != m[2] {
			t.Errorf("callgate_%s is the function %q", m[2], m[1])
		}
		imports[m[1]] = strings.Count(m[3], ",") + 1
	}
	want := map[string]int{}
	for _, f := range hostFuncs {
		want[f.name] = len(f.params)
	}
	if d := cmp.Diff(want, imports); d != "" {
		t.Errorf("functions and their parameters (-host +header):\n%s", d)
	}
}

// What is fuzzed is every function that guests have.
func TestPokeHasEveryFunction(t *testing.T) {
	guest := text(t, "testdata/poke.wat")
	for _, f := range hostFuncs {
		if !strings.Contains(guest, `(import "callgate" "`+f.name+`" `) {
			t.Errorf("testdata/poke.wat does not call %s", f.name)
		}
	}
}

// The examples of the document are guests that tests run.
func TestDocumentedExamplesAreTested(t *testing.T) {
	for _, name := range []string{"testdata/show.wat", "testdata/post.c"} {
		if !strings.Contains(section(t, "## Examples"), "\n"+text(t, name)+"```") {
			t.Errorf("docs/guest-abi.md does not hold %s as it is", name)
		}
	}
}
