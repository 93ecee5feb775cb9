package local_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
)

// opaBuild packs a bundle with plain OPA.
func opaBuild(t *testing.T, bundle, archive string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "opa", "build", "-b", bundle, "-o", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("opa build: %v\n%s", err, out)
	}
}

// A project decides the same from its directory and from opa's archive of it.
func TestArchiveDecidesAsItsDirectory(t *testing.T) {
	for name, write := range map[string]func(string) error{"rego": project.Write, "starter": project.WriteStarter} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "project")
			if err := write(dir); err != nil {
				t.Fatal(err)
			}
			c := config(dir)
			archive := filepath.Join(dir, "bundle.tar.gz")
			opaBuild(t, c.Bundle, archive)
			calls := []struct {
				tool, args string
				roles      []string
				want       call.Code
			}{
				{"publish", `{"text": "hello"}`, []string{"analyst"}, call.CodeOK},
				{"read-file", `{"path": "/docs/inbox/mail.txt"}`, []string{"analyst"}, call.CodeOK},
				{"read-file", `{"path": "/docs/welcome.txt"}`, []string{"visitor"}, call.CodePolicyDenied},
				{"list-dir", `{"path": "/docs"}`, []string{"analyst"}, call.CodeOK},
				{"refund", `{"amount": 5, "order": "A-1"}`, []string{"support"}, call.CodeRequiresApproval},
				{"publish", `{"text": "hello"}`, []string{"analyst"}, call.CodePolicyDenied},
				{"chatter", `{}`, []string{"analyst"}, call.CodeOutputExceeded},
			}
			for i, bundle := range []string{c.Bundle, archive} {
				c.Bundle, c.Data = bundle, filepath.Join(dir, "data")
				if err := os.RemoveAll(c.Data); err != nil {
					t.Fatal(err)
				}
				e := open(t, c)
				for _, tt := range calls {
					_, err := e.Do(t.Context(), call.Call{
						Principal: call.Principal{ID: "alice", Kind: "agent", Roles: tt.roles, Auth: call.Auth{Method: "asserted"}},
						Tool:      tt.tool, Args: []byte(tt.args),
					})
					if got := codeOf(err); got != tt.want {
						t.Errorf("%s: %s %s: %s, want %s (%v)", filepath.Base(bundle), tt.tool, tt.args, got, tt.want, err)
					}
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				by := slices.Compact(decidedBy(t, dir))
				if want := digestOf(t, filepath.Join(dir, "bundle")); !slices.Equal(by, []string{want}) {
					t.Errorf("run %d is decided by %q, the directory is %s", i, by, want)
				}
			}
		})
	}
}

func codeOf(err error) call.Code {
	if d, ok := errors.AsType[*engine.Denial](err); ok {
		return d.Code
	}
	if e, ok := errors.AsType[*engine.ToolError](err); ok {
		return e.Result.Outcome.Code
	}
	if err != nil {
		return call.CodeInternal
	}
	return call.CodeOK
}

// pack makes an archive of a directory as tar does.
func pack(t *testing.T, bundle string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := errors.Join(w.AddFS(os.DirFS(bundle)), w.Close(), z.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// replace puts a file in the place of another at once, as deployments do.
func replace(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(name+".new", b, 0o644), os.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

func TestArchiveIsReplaced(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	sources := c.Bundle
	good := pack(t, sources)
	put(t, nobody, sources, "rules.rego")
	closed := pack(t, sources)
	put(t, "\n# harmless?\n", sources, "callgate/words.rego")
	tampered := pack(t, sources)

	c.Bundle = filepath.Join(dir, "policy.tar.gz")
	replace(t, c.Bundle, good)
	e, poll, log := followed(t, c)
	for _, step := range []struct {
		name    string
		give    []byte
		allowed bool
		log     string
	}{
		{"another policy", closed, false, `"info"`},
		{"half of one", good[:len(good)/2], false, "unexpected EOF"},
		{"with something after it", append(slices.Clone(good), good...), false, "something follows the end"},
		{"another library", tampered, false, "policy.tar.gz/callgate: " + local.ErrBaseChanged.Error()},
		{"the first one", good, true, `"info"`},
	} {
		replace(t, c.Bundle, step.give)
		poll(4)
		if got := allowed(t, e); got != step.allowed {
			t.Errorf("%s: allowed %v", step.name, got)
		}
		if got := log.take(); len(got) != 1 || !strings.Contains(got[0], step.log) {
			t.Errorf("%s: the log says %q, want once %q", step.name, got, step.log)
		}
	}
	if err := os.Remove(c.Bundle); err != nil {
		t.Fatal(err)
	}
	poll(4)
	if !allowed(t, e) || len(log.take()) != 1 {
		t.Error("the last good policy went with its file")
	}
}

// Reproducible archives have one size and one time.
func TestArchiveOfTheSameSizeAndTime(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return // there is no time of change to see it by
	}
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	c.Bundle = filepath.Join(dir, "bundle")
	put(t, rules+"# x\n", c.Bundle, "rules.rego")
	e, poll, _ := followed(t, c)
	name := filepath.Join(c.Bundle, "rules.rego")
	at := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
	poll(2)
	before := len(rules + "# x\n")
	replace(t, name, []byte(nobody+strings.Repeat("#", before-len(nobody)-1)+"\n"))
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != int64(before) || !info.ModTime().Equal(at) {
		t.Fatalf("%v, %v", info, err)
	}
	poll(2)
	if allowed(t, e) {
		t.Error("the change was not seen")
	}
}

// A link to the bundle may be made to lead elsewhere.
func TestLinkedBundle(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	if err := os.CopyFS(filepath.Join(dir, "next"), os.DirFS(filepath.Join(dir, "bundle"))); err != nil {
		t.Fatal(err)
	}
	put(t, nobody, dir, "next/rules.rego")
	c := small(dir)
	c.Bundle = filepath.Join(dir, "current")
	lead := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, c.Bundle+".new"), os.Rename(c.Bundle+".new", c.Bundle)); err != nil {
			t.Fatal(err)
		}
	}
	lead("bundle")
	e, poll, _ := followed(t, c)
	if !allowed(t, e) {
		t.Fatal("denied")
	}
	lead("next")
	poll(2)
	if allowed(t, e) {
		t.Error("the new bundle does not decide")
	}
	dial(t, c) // of the same configuration
}
