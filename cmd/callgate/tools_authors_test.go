package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every command of docs/tool-authors.md works, one after another, in an empty
// directory.
func TestToolAuthorsDocumentRuns(t *testing.T) {
	text, err := os.ReadFile("../../docs/tool-authors.md")
	mustDo(t, err)
	mustDo(t, buildOnce())
	source, err := filepath.Abs("../..")
	mustDo(t, err)
	script := "set -eu\ntrap 'kill $! || true' EXIT\n"
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("the document has %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		script += b[1]
	}
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CALLGATE_DECIDE_TIMEOUT=1m",
		"CHECKOUT="+source, "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"reactor, with _initialize", "fs.read /files/hello.txt: ok, 14 bytes", "not granted: exit 3", `{"bytes":14,"lines":2}`,
		`{"bytes":14,"lines":2}` + "\n" + "word-count| counted one file\n", `{"bytes":14,"lines":3}`, "word-count.wasm: ", "verified: ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands print nothing of %q:\n%s", want, out)
		}
	}
}

// The document's tables name what package guest has.
func TestToolAuthorsDocumentNamesTheSDK(t *testing.T) {
	text, err := os.ReadFile("../../docs/tool-authors.md")
	mustDo(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "doc", "-short", "../../sandbox/guest").Output()
	mustDo(t, err)
	for _, line := range strings.Split(string(out), "\n") {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ([", r) })
		if len(words) < 2 || words[0] != "func" {
			continue
		}
		if !strings.Contains(string(text), "guest."+words[1]+"(") {
			t.Errorf("docs/tool-authors.md does not name guest.%s", words[1])
		}
	}
}
