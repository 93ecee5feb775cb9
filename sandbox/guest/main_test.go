package guest_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	sandbox.Main()
	hostfx.Main()
	dir, err := os.MkdirTemp("", "callgate-guest-")
	if err != nil {
		panic(err)
	}
	compiler = filepath.Join(dir, "compiler")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// compiler is this program without the race detector, under which compiling modules
// takes ten times as long.
var compiler string

var buildCompiler = sync.OnceValue(func() error {
	out, err := exec.Command("go", "test", "-c", "-o", compiler, ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return nil
})

// build builds one of the tools in testdata for wasip1.
func build(t testing.TB, name string, flags ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".wasm")
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", file}, flags...), "./testdata/"+name)...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	b, err := os.ReadFile(file)
	must(t, err)
	return b
}

const (
	site   = "https://api.example.com"
	secret = "correct-horse-battery"
)

// world runs one module, in a folder of files and with a server on loopback that is
// known as api.example.com.
type world struct {
	box    *sandbox.Sandbox
	host   *hostfx.Host
	digest string
	plan   call.Plan
}

// Plan and Replan make it the session's [hostfx.Planner]. Calls are made one by one.
func (w *world) Plan(context.Context) (call.Plan, error) { return w.plan.Clone(), nil }

func (w *world) Replan(_ context.Context, op call.PlanOp) error {
	next, err := w.plan.Change(op)
	if err == nil {
		w.plan = next
	}
	return err
}

func open(t testing.TB, module []byte) *world {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "reports/sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "reports/a.txt"), []byte("alpha"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("must never be read"), 0o600))
	must(t, os.Symlink("../secret.txt", filepath.Join(dir, "reports/out")))

	server := httptest.NewUnstartedServer(handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	host, err := hostfx.New(hostfx.Options{
		Roots:    []hostfx.Root{{Name: "docs", Path: dir}},
		Names:    []hostfx.Name{{Host: "api.example.com", Addresses: []netip.AddrPort{at}}},
		Networks: []hostfx.Network{{Name: "loopback", Ranges: []netip.Prefix{netip.PrefixFrom(at.Addr(), at.Addr().BitLen())}}},
		CA:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Secrets:  func(string) (hostfx.Secret, error) { return hostfx.Secret{Value: secret}, nil },
	})
	must(t, err)
	t.Cleanup(func() { host.Close() })

	must(t, buildCompiler())
	box, err := sandbox.New(t.Context(), sandbox.Options{Compiler: []string{compiler}})
	must(t, err)
	t.Cleanup(func() { must(t, box.Close(context.Background())) })
	w := &world{box: box, host: host, digest: call.Digest(module)}
	must(t, box.Install(t.Context(), w.digest, module))
	return w
}

func handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["Date"], w.Header()["Content-Type"], w.Header()["X-Two"] = nil, nil, []string{"a", "b"}
		w.WriteHeader(418)
		fmt.Fprintf(w, "%s %s\n%s %s %t", r.Method, r.URL.RequestURI(), body, r.Header.Get("X-One"), r.Header.Get("Authorization") == "Bearer "+secret)
	})
	m.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, site+"/echo", http.StatusFound) })
	m.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	m.HandleFunc("/tell", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Authorization")) })
	return m
}

// everything is a grant of all that there is here.
func everything() call.Caps {
	web := call.HTTP{Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET", "POST"}, Paths: []string{"/"}, Networks: []string{"loopback"}}
	named := web
	named.Secret = &call.Secret{Name: "notes", As: "bearer"}
	return call.Caps{
		FS:   []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}},
		HTTP: []call.HTTP{web, named}, Log: true, Bounds: call.Bounds{LogBytes: 16 << 10},
	}
}

// run runs the guest once, and puts what it logged behind its stderr, as the engine
// does.
func (w *world) run(t testing.TB, in string, caps call.Caps) (string, call.Outcome) {
	t.Helper()
	args, err := call.Canonical([]byte(in))
	must(t, err)
	fx, err := w.host.OpenFor(t.Context(), granttest.Mint(t, w.digest, args, caps), hostfx.Session{Owner: "alice", ID: "s", Plan: w})
	must(t, err)
	out, o := w.box.Run(t.Context(), w.digest, args, fx)
	o.Effects = fx.Close()
	o.Stderr = append(o.Stderr, fx.Logged()...)
	return string(out), o
}
