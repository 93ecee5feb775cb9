package local_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

// step is one thing that the guest in testdata/adversary does.
type step struct {
	Do     string            `json:"do"`
	Path   string            `json:"path,omitzero"`
	To     string            `json:"to,omitzero"`
	Body   string            `json:"body,omitzero"`
	Header map[string]string `json:"headers,omitzero"`
	Secret string            `json:"secret,omitzero"`
	List   []string          `json:"list,omitzero"`
	Env    []string          `json:"env,omitzero"`
	Ports  []int             `json:"ports,omitzero"`
	Times  int               `json:"times,omitzero"`
}

// try is one call of it.
type try struct {
	grant   string // one of adversaryGrants
	steps   []step
	out     []string // what the guest got to know of each step
	effects []string // kind and code of each effect
	seen    []string // requests that the servers got
	conns   int64    // connections to the servers without a request
	stderr  string   // what it may have logged, if that matters
}

// attack is what must be refused, and the same that must not be.
type attack struct {
	name    string
	refused try
	control try
}

const (
	leak       = "must never be read" // in every file outside of the granted folder
	credential = "correct-horse-battery"
)

// arena is an engine with the guest, its files, and the servers.
type arena struct {
	e       *local.Engine
	dir     string
	files   string
	session string
	port    int                 // of the servers
	calls   map[string][]string // id of a call -> its effects

	conns atomic.Int64 // that were made to them
	mu    sync.Mutex   // protects the fields below
	seen  []string
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buildGuest builds the guest, and what compiles it.
func buildGuest(t *testing.T, dir string) (module, compiler string) {
	t.Helper()
	module, compiler = filepath.Join(dir, "adversary.wasm"), filepath.Join(dir, "compiler")
	guest := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", module, "./testdata/adversary")
	guest.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	for _, cmd := range []*exec.Cmd{guest, exec.CommandContext(t.Context(), "go", "test", "-c", "-o", compiler, "./testdata/compiler")} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return module, compiler
}

func newArena(t *testing.T) *arena {
	t.Helper()
	dir := t.TempDir()
	a := &arena{dir: dir, files: filepath.Join(dir, "files"), calls: map[string][]string{}}
	tool := filepath.Join(dir, "tools/adversary")
	mustDo(t, os.MkdirAll(tool, 0o755))
	module, compiler := buildGuest(t, tool)

	server := httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			a.conns.Add(1)
		}
	}
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	a.port = int(at.Port())
	ca, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "notes")
	mustDo(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	mustDo(t, os.WriteFile(key, []byte(credential), 0o600))

	b, err := os.ReadFile(module)
	mustDo(t, err)
	sum := sha256.Sum256(b)
	most, err := json.Marshal(a.grants()["everything"])
	mustDo(t, err)
	// A manifest in YAML may be JSON.
	mustDo(t, os.WriteFile(filepath.Join(tool, "tool.yaml"), fmt.Appendf(nil, `{name: adversary, description: Does what its arguments say., kind: wasm, class: write, `+
		`module: adversary.wasm, sha256: "%s", facts: none, caps: %s, input: {type: object, properties: `+
		`{grant: {type: string}, steps: {type: string}}, required: [grant, steps], additionalProperties: false}}`, hex.EncodeToString(sum[:]), most), 0o644))
	var rules strings.Builder
	rules.WriteString("package callgate.rules\n\nimport rego.v2\n\nwaive contains \"limit\"\n")
	for name, caps := range a.grants() {
		b, err := json.Marshal(caps)
		mustDo(t, err)
		fmt.Fprintf(&rules, "\nallow contains object.union(%s, {\"id\": %q}) if input.args.grant == %q\n", b, strings.ReplaceAll(strings.ToLower(name), " ", "_"), name)
	}
	mustDo(t, os.MkdirAll(filepath.Join(dir, "bundle"), 0o755))
	mustDo(t, os.CopyFS(filepath.Join(dir, "bundle/callgate"), bundles.Base()))
	mustDo(t, os.WriteFile(filepath.Join(dir, "bundle/rules.rego"), []byte(rules.String()), 0o644))
	a.fill(t)

	c := config(dir)
	c.Roots = []hostfx.Root{{Name: "docs", Path: a.files}}
	c.Guests.Compiler = []string{compiler}
	c.CA, c.Secrets = ca, []local.Secret{{Name: "notes", File: key}, {Name: "other", File: key}}
	c.Networks = []hostfx.Network{{Name: "loopback", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	for _, host := range []string{"api.example.com", "other.example.com", "xn--bcher-kva.example.com", "evil.example.com"} {
		c.Names = append(c.Names, hostfx.Name{Host: host, Addresses: []netip.AddrPort{at}})
	}
	a.e = open(t, c)
	a.session, err = a.e.OpenSession(t.Context(), mallory)
	mustDo(t, err)
	return a
}

var mallory = call.Principal{ID: "mallory", Kind: "user", Roles: []string{"analyst"}, Auth: call.Auth{Method: "asserted"}}

// fill makes the files as they are before each call.
func (a *arena) fill(t *testing.T) {
	t.Helper()
	for _, name := range []string{"reports", "beside", "secret.txt"} { // not the root itself, which is open
		mustDo(t, os.RemoveAll(filepath.Join(a.files, name)))
	}
	mustDo(t, os.MkdirAll(filepath.Join(a.files, "reports/d"), 0o755))
	mustDo(t, os.MkdirAll(filepath.Join(a.files, "beside"), 0o755))
	for name, text := range map[string]string{"reports/a.txt": "alpha", "reports/d/f": "inside", "secret.txt": leak, "beside/f": leak} {
		mustDo(t, os.WriteFile(filepath.Join(a.files, name), []byte(text), 0o600))
	}
	for name, to := range map[string]string{"out": "../secret.txt", "up": "..", "in": "a.txt", "absolute": filepath.Join(a.files, "secret.txt")} {
		mustDo(t, os.Symlink(to, filepath.Join(a.files, "reports", name)))
	}
}

// tree is all that there is below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	mustDo(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		what := d.Type().String()
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			mustDo(t, err)
			what += string(b)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			mustDo(t, err)
			what += to
		}
		all[p] = what
		return nil
	}))
	return all
}

