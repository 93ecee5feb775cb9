package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// The test binary plays the process that dies, when one of these names a project.
const (
	killDir = "CALLGATE_TEST_KILL_DIR"
	fullDir = "CALLGATE_TEST_FULL_DIR"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	hostfx.Main()
	shared = os.Getenv(sharedDir)
	switch {
	case os.Getenv(killDir) != "":
		killMe(os.Getenv(killDir))
	case os.Getenv(fullDir) != "":
		fillUp(os.Getenv(fullDir))
	case os.Getenv(roleEnv) != "":
		os.Exit(playRole(os.Getenv(roleEnv), os.Getenv(roleDir), os.Getenv(roleArg)))
	default:
		dir, err := os.MkdirTemp("", "callgate-local-")
		if err != nil {
			panic(err)
		}
		shared = dir
		os.Setenv(sharedDir, dir)
		code := m.Run()
		os.RemoveAll(dir)
		os.Exit(code)
	}
}

// shared is where the tests keep compiled modules, which are the same in all of them
// and in the processes that they start.
var shared string

const sharedDir = "CALLGATE_TEST_SHARED"

func sharedGuests() local.Guests {
	return local.Guests{Cache: filepath.Join(shared, "cache"), CacheKey: filepath.Join(shared, "key")}
}

// config is the configuration of the project in dir, as callgate.yaml has it.
func config(dir string) local.Config {
	return local.Config{
		Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"), Tools: filepath.Join(dir, "tools"),
		Roots:         []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "files", "docs")}},
		DecideTimeout: time.Minute, Guests: sharedGuests(),
	}
}

func write(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "project")
	if err := project.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(who string) call.Call {
	return call.Call{
		Principal: call.Principal{ID: who, Kind: "service", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}},
		Tool:      "read-file", Args: []byte(`{"path": "/docs/welcome.txt"}`),
	}
}

func TestOpenReadClose(t *testing.T) {
	dir := write(t)
	for range 2 { // the second opening replays the first
		e, err := local.Open(t.Context(), config(dir))
		if err != nil {
			t.Fatal(err)
		}
		res, err := e.Do(t.Context(), read("alice"))
		if err != nil || !strings.Contains(string(res.Output), "Welcome") {
			t.Fatalf("Do = %v, %v", res, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
	report, err := audit.Verify(filepath.Join(dir, "data"), "")
	if err != nil || report.Records != 4 {
		t.Errorf("Verify = %+v, %v; want 4 records", report, err)
	}
}

func TestOneOwner(t *testing.T) {
	dir := write(t)
	e, err := local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(t.Context(), config(dir)); !errors.Is(err, local.ErrOwned) {
		t.Errorf("a second owner: %v, want %v", err, local.ErrOwned)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, err = local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatalf("after the first one closed: %v", err)
	}
	e.Close()
}

// Whatever is wrong is said at once, and the directory is free again afterwards.
func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"a changed base library", func(dir string) error {
			return appendTo(filepath.Join(dir, "bundle/callgate/decision.rego"), "\n# harmless?\n")
		}, local.ErrBaseChanged.Error()},
		{"a file slipped into the base library", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bundle/callgate/more.rego"), []byte("package callgate.more\n"), 0o600)
		}, local.ErrBaseChanged.Error()},
		{"a policy that does not parse", func(dir string) error { return appendTo(filepath.Join(dir, "bundle/docs.rego"), "allow {{{\n") }, "docs.rego"},
		{"a module that changed", func(dir string) error { return appendTo(filepath.Join(dir, "tools/spin/spin.wasm"), "\x00") }, "spin"},
		{"a manifest with an unknown key", func(dir string) error { return appendTo(filepath.Join(dir, "tools/spin/tool.yaml"), "nme: x\n") }, "nme"},
		{"a data directory that others can write", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o777), os.Chmod(filepath.Join(dir, "data"), 0o777))
		}, "only its owner"},
		{"a root that is not there", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "files")) }, "docs"},
		{"a tool over the ceiling", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ceiling.yaml"), []byte("bounds: {timeout_ms: 10}\n"), 0o600)
		}, "ceiling"},
		{"a ceiling with an unknown key", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ceiling.yaml"), []byte("bound: {}\n"), 0o600)
		}, "ceiling.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t)
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
			c := config(dir)
			if _, err := os.Stat(filepath.Join(dir, "ceiling.yaml")); err == nil {
				c.Ceiling = filepath.Join(dir, "ceiling.yaml")
			}
			e, err := local.Open(t.Context(), c)
			if err == nil {
				e.Close()
				t.Fatal("Open succeeded")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want it to say %q", err, tt.want)
			}
			if _, err := local.Open(t.Context(), c); errors.Is(err, local.ErrOwned) {
				t.Error("the failed Open still owns the directory")
			}
		})
	}
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Another user's directory is theirs to change. Only root can make one to test with;
// for others the kernel's answer is the test.
func TestForeignDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); errors.Is(err, os.ErrPermission) {
		dir = "/" // root's, whom we trust, but not ours to write
	} else if err != nil {
		t.Fatal(err)
	}
	c := local.Config{Data: dir, Bundle: "nowhere"}
	if _, err := local.Dial(t.Context(), c); err == nil || dir != "/" && !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("Dial = %v", err)
	}
	if _, err := local.Open(t.Context(), c); err == nil || dir != "/" && !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("Open = %v", err)
	}
}

