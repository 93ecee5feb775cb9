package source_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
	"github.com/callgate/callgate/rego/source"
)

// start is when the clocks of these tests begin.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// clock is one that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// signer signs bundles, and says how they are verified.
type signer struct {
	private []byte
	public  string
}

func newSigner(t testing.TB) signer {
	t.Helper()
	pub, key, err1 := ed25519.GenerateKey(rand.Reader)
	p8, err2 := x509.MarshalPKCS8PrivateKey(key)
	pk, err3 := x509.MarshalPKIXPublicKey(pub)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return signer{
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8}),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pk})),
	}
}

// archive is the release of an epoch, with a rule.
func archive(t testing.TB, epoch int64, rule string) []byte {
	t.Helper()
	b, err := pack.Build(t.Context(), fstest.MapFS{"p.rego": {Data: []byte("package callgate\n\n" + rule + "\n")}},
		pack.Options{Revision: fmt.Sprint("r", epoch), Epoch: &epoch})
	if err != nil {
		t.Fatal(err)
	}
	return b.Archive
}

const denies = `decision := {"decision": "deny"}`

func (s signer) sign(t testing.TB, archive []byte, until ...time.Duration) []byte {
	t.Helper()
	how := pack.Signing{Key: s.private, KeyID: "k", Scope: "base", Issued: start}
	for _, d := range until {
		how.Expires = start.Add(d)
	}
	b, err := pack.SignArchive(archive, how)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// gate is what a layer's owner does with snapshots: verify, look at the epoch, open,
// and let decide.
type gate struct {
	verify  *rego.Verification
	epochs  rego.Epochs
	allowed []string
	commit  error // what Commit says
	opened  int

	now atomic.Pointer[rego.Policy]
}

func newGate(s signer, c *clock, dir string) *gate {
	return &gate{
		verify: &rego.Verification{Keys: map[string]rego.Key{"k": {PEM: s.public}}, Scope: "base", Now: c.now},
		epochs: rego.Epochs{Dir: filepath.Join(dir, "epochs")},
	}
}

func (g *gate) activate(ctx context.Context, s *source.Snapshot) (*source.Prepared, error) {
	fsys, sig, err := rego.Verify(s.FS, g.verify)
	if err != nil {
		return nil, err
	}
	facts, err := rego.Inspect(fsys)
	if err != nil {
		return nil, err
	}
	if err := g.epochs.Check("base", facts, g.allowed); err != nil {
		return nil, err
	}
	g.opened++
	p, err := rego.Open(ctx, fsys, rego.Options{Name: "base"})
	if err != nil {
		return nil, err
	}
	return &source.Prepared{Revision: p.Revision(), Expires: sig.Expires, Commit: func() error {
		if g.commit != nil {
			return g.commit
		}
		if err := g.epochs.Raise("base", facts); err != nil {
			return err
		}
		g.now.Store(p)
		return nil
	}}, nil
}

// decides is the revision that decides, and "" when a decision fails.
func (g *gate) decides(t testing.TB) string {
	t.Helper()
	p := g.now.Load()
	if p == nil {
		return "none"
	}
	args, err := call.Canonical([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Decide(context.Background(), &call.Input{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return d.Revisions[0].Revision
}

func follow(t testing.TB, o source.Options) *source.Follower {
	t.Helper()
	if o.Layer == "" {
		o.Layer = "base"
	}
	f, err := source.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func stage(err error) source.Stage {
	if e, ok := errors.AsType[*source.Error](err); ok {
		return e.Stage
	}
	return ""
}

func codeOf(err error) call.Code { return call.CodeOf(err, "") }

// caOf writes the certificate of a server to a file.
func caOf(t testing.TB, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
