package engine_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
)

const putManifest = `
name: put
description: sends a file on
kind: host
class: write
facts:
  urls: [{at: /url, method: PUT}]
  paths: [{at: /path, mode: read}]
input:
  type: object
  properties: {url: {type: string}, path: {type: string}, etag: {type: string}}
  required: [url, path, etag]
  additionalProperties: false
preconditions: [{file: /path}, {etag: /etag}]
caps:
  http: [{hosts: [example.com], ports: [443], methods: [PUT], paths: [/], networks: [here]}]
  fs: [{root: work, path: ., modes: [read]}]
`

type putArgs struct {
	URL  string `json:"url"`
	Path string `json:"path"`
	ETag string `json:"etag"`
}

// putting is a tool that sends a request to a TLS server, after whatever happens
// meanwhile.
type putting struct {
	dir   string
	o     engine.Options
	log   *memory
	after func() // before its first effect, and after the decision

	mu   sync.Mutex
	seen []string // If-Match of each request
}

func newPutting(t *testing.T) *putting {
	t.Helper()
	p := &putting{dir: t.TempDir(), log: &memory{}, after: func() {}}
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen = append(p.seen, r.Header.Get("If-Match"))
	}))
	t.Cleanup(s.Close)
	host, err := hostfx.New(hostfx.Options{
		Roots:    []hostfx.Root{{Name: "work", Path: p.dir}},
		Networks: []hostfx.Network{{Name: "here", Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		Names:    []hostfx.Name{{Host: "example.com", Addresses: []netip.AddrPort{netip.MustParseAddrPort(s.Listener.Addr().String())}}},
		CA:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	tool := engine.Host(putManifest, func(ctx context.Context, fx *hostfx.Effects, in putArgs) (string, error) {
		p.after()
		_, err := fx.HTTP(ctx, hostfx.Request{Method: "PUT", URL: in.URL})
		return "sent", err
	})
	d := allow
	d.Grants = []call.RuleGrant{{Caps: call.Caps{
		HTTP: []call.HTTP{{Hosts: []string{"example.com"}, Ports: []int{443}, Methods: []string{"PUT"}, Paths: []string{"/"}, Networks: []string{"here"}}},
		FS:   []call.FS{{Root: "work", Path: "open", Modes: []string{"read"}}},
	}}}
	d.Limits = []call.Limit{{Name: "few", Burst: 2, Per: "100h"}}
	p.o = engine.Options{Policy: always(d), Log: p.log, Host: host, Salts: fixedSalts{}, Tools: []engine.Tool{tool}}
	if err := errors.Join(os.Mkdir(filepath.Join(p.dir, "open"), 0o700), os.WriteFile(filepath.Join(p.dir, "closed"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *putting) path() string { return filepath.Join(p.dir, "open/a.txt") }

func put(path, etag string) call.Call {
	return call.Call{Principal: alice, Tool: "put", Args: fmt.Appendf(nil, `{"url":"https://example.com/x","path":%q,"etag":%q}`, path, etag)}
}

// What is in the file when the call is decided is in the record, and holds when the
// first request that changes something goes out.
func TestPreconditions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string // content, "-" for no file
		after  func(path string) error
		want   call.Code
		digest string
	}{
		{"as it was", "alpha", func(string) error { return nil }, call.CodeOK, call.Digest([]byte("alpha"))},
		{"changed", "alpha", func(p string) error { return os.WriteFile(p, []byte("beta"), 0o600) }, call.CodeToolError, call.Digest([]byte("alpha"))},
		{"still not there", "-", func(string) error { return nil }, call.CodeOK, call.Absent},
		{"there now", "-", func(p string) error { return os.WriteFile(p, nil, 0o600) }, call.CodeToolError, call.Absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPutting(t)
			if tt.before != "-" {
				if err := os.WriteFile(p.path(), []byte(tt.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p.after = func() {
				if err := tt.after(p.path()); err != nil {
					t.Error(err)
				}
			}
			e := open(t, p.o)
			res, err := e.Do(t.Context(), put("/work/open/a.txt", `"v7"`))
			if failed, ok := errors.AsType[*engine.ToolError](err); ok {
				res = failed.Result
			}
			if res == nil || res.Outcome.Code != tt.want {
				t.Fatalf("Do = %v, want %s", err, tt.want)
			}
			e.Close()
			recs := p.log.decoded(t)
			key, _ := fixedSalts{}.Key("", time.Time{})
			want := []string{call.Keyed(key, res.CallID, "precondition", []byte(tt.digest)), call.Keyed(key, res.CallID, "precondition", []byte(`"v7"`))}
			if diff := cmp.Diff(want, recs[0].Preconditions); diff != "" {
				t.Error(diff)
			}
			effect, seen := "ok", []string{`"v7"`}
			if tt.want != call.CodeOK {
				effect, seen = "changed", nil
			}
			if fx := recs[1].Outcome.Effects; len(fx) != 1 || fx[0].Kind != "http.put" || fx[0].Code != effect {
				t.Errorf("effects %+v, want one %s", fx, effect)
			}
			if diff := cmp.Diff(seen, p.seen); diff != "" {
				t.Errorf("the server saw (-want +got):\n%s", diff)
			}
		})
	}
}

// What people approved is the call with the file as it was: a file that was exchanged
// since is another question.
func TestApprovalIsOfTheFileAsItWas(t *testing.T) {
	p := newPutting(t)
	d, err := p.o.Policy.Decide(t.Context(), &call.Input{})
	if err != nil {
		t.Fatal(err)
	}
	d.Verdict, d.Approvals = call.Ask, []call.ApprovalRule{oneLead}
	p.o.Policy = always(d)
	write := func(text string) {
		if err := os.WriteFile(p.path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, c := open(t, p.o), put("/work/open/a.txt", `"v7"`)
	write("harmless")
	id := asked(t, e, c)
	if again := asked(t, e, c); again != id {
		t.Errorf("the same file is asked about twice: %s, %s", id, again)
	}
	mustVote(t, e, id, lead, false)
	write("something else")
	if other := asked(t, e, c); other == id || len(p.seen) > 0 {
		t.Errorf("asked %s again, and %d requests", other, len(p.seen))
	}
	write("harmless")
	if _, err := e.Do(t.Context(), c); err != nil || len(p.seen) != 1 {
		t.Errorf("with the file that was approved: %v", err)
	}
}

// A call that depends on what it may not see is refused before it takes anything, and
// nothing of what it depends on is told.
func TestPreconditionsRefuse(t *testing.T) {
	p := newPutting(t)
	e := open(t, p.o)
	if err := os.Symlink("../closed", p.path()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path, etag string
		want             call.Code
	}{
		{"not granted", "/work/closed", `"v7"`, call.CodePreconditionUnavailable},
		{"the directory", "/work/open", `"v7"`, call.CodePreconditionUnavailable},
		{"a link out", "/work/open/a.txt", `"v7"`, call.CodePreconditionUnavailable},
		{"another root", "/canary/a.txt", `"v7"`, call.CodePreconditionUnavailable},
		{"no tag", "/work/open/b.txt", "canary", call.CodeArgsSchema},
		{"a weak one", "/work/open/b.txt", `W/"canary"`, call.CodeArgsSchema},
	} {
		for _, explain := range []bool{false, true} {
			var code call.Code
			if explain {
				x, err := e.Explain(t.Context(), put(tt.path, tt.etag))
				if err != nil {
					t.Fatal(err)
				}
				code = x.Code
			} else if d, ok := errors.AsType[*engine.Denial](func() error { _, err := e.Do(t.Context(), put(tt.path, tt.etag)); return err }()); ok {
				code = d.Code
			}
			if code != tt.want {
				t.Errorf("%s, explained %v: %q, want %s", tt.name, explain, code, tt.want)
			}
		}
	}
	for range 2 { // the limit is untouched
		if _, err := e.Do(t.Context(), put("/work/open/b.txt", `"v7"`)); err != nil {
			t.Errorf("a call that is not refused: %v", err)
		}
	}
	e.Close()
	for _, r := range p.log.decoded(t) {
		if r.Code != "" && r.Type == call.TypeDecision && (r.Change != nil || len(r.Preconditions) > 0) {
			t.Errorf("a refusal changes something: %+v", r)
		}
	}
}

// What the issuer found goes with the grant, and the executor holds the run to it.
func TestPreconditionsTravel(t *testing.T) {
	sign := func(change func(*token.Claims)) token.Signer {
		return signing(func(ctx context.Context, c token.Claims) (string, error) {
			change(&c)
			return issuing(t).Signer.Sign(ctx, c)
		})
	}
	for _, tt := range []struct {
		name   string
		claims func(*token.Claims)
		there  string // what the executor has
		want   call.Code
	}{
		{"as the issuer found it", func(*token.Claims) {}, "alpha", call.CodeOK},
		{"not so here", func(*token.Claims) {}, "beta", call.CodeToolError},
		{"the issuer does not say", func(c *token.Claims) { c.Preconditions = nil }, "alpha", call.CodeGrantInvalid},
		{"nor all", func(c *token.Claims) { c.Preconditions = c.Preconditions[:1] }, "alpha", call.CodeGrantInvalid},
		{"nor in this order", func(c *token.Claims) { slices.Reverse(c.Preconditions) }, "alpha", call.CodeGrantInvalid},
		{"no digest", func(c *token.Claims) { c.Preconditions[0].Digest = "" }, "alpha", call.CodeGrantInvalid},
		{"of another file", func(c *token.Claims) { c.Preconditions[0].File = "/work/open/b.txt" }, "alpha", call.CodeGrantInvalid},
		{"another tag", func(c *token.Claims) { c.Preconditions[1].ETag = `"v8"` }, "alpha", call.CodeGrantInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := newPutting(t), newPutting(t)
			if err := errors.Join(os.WriteFile(here.path(), []byte("alpha"), 0o600), os.WriteFile(there.path(), []byte(tt.there), 0o600)); err != nil {
				t.Fatal(err)
			}
			here.o.Grants = issuing(t)
			here.o.Grants.Signer = sign(tt.claims)
			there.o.Grants = executing(t, false)
			c := put("/work/open/a.txt", `"v7"`)
			raw, err := open(t, here.o).Issue(t.Context(), c, "runner")
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(t, there.o).Execute(t.Context(), raw, c.Args)
			got := call.CodeOK
			if d, ok := errors.AsType[*engine.Denial](err); ok {
				got = d.Code
			} else if f, ok := errors.AsType[*engine.ToolError](err); ok {
				got = f.Result.Outcome.Code
			}
			if got != tt.want || (len(there.seen) > 0) != (tt.want == call.CodeOK) {
				t.Errorf("Execute = %v, want %s; the server saw %q", err, tt.want, there.seen)
			}
		})
	}
}

// depending makes the scene's tool depend on a file that policy does not let it read.
func (s *scene) depending() {
	none := func(context.Context, *hostfx.Effects, map[string]string) (string, error) { return "ran", nil }
	s.o.Tools = []engine.Tool{engine.Host(countManifest+"preconditions: [{file: /path}]\n", none)}
}