// The lock cannot be removed and taken a second time.
func TestLockStays(t *testing.T) {
	dir := write(t)
	e, err := local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	entries, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if !f.IsDir() {
			if err := os.Remove(filepath.Join(dir, "data", f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := local.Open(t.Context(), config(dir)); !errors.Is(err, local.ErrOwned) {
		t.Errorf("a second owner: %v, want %v", err, local.ErrOwned)
	}
}

func TestTamperedLogDoesNotOpen(t *testing.T) {
	dir := write(t)
	e, err := local.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), read("alice")); err != nil {
		t.Fatal(err)
	}
	e.Close()
	segment := filepath.Join(dir, "data/log/00000000000000000000.jsonl")
	text, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segment, []byte(strings.Replace(string(text), `"alice"`, `"bobby"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = local.Open(t.Context(), config(dir))
	var tampered *audit.TamperError
	if !errors.As(err, &tampered) || tampered.Record != 0 {
		t.Errorf("Open = %v, want a TamperError for record 0", err)
	}
}

// records returns every record of the project's log, from its files alone.
func records(t *testing.T, dir string) []call.Record {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "data/log/*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []call.Record
	for _, name := range segments {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, `{"checkpoint":`) {
				continue
			}
			r, err := call.DecodeRecord([]byte(line))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out = append(out, r)
		}
	}
	return out
}

func Example() {
	dir, err := os.MkdirTemp("", "callgate-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := project.Write(filepath.Join(dir, "work")); err != nil {
		panic(err)
	}
	ctx := context.Background()
	e, err := local.Open(ctx, config(filepath.Join(dir, "work")))
	if err != nil {
		panic(err)
	}
	defer e.Close()

	alice := call.Principal{ID: "alice", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}}
	res, err := e.Do(ctx, call.Call{Principal: alice, Tool: "list-dir", Args: []byte(`{"path": "/docs"}`)})
	fmt.Println(string(res.Output), err)

	alice.Roles = nil
	_, err = e.Do(ctx, call.Call{Principal: alice, Tool: "list-dir", Args: []byte(`{"path": "/docs"}`)})
	fmt.Println(errors.Is(err, engine.ErrDenied), err)
	// Output:
	// {"entries":[{"name":"inbox","type":"directory"},{"name":"notes","type":"directory"},{"name":"welcome.txt","type":"file"}]} <nil>
	// true list-dir: policy_denied: policy says no (no_rule_allows)
}