func (a *arena) serve(w http.ResponseWriter, r *http.Request) {
	auth := ""
	if r.Header.Get("Authorization") == "Bearer "+credential {
		auth = " with the credential"
	}
	a.mu.Lock()
	a.seen = append(a.seen, r.Method+" "+r.Host+r.URL.Path+auth)
	a.mu.Unlock()
	switch r.URL.Path {
	case "/v1/away":
		http.Redirect(w, r, "https://other.example.com/v1/notes", http.StatusFound)
	case "/v1/tell":
		io.WriteString(w, r.Header.Get("Authorization"))
	default:
		io.WriteString(w, "hello")
	}
}

func (a *arena) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// do makes the call, through the policy and the whole engine.
func (a *arena) do(t *testing.T, try try) (out []string, id string, o call.Outcome) {
	t.Helper()
	steps, err := json.Marshal(try.steps)
	mustDo(t, err)
	args, err := json.Marshal(map[string]string{"grant": try.grant, "steps": string(steps)})
	mustDo(t, err)
	res, err := a.e.Do(t.Context(), call.Call{Principal: mallory, Tool: "adversary", Args: args, Session: a.session})
	if err != nil {
		t.Fatalf("Do = %v", err)
	}
	mustDo(t, json.Unmarshal(res.Output, &out))
	return out, res.CallID, res.Outcome
}

// check makes one call and looks at all that is to be seen of it. What was refused
// leaves files and servers as they were.
func (a *arena) check(t *testing.T, try try, refused bool) {
	t.Helper()
	a.fill(t)
	before, conns := tree(t, a.files), a.conns.Load()
	out, id, o := a.do(t, try)
	a.calls[id] = try.effects
	if d := cmp.Diff(try.out, out); d != "" {
		t.Errorf("the guest got (-want +got):\n%s", d)
	}
	effects := []string{}
	for _, e := range o.Effects {
		effects = append(effects, e.Kind+" "+e.Code)
	}
	if d := cmp.Diff(try.effects, effects, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	if d := cmp.Diff(try.seen, a.took(), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the servers saw (-want +got):\n%s", d)
	}
	want := conns + int64(len(try.seen)) + try.conns
	for deadline := time.Now().Add(time.Minute); a.conns.Load() < want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // the server has not looked at it yet
	}
	if made := a.conns.Load(); made != want {
		t.Errorf("%d connections were made, want %d", made-conns, want-conns)
	}
	after := tree(t, a.files)
	if refused {
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("files (-before +after):\n%s", d)
		}
	}
	for _, name := range []string{"secret.txt", "beside/f"} {
		if after[filepath.Join(a.files, name)] != before[filepath.Join(a.files, name)] {
			t.Errorf("%s has changed", name)
		}
	}
	if try.stderr != "" && string(o.Stderr) != try.stderr {
		t.Errorf("it logged %q, want %q", o.Stderr, try.stderr)
	}
	if all := fmt.Sprint(out, string(o.Stderr)); strings.Contains(all, leak) || strings.Contains(all, credential) {
		t.Error("the guest has what no grant gives")
	}
}

