package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
)

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The modules in testdata/templates are what the templates are built to: the source is
// what it was then. testdata/templates/build.sh builds them anew.
func TestTemplatesAreWhatWasBuilt(t *testing.T) {
	recorded, err := os.ReadFile("testdata/templates/digests.txt")
	mustDo(t, err)
	var now strings.Builder
	for _, lang := range []string{"as", "c", "rust"} {
		var source []byte
		entries, err := templates.ReadDir("templates/" + lang)
		mustDo(t, err)
		for _, e := range entries {
			b, err := templates.ReadFile("templates/" + lang + "/" + e.Name())
			mustDo(t, err)
			source = append(source, b...)
		}
		module, err := os.ReadFile("testdata/templates/" + lang + ".wasm")
		mustDo(t, err)
		fmt.Fprintf(&now, "%s %x %x\n", lang, sha256.Sum256(source), sha256.Sum256(module))
	}
	if now.String() != string(recorded) {
		t.Errorf("the templates or their modules changed; run cmd/callgate/testdata/templates/build.sh.\nnow:\n%srecorded:\n%s", &now, recorded)
	}
	ours, err := templates.ReadFile("templates/c/callgate.h.tmpl")
	mustDo(t, err)
	header, err := os.ReadFile("../../sandbox/guests/src/callgate.h")
	mustDo(t, err)
	if !bytes.Equal(ours, header) {
		t.Error("the template's callgate.h is not sandbox/guests/src/callgate.h")
	}
}

// What the templates of other languages are built to runs, behind their own manifest,
// with their own grant.
func TestTemplatesRun(t *testing.T) {
	for _, lang := range []string{"as", "c", "rust"} {
		t.Run(lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "word-count")
			if code, out, errOut := command(t, "tools", "new", dir, "--lang", lang); code != exitOK {
				t.Fatalf("new: exit %d, %s%s", code, out, errOut)
			}
			module, err := os.ReadFile("testdata/templates/" + lang + ".wasm")
			mustDo(t, err)
			file := filepath.Join(dir, "word-count.wasm")
			mustDo(t, os.WriteFile(file, module, 0o600))
			pin(t, dir, module)
			m, _, err := tool.Load(dir)
			mustDo(t, err)
			g, err := readGrant(t.Context(), filepath.Join(dir, "grant.json"), nil)
			mustDo(t, err)
			if !m.Caps.Covers(g.Caps) {
				t.Error("grant.json is not within the manifest")
			}

			files := filepath.Join(dir, "files")
			odd := "a\"\\\n\x01\u00e9"
			mustDo(t, os.WriteFile(filepath.Join(files, odd), []byte("\n\n\n"), 0o600))
			mustDo(t, os.WriteFile(filepath.Join(files, "empty"), nil, 0o600))
			name, err := call.Canonical([]byte(`{"path":"/files/a\"\\\n\u0001é"}`))
			mustDo(t, err)
			for _, tt := range []struct {
				args string
				code int
				out  string
				log  string
			}{
				{"@" + filepath.Join(dir, "args.json"), exitOK, `{"bytes":14,"lines":2}`, "counted one file\nok: "},
				{string(name.Bytes()), exitOK, `{"bytes":3,"lines":3}`, "ok: "},
				{`{"path":"/files/empty"}`, exitOK, `{"bytes":0,"lines":0}`, "ok: "},
				{`{"path":"/files/none"}`, exitFailed, "", "not found\ntool_error: "},
				{`{"path":"/etc/passwd"}`, exitFailed, "", "not granted\ntool_error: "},
				{`{}`, exitFailed, "", "the arguments are not of the form {\"path\": ...}\ntool_error: "},
				{`{"path":"/files/empty","x":"` + strings.Repeat("x", 100_000) + `"}`, exitFailed, "", "tool_error: "},
			} {
				code, out, errOut := command(t, "tools", "run", file, "--grant", filepath.Join(dir, "grant.json"), "--root", "files="+files, "--args", tt.args)
				if code != tt.code || strings.TrimSuffix(out, "\n") != tt.out || !strings.Contains(errOut, tt.log) {
					t.Errorf("run %.60s: exit %d, %s%s", tt.args, code, out, errOut)
				}
			}
		})
	}
}

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// pin does what the end of build.sh does.
func pin(t *testing.T, dir string, module []byte) {
	t.Helper()
	name := filepath.Join(dir, "tool.yaml")
	text, err := os.ReadFile(name)
	mustDo(t, err)
	sum := sha256.Sum256(module)
	text = bytes.Replace(text, []byte(strings.Repeat("0", 64)), []byte(hex.EncodeToString(sum[:])), 1)
	mustDo(t, os.WriteFile(name, text, 0o600))
}

