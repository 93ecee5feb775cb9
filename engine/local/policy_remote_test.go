package local_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego"
	packing "github.com/callgate/callgate/rego/pack"
)

// publisher is a TLS server with one bundle, and the key that signs it.
type publisher struct {
	server  *httptest.Server
	private []byte

	mu   sync.Mutex
	body []byte
	down bool
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tag := `"` + call.Digest(p.body) + `"`
	switch {
	case p.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Header.Get("If-None-Match") == tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", tag)
		_, _ = w.Write(p.body)
	}
}

func (p *publisher) publish(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body, p.down = b, b == nil
}

// newKey writes a public key to a file.
func newKey(t *testing.T, file string) (private []byte) {
	t.Helper()
	pub, key, err1 := ed25519.GenerateKey(rand.Reader)
	p8, err2 := x509.MarshalPKCS8PrivateKey(key)
	pk, err3 := x509.MarshalPKIXPublicKey(pub)
	err4 := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pk}), 0o600)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8})
}

// remote is the small project whose policy is published and signed.
func remote(t *testing.T, dir string) (local.Config, *publisher) {
	t.Helper()
	writeSmall(t, dir)
	p := &publisher{private: newKey(t, filepath.Join(dir, "release.pub"))}
	p.server = httptest.NewTLSServer(p)
	t.Cleanup(p.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	c := small(dir)
	c.Bundle, c.Layers, c.Production, c.AssertedApprovers = "", []local.Layer{{
		Name: "team", Bundle: p.server.URL + "/team.tar.gz", CA: filepath.Join(dir, "ca.pem"), Every: time.Second,
		Signing: &local.Signing{Scope: "team", Keys: []local.SigningKey{{ID: "release", File: filepath.Join(dir, "release.pub")}}},
	}}, true, false
	return c, p
}

// release builds and signs the project in dir with these rules.
func (p *publisher) release(t *testing.T, dir string, epoch int64, rules string) []byte {
	t.Helper()
	put(t, rules, dir, "bundle/rules.rego")
	fsys, err := rego.Load(filepath.Join(dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := packing.Build(t.Context(), fsys, packing.Options{Revision: fmt.Sprint("r", epoch), Epoch: &epoch})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := packing.SignArchive(b.Archive, packing.Signing{Key: p.private, KeyID: "release", Scope: "team", Issued: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func code(t *testing.T, e *local.Engine) call.Code {
	t.Helper()
	if d := refusal(t, e); d != nil {
		return d.Code
	}
	return call.CodeOK
}

// Every decision is by one release for everybody in the chain, and by one that there
// was.
func TestSignedReleasesUnderLoad(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	p.publish(p.release(t, dir, 1, rules))
	e, poll, _ := followed(t, c)
	calm := underLoad(t, e, 16)
	there := map[string]string{"r1": e.Layers()[0].Revision.Digest}
	for n := range int64(20) {
		p.publish(p.release(t, dir, n+2, fmt.Sprintf("%s\n# %d\n", rules, n)))
		poll(1)
		r := e.Layers()[0].Revision
		there[r.Revision] = r.Digest
	}
	calm()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, r := range records(t, dir) {
		if r.Type != call.TypeDecision {
			continue
		}
		if len(r.Policy) != 1 || there[r.Policy[0].Revision] != r.Policy[0].Digest {
			t.Fatalf("decided by %+v", r.Policy)
		}
		used[r.Policy[0].Revision] = true
	}
	if len(there) != 21 || len(used) < 3 {
		t.Errorf("%d releases, %d of them decided", len(there), len(used))
	}
}

// Nothing but the next release by our key takes the place of the last good one.
func TestSignedLayerKeepsTheLastGood(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	first := p.release(t, dir, 1, nobody)
	p.publish(p.release(t, dir, 2, rules))
	e, poll, log := followed(t, c)
	own := p.private
	p.private = newKey(t, filepath.Join(dir, "other.pub"))
	foreign := p.release(t, dir, 3, nobody)
	p.private = own
	if err := appendTo(filepath.Join(dir, "bundle/callgate/words.rego"), "\n# harmless?\n"); err != nil {
		t.Fatal(err)
	}
	base := p.release(t, dir, 4, nobody)
	writeBase(t, dir)
	for _, step := range []struct {
		name string
		give []byte
		log  string
	}{
		{"roll-back", first, "epoch_older"},
		{"another key", foreign, "signature_invalid"},
		{"unsigned", pack(t, filepath.Join(dir, "bundle")), "bundle_unsigned"},
		{"another base", base, local.ErrBaseChanged.Error()},
		{"the epoch again", p.release(t, dir, 2, nobody), "epoch_reused"},
		{"no bundle", []byte("<html>"), `"stage":"read"`},
		{"no answer", nil, `"stage":"fetch"`},
	} {
		p.publish(step.give)
		poll(3)
		if !allowed(t, e) {
			t.Errorf("%s: denied", step.name)
		}
		if got := log.take(); len(got) != 1 || !strings.Contains(got[0], step.log) {
			t.Errorf("%s: the log says %q, want once %q", step.name, got, step.log)
		}
	}
	p.publish(p.release(t, dir, 5, nobody))
	poll(1)
	if allowed(t, e) {
		t.Error("the next release does not decide")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// After a restart the old one still is old, unless an operator says that it is meant.
	p.publish(first)
	if e = open(t, c); e.Layers()[0].Revision.Revision != "r5" {
		t.Errorf("%+v decides", e.Layers()[0])
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c.Layers[0].AllowRevisions = []string{"r1"}
	if e = open(t, c); e.Layers()[0].Revision.Revision != "r1" {
		t.Errorf("%+v decides", e.Layers()[0])
	}
}

func writeBase(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "bundle")); err != nil {
		t.Fatal(err)
	}
	writeSmall(t, dir)
}

// Without word from the publisher for too long, calls are refused, and no longer; so
// it is after a start without network.
func TestStalePolicyDecidesNothing(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	var late atomic.Int64
	c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	c.Layers[0].MaxAge = time.Hour
	good := p.release(t, dir, 1, rules)
	p.publish(good)
	e, poll, _ := followed(t, c)
	p.publish(nil)
	poll(1)
	if got := code(t, e); got != call.CodeOK {
		t.Fatal(got)
	}
	late.Store(int64(2 * time.Hour))
	poll(1)
	if got := code(t, e); got != call.CodePolicyStale || !e.Layers()[0].Stale {
		t.Errorf("stale, and yet %s", got)
	}
	p.publish(good)
	poll(1)
	if got := code(t, e); got != call.CodeOK {
		t.Errorf("recovered, and yet %s", got)
	}
	p.publish(nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, _, log := followed(t, c)
	if got := code(t, e); got != call.CodeOK || e.Layers()[0].Revision.Revision != "r1" || !slices.ContainsFunc(log.opened, func(s string) bool { return strings.Contains(s, "the one that decided last does") }) {
		t.Errorf("without network: %s, %+v, %q", got, e.Layers()[0], log.opened)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	late.Store(int64(9 * time.Hour))
	if e, _, _ = followed(t, c); code(t, e) != call.CodePolicyStale {
		t.Error("a start without network makes an old policy fresh")
	}
}

// What a bundle carries is what the tools are, until the engine is opened anew.
func TestManifestsInTheBundle(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	manifest := "name: elsewhere\ndescription: run by its caller\nkind: external\nclass: read\ninput: {type: object, properties: {}, additionalProperties: false}\n"
	put(t, manifest, dir, "bundle/tools/elsewhere/tool.yaml")
	p.publish(p.release(t, dir, 1, rules))
	e, poll, log := followed(t, c)
	_, err := e.Authorize(t.Context(), call.Call{Principal: call.Principal{ID: "alice", Kind: "agent", Auth: call.Auth{Method: "asserted"}}, Tool: "elsewhere", Args: []byte("{}")})
	if d, ok := errors.AsType[*engine.Denial](err); !ok || d.Code != call.CodePolicyDenied {
		t.Errorf("Authorize = %v, want policy's no to a tool that is known", err)
	}
	put(t, manifest+"tags: [more]\n", dir, "bundle/tools/elsewhere/tool.yaml")
	p.publish(p.release(t, dir, 2, rules))
	poll(2)
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], "manifests have changed") || e.Layers()[0].Revision.Revision != "r1" {
		t.Errorf("the log says %q, %+v", got, e.Layers()[0])
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e = open(t, c); e.Layers()[0].Revision.Revision != "r2" {
		t.Errorf("opened anew, %+v", e.Layers()[0])
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, manifest, dir, "tools/other/tool.yaml")
	c.Tools = filepath.Join(dir, "tools")
	if _, err := local.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "stands outside of the bundles") {
		t.Errorf("Open = %v", err)
	}
}

func TestProductionRefuses(t *testing.T) {
	dir := t.TempDir()
	base, p := remote(t, dir)
	p.publish(p.release(t, dir, 1, rules))
	for name, tt := range map[string]struct {
		change func(*local.Config)
		want   string
	}{
		"a layer without signing": {func(c *local.Config) { c.Layers[0].Signing = nil }, "its bundle is signed"},
		"a bundle alone":          {func(c *local.Config) { c.Layers, c.Bundle = nil, filepath.Join(dir, "bundle") }, "its bundle is signed"},
		"asserted approvers":      {func(c *local.Config) { c.AssertedApprovers = true }, "by their word alone"},
		"an unsigned bundle": {func(c *local.Config) {
			c.Layers[0].Bundle, c.Layers[0].CA, c.Layers[0].Every = filepath.Join(dir, "bundle"), "", 0
		}, "bundle_unsigned"},
		"no keys":          {func(c *local.Config) { c.Layers[0].Signing = &local.Signing{Scope: "team"} }, "no key"},
		"no scope":         {func(c *local.Config) { c.Layers[0].Signing.Scope = "" }, "has a scope"},
		"another scope":    {func(c *local.Config) { c.Layers[0].Signing.Scope = "org" }, "signature_scope"},
		"a key of nothing": {func(c *local.Config) { c.Layers[0].Signing.Keys[0].File = filepath.Join(dir, "none") }, "none: no such file"},
		"two keys of one name": {func(c *local.Config) {
			c.Layers[0].Signing.Keys = append(c.Layers[0].Signing.Keys, c.Layers[0].Signing.Keys[0])
		}, "two keys"},
		"allowed without a signature": {func(c *local.Config) {
			c.Production, c.Layers[0].Signing, c.Layers[0].AllowRevisions = false, nil, []string{"x"}
		}, "allow_revisions"},
		"an interval for files": {func(c *local.Config) { c.Layers[0].Bundle = dir }, "for a bundle at a URL"},
		"a place of no kind":    {func(c *local.Config) { c.Layers[0].Bundle = "ftp://x/y" }, "ftp://"},
		"never to be fresh":     {func(c *local.Config) { c.Layers[0].MaxAge, c.Watch = time.Hour, -1 }, "max_age"},
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			c.Layers = slices.Clone(base.Layers)
			signing := *base.Layers[0].Signing
			signing.Keys = slices.Clone(signing.Keys)
			c.Layers[0].Signing = &signing
			tt.change(&c)
			mustNotOpen(t, c, tt.want)
		})
	}
}

// Bundles are kept while the log names them, and not longer once somebody asks.
func TestPruneBundles(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	p.publish(p.release(t, dir, 1, rules))
	e, poll, _ := followed(t, c)
	if !allowed(t, e) {
		t.Fatal("denied")
	}
	for epoch := range int64(3) { // of which the first two decide nothing
		p.publish(p.release(t, dir, epoch+2, fmt.Sprintf("%s\n# %d\n", rules, epoch)))
		poll(1)
	}
	if _, err := local.PruneBundles(t.Context(), c.Data); !errors.Is(err, local.ErrOwned) {
		t.Errorf("while it is open: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	gone, err := local.PruneBundles(t.Context(), c.Data)
	var names []string
	for _, k := range gone {
		names = append(names, k.Revision)
	}
	if err != nil || !slices.Equal(names, []string{"r2", "r3"}) {
		t.Errorf("%v, %v", names, err)
	}
	if again, err := local.PruneBundles(t.Context(), c.Data); err != nil || len(again) > 0 {
		t.Errorf("again: %v, %v", again, err)
	}
}