// What a guest tries beyond its grant is refused at the boundary and recorded; what its
// grant gives, asked for in the same way, is not.
func TestAdversaryIsRefused(t *testing.T) {
	a := newArena(t)
	for _, tt := range slices.Concat(a.fileAttacks(), a.webAttacks(), a.otherAttacks()) {
		t.Run(tt.name, func(t *testing.T) {
			a.check(t, tt.refused, true)
			t.Run("control", func(t *testing.T) { a.check(t, tt.control, false) })
		})
	}
	t.Run("swap race", a.swapRace)
	mustDo(t, a.e.Close())
	a.recorded(t)
}

// recorded checks that the log says of each call what was seen of it.
func (a *arena) recorded(t *testing.T) {
	t.Helper()
	for _, r := range records(t, a.dir) {
		want, ok := a.calls[r.Call]
		if !ok || r.Type != call.TypeOutcome {
			continue
		}
		delete(a.calls, r.Call)
		effects := []string{}
		for _, e := range r.Outcome.Effects {
			effects = append(effects, e.Kind+" "+e.Code)
		}
		if d := cmp.Diff(want, effects, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("recorded (-want +got):\n%s", d)
		}
	}
	if len(a.calls) > 0 {
		t.Errorf("%d calls have no outcome in the log", len(a.calls))
	}
	segments, err := filepath.Glob(filepath.Join(a.dir, "data/log/*"))
	mustDo(t, err)
	for _, s := range segments {
		b, err := os.ReadFile(s)
		mustDo(t, err)
		for _, hidden := range []string{leak, credential, "alpha"} {
			if strings.Contains(string(b), hidden) {
				t.Errorf("the log holds %q", hidden)
			}
		}
	}
}

// swapRace has the guest read and write below a directory that somebody makes a link
// out of and back again.
func (a *arena) swapRace(t *testing.T) {
	a.fill(t)
	d, kept := filepath.Join(a.files, "reports/d"), filepath.Join(a.files, "reports/kept")
	link := filepath.Join(a.files, "reports/link")
	mustDo(t, os.Symlink("../beside", link))
	var stop atomic.Bool
	var racer sync.WaitGroup
	calm := func() { stop.Store(true); racer.Wait() }
	defer calm()
	racer.Go(func() {
		for !stop.Load() {
			for _, m := range [][2]string{{d, kept}, {link, d}, {d, link}, {kept, d}} {
				if err := os.Rename(m[0], m[1]); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	race := try{grant: "change", steps: []step{
		{Do: "read", Path: "/docs/reports/d/f", Times: 300}, {Do: "write", Path: "/docs/reports/d/f", Body: "inside", Times: 300},
		{Do: "append", Path: "/docs/reports/d/g", Body: "x", Times: 100}, {Do: "remove", Path: "/docs/reports/d/g", Times: 100},
	}}
	for range 3 {
		out, _, _ := a.do(t, race)
		for _, o := range out {
			if strings.Contains(o, leak) {
				t.Fatal("read outside of the granted folder")
			}
		}
	}
	calm()
	if d := cmp.Diff(map[string]string{filepath.Join(a.files, "beside"): "d---------", filepath.Join(a.files, "beside/f"): "----------" + leak}, tree(t, filepath.Join(a.files, "beside"))); d != "" {
		t.Errorf("outside (-want +got):\n%s", d)
	}
	// With nobody racing it is one or the other.
	last := try{grant: "change", steps: []step{{Do: "write", Path: "/docs/reports/d/f", Body: "inside"}, {Do: "read", Path: "/docs/reports/d/f"}}}
	if out, _, _ := a.do(t, last); !slices.Equal(out, []string{"ok:", "ok:inside"}) {
		t.Errorf("with the directory: %q", out)
	}
	mustDo(t, os.Rename(d, kept))
	mustDo(t, os.Rename(link, d))
	if out, _, _ := a.do(t, last); !slices.Equal(out, []string{"not granted:", "not granted:"}) {
		t.Errorf("with the link: %q", out)
	}
}