func TestToolsNewRefuses(t *testing.T) {
	dir := t.TempDir()
	mustDo(t, os.Mkdir(filepath.Join(dir, "there"), 0o755))
	mustDo(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	mustDo(t, os.Symlink("elsewhere", filepath.Join(dir, "link")))
	mustDo(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	mustDo(t, os.Symlink("empty", filepath.Join(dir, "link-to-empty")))
	for name, want := range map[string]string{
		"there": "exists", "file": "exists", "link": "exists", "link-to-empty": "exists", "none/tool": "no such file",
		"": "the name of a tool is", ".": "the name of a tool is", "..": "the name of a tool is", "there/..": "the name of a tool is",
		"Tool": "the name of a tool is", "1tool": "the name of a tool is", "a b": "the name of a tool is", "a..b": "the name of a tool is",
		"a.": "the name of a tool is", "a\n": "the name of a tool is", "-a": "the name of a tool is", "é": "the name of a tool is",
		strings.Repeat("a", 65): "the name of a tool is", `a"b`: "the name of a tool is", "a$(x)": "the name of a tool is",
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadDir(dir)
			mustDo(t, err)
			code, out, errOut := command(t, "tools", "new", "--lang", "c", "--", dir+"/"+name)
			if code != exitUnsure || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("exit %d, %s%s, want %s", code, out, errOut, want)
			}
			after, err := os.ReadDir(dir)
			mustDo(t, err)
			if len(before) != len(after) {
				t.Errorf("there are %d entries, and were %d", len(after), len(before))
			}
		})
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{`required flag(s) "lang" not set`, []string{"a"}},
		{`--lang "cobol": want as, c, go, rust`, []string{"a", "--lang", "cobol"}},
		{"--sdk: a tool in c takes nothing from there", []string{"a", "--lang", "c", "--sdk", "."}},
		{"this command was built from a checkout: say where that is, with --sdk DIR", []string{"a", "--lang", "go"}},
		{"is not a checkout of github.com/callgate/callgate", []string{"a", "--lang", "go", "--sdk", dir}},
		{"accepts 1 arg", []string{"--lang", "c"}},
	} {
		t.Chdir(dir)
		code, out, errOut := command(t, append([]string{"tools", "new"}, tt.args...)...)
		if code != exitUnsure || out != "" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%v: exit %d, %s%s, want %s", tt.args, code, out, errOut, tt.want)
		}
		if _, err := os.Lstat("a"); err == nil {
			t.Fatalf("%v: wrote a", tt.args)
		}
	}
}

// A tool in Go is built with the release that the command is of, and a command that is of
// none does not guess one.
func TestGoToolIsOfTheRelease(t *testing.T) {
	for version, ok := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true, "(devel)": false, "": false, "v1.2.3+dirty": false,
		"v0.0.0-20261130120000-0123456789ab": false, "v1.2.4-0.20261130120000-0123456789ab+dirty": false,
	} {
		values := map[string]string{}
		info := &debug.BuildInfo{Main: debug.Module{Path: ownModule, Version: version}, Deps: []*debug.Module{{Path: jsonModule, Version: "v1.0.0"}}}
		err := addGoModule(values, "", info)
		if (err == nil) != ok || ok && (values["version"] != version || values["replace"] != "" || values["json"] != "v1.0.0") {
			t.Errorf("%s: %v, %v", version, values, err)
		}
	}
	if err := addGoModule(map[string]string{}, "", &debug.BuildInfo{Main: debug.Module{Path: ownModule, Version: "v1.2.3"}}); err == nil {
		t.Error("without the JSON module's version there is no error")
	}
}
