package pack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
)

// opa runs the real command in dir.
func opa(t testing.TB) func(dir string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "opa").Output()
	if err != nil {
		t.Fatal(err)
	}
	return func(dir string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// What we sign, opa verifies; what opa signs, we do.
func TestOPA(t *testing.T) {
	run := opa(t)
	for alg, key := range keys(t) {
		t.Run(alg, func(t *testing.T) {
			dir := t.TempDir()
			private, public := pair(t, key)
			write(t, dir, map[string]string{
				"key.pem": string(private), "key.pub": string(public),
				"claims.json": `{"scope": "acme/base", "iat": 1777636800, "exp": 1777723200}`,
			})
			for name, f := range policy() {
				write(t, filepath.Join(dir, "bundle"), map[string]string{name: string(f.Data)})
			}
			v := &rego.Verification{
				Keys: map[string]rego.Key{"k": {PEM: string(public)}}, Scope: "acme/base",
				Now: func() time.Time { return made.Add(time.Hour) },
			}
			verify := func(what, path string) {
				t.Helper()
				fsys, err := rego.Load(path)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				_, s, err := rego.Verify(fsys, v)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if s.Algorithm != alg || s.KeyID != "k" || !s.Expires.Equal(time.Unix(1777723200, 0)) {
					t.Errorf("%s: %+v", what, s)
				}
			}

			for _, build := range [][]string{{".", "bundle"}, {"bundle", "."}} {
				if out, err := run(filepath.Join(dir, build[0]), "build", "-b", build[1], "-o", filepath.Join(dir, "theirs.tar.gz"),
					"--signing-key", filepath.Join(dir, "key.pem"), "--signing-alg", alg, "--verification-key-id", "k",
					"--claims-file", filepath.Join(dir, "claims.json")); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				verify("opa build -b "+build[1], filepath.Join(dir, "theirs.tar.gz"))
			}
			if out, err := run(filepath.Join(dir, "bundle"), "sign", "-b", ".", "--signing-key", "../key.pem", "--signing-alg", alg,
				"--claims-file", "../claims.json"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			verify("opa sign", filepath.Join(dir, "bundle"))

			b, err := pack.Build(t.Context(), os.DirFS(filepath.Join(dir, "bundle")), pack.Options{Revision: "r1", Epoch: epoch(7)})
			if err != nil {
				t.Fatal(err)
			}
			ours, err := pack.SignArchive(b.Archive, pack.Signing{Key: private, KeyID: "k", Scope: "acme/base", Issued: made, Expires: made.Add(24 * time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, map[string]string{"ours.tar.gz": string(ours)})
			verify("ours", filepath.Join(dir, "ours.tar.gz"))
			args := []string{"build", "-b", "ours.tar.gz", "-o", "out.tar.gz", "--verification-key", "key.pub", "--verification-key-id", "k", "--signing-alg", alg}
			if out, err := run(dir, append(args, "--scope", "acme/base")...); err != nil {
				t.Errorf("opa does not verify ours: %v\n%s", err, out)
			}
			if out, err := run(dir, append(args, "--scope", "else")...); err == nil {
				t.Errorf("opa verifies ours for anything\n%s", out)
			}
		})
	}
}
