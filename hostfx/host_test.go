package hostfx_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

// tree makes a directory with a file in the granted folder docs/reports, one
// beside it, and links of each sort.
func tree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "docs"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "outside"), 0o755))
	for _, name := range []string{"docs/secret.txt", "outside/c.txt"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(canary), 0o600))
	}
	must(t, os.Symlink("reports", filepath.Join(dir, "docs/alias")))
	plant(t, dir)
	return dir
}

// plant makes the granted folder of the tree.
func plant(t testing.TB, dir string) {
	t.Helper()
	at := filepath.Join(dir, "docs/reports")
	must(t, os.MkdirAll(filepath.Join(at, "sub"), 0o755))
	for name, text := range map[string]string{"a.txt": "alpha", "sub/b.txt": "beta"} {
		must(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	for name, to := range map[string]string{
		"in": "sub/b.txt", "out": "../secret.txt", "absolute": filepath.Join(dir, "outside/c.txt"), "updir": "..",
		"loop": "loop", "dangling": "nothing", "subalias": "sub",
	} {
		must(t, os.Symlink(to, filepath.Join(at, name)))
	}
	must(t, syscall.Mkfifo(filepath.Join(at, "fifo"), 0o600))
}

// canary is in every file that no grant of these tests gives.
const canary = "must never be read"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// portable has the tests use the resolver of systems without openat2.
var portable bool

func newHost(o hostfx.Options) (*hostfx.Host, error) {
	if portable {
		return hostfx.NewPortable(o)
	}
	return hostfx.New(o)
}

// both runs a test with each way of looking names up.
func both(t *testing.T, test func(*testing.T)) {
	defer func() { portable = false }()
	t.Run("system", test)
	portable = true
	t.Run("portable", test)
}

func host(t testing.TB, dir string) *hostfx.Host {
	t.Helper()
	h, err := newHost(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}})
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func mint(t testing.TB, caps call.Caps) grant.Grant {
	t.Helper()
	args, err := call.Canonical([]byte(`{}`))
	must(t, err)
	return granttest.Mint(t, call.Digest([]byte("tool")), args, caps)
}

// open grants docs/reports with the modes.
func open(t testing.TB, dir string, modes ...string) *hostfx.Effects {
	t.Helper()
	fx, err := host(t, dir).Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: modes}}}))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

func TestNewNamesEachBadRoot(t *testing.T) {
	dir := t.TempDir()
	h, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{
		{Name: "ok", Path: dir}, {Name: "Upper", Path: dir}, {Name: "relative", Path: "x"},
		{Name: "missing", Path: filepath.Join(dir, "x")}, {Name: "ok", Path: dir}, {Name: "", Path: dir},
	}})
	if h != nil || err == nil {
		t.Fatalf("New() = %v, %v, want an error alone", h, err)
	}
	for _, want := range []string{`"Upper"`, `"relative"`, `"missing"`, `"ok": the name is used twice`, `""`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

func TestOpenSpendsTheGrant(t *testing.T) {
	dir := tree(t)
	caps := call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}}
	spent := mint(t, caps)
	spent.Spend(time.Now())
	dead := mint(t, caps)
	granttest.Kill(dead)
	later := func() time.Time { return time.Now().Add(time.Hour) }
	tests := []struct {
		name string
		g    grant.Grant
		now  func() time.Time
	}{
		{"zero", grant.Grant{}, nil},
		{"spent", spent, nil},
		{"dead", dead, nil},
		{"expired", mint(t, caps), later},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := hostfx.New(hostfx.Options{Roots: []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}, Now: tt.now})
			must(t, err)
			defer h.Close()
			fx, err := h.Open(t.Context(), tt.g)
			if fx != nil || call.CodeOf(err, "") != call.CodeGrantMismatch {
				t.Errorf("Open() = %v, %v, want %s", fx, err, call.CodeGrantMismatch)
			}
		})
	}
	t.Run("once", func(t *testing.T) {
		h, g := host(t, dir), mint(t, caps)
		fx, err := h.Open(t.Context(), g)
		must(t, err)
		defer fx.Close()
		if _, err := h.Open(t.Context(), g); call.CodeOf(err, "") != call.CodeGrantMismatch {
			t.Errorf("second Open() = %v, want %s", err, call.CodeGrantMismatch)
		}
	})
}

func TestOpenGrantedPath(t *testing.T) { both(t, testOpenGrantedPath) }

func testOpenGrantedPath(t *testing.T) {
	dir := tree(t)
	tests := []struct {
		name, root, path string
		want             call.Code
	}{
		{"root itself", "docs", ".", ""},
		{"directory", "docs", "reports", ""},
		{"deeper", "docs", "reports/sub", ""},
		{"link to a granted sibling", "docs", "alias", call.CodePathIsLink},
		{"below a link", "docs", "alias/sub", call.CodePathIsLink},
		{"ends in a link", "docs", "reports/subalias", call.CodePathIsLink},
		{"link out", "docs", "reports/updir", call.CodePathIsLink},
		{"dangling link", "docs", "reports/dangling", call.CodePathIsLink},
		{"unknown root", "other", ".", call.CodeRootUnavailable},
		{"no root", "", "reports", call.CodeRootUnavailable},
		{"missing", "docs", "nothing", call.CodeRootUnavailable},
		{"a file", "docs", "secret.txt", call.CodeRootUnavailable},
		{"a FIFO", "docs", "reports/fifo", call.CodeRootUnavailable},
		{"parent", "docs", "..", call.CodeRootUnavailable},
		{"dots inside", "docs", "reports/../reports", call.CodeRootUnavailable},
		{"absolute", "docs", "/reports", call.CodeRootUnavailable},
		{"trailing slash", "docs", "reports/", call.CodeRootUnavailable},
		{"empty", "docs", "", call.CodeRootUnavailable},
		{"NUL", "docs", "reports\x00", call.CodeRootUnavailable},
		{"too long", "docs", strings.Repeat("a/", 3000) + "a", call.CodeRootUnavailable},
	}
	h := host(t, dir)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx, err := h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: tt.root, Path: tt.path, Modes: []string{"read"}}}}))
			if got := call.CodeOf(err, ""); got != tt.want {
				t.Fatalf("Open() = %v, want code %q", err, tt.want)
			}
			if (fx == nil) != (err != nil) {
				t.Errorf("Open() = %v with error %v", fx, err)
			}
			if fx != nil {
				fx.Close()
			}
		})
	}
}

func TestNilHost(t *testing.T) {
	var h *hostfx.Host
	fx, err := h.Open(t.Context(), mint(t, call.Caps{}))
	must(t, err)
	if _, err := fx.ReadFile("/docs/a.txt"); err == nil {
		t.Error("a file was read without any root")
	}
	if got := fx.Close(); len(got) != 1 || got[0].Code != "refused" {
		t.Errorf("effects = %v, want one refusal", got)
	}
	_, err = h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{{Root: "docs", Path: ".", Modes: []string{"read"}}}}))
	if call.CodeOf(err, "") != call.CodeRootUnavailable {
		t.Errorf("Open() = %v, want %s", err, call.CodeRootUnavailable)
	}
	must(t, h.Close())
}

// depending may do everything in docs/reports, and depends on what is given.
func depending(t *testing.T, dir string, depends ...call.Precondition) *hostfx.Effects {
	t.Helper()
	args, err := call.Canonical([]byte("{}"))
	must(t, err)
	caps := call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: all}}}
	fx, err := host(t, dir).Open(t.Context(), granttest.Mint(t, call.Digest([]byte("tool")), args, caps, depends...))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}
