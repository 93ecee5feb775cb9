package pack_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/callgate/callgate/rego"
)

// made is when the signatures of these tests are made.
var made = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// keys are one of each kind.
func keys(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	r, err1 := rsa.GenerateKey(rand.Reader, 2048)
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, err3 := ed25519.GenerateKey(rand.Reader)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return map[string]crypto.Signer{"RS256": r, "ES256": e, "EdDSA": d}
}

func pair(t testing.TB, key crypto.Signer) (private, public []byte) {
	t.Helper()
	p8, err1 := x509.MarshalPKCS8PrivateKey(key)
	pub, err2 := x509.MarshalPKIXPublicKey(key.Public())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
}

// policy is a bundle with a test that passes.
func policy() fstest.MapFS {
	return fstest.MapFS{
		"rules/p.rego":      {Data: []byte("package callgate\ndecision := {\"decision\":\"deny\"}\n")},
		"rules/p_test.rego": {Data: []byte("package callgate_test\nimport data.callgate\ntest_denies if callgate.decision.decision == \"deny\"\ntodo_test_more if false\n")},
		"hosts/data.json":   {Data: []byte(`{"allowed": ["a.example"], "max": 3}`)},
		"more/data.yaml":    {Data: []byte("x: 1\n")},
		"README.md":         {Data: []byte("hello\n")},
	}
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func archive(t testing.TB, b []byte) fs.FS {
	t.Helper()
	fsys, err := rego.Archive(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

func inspect(t testing.TB, fsys fs.FS) *rego.Facts {
	t.Helper()
	f, err := rego.Inspect(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func epoch(n int64) *int64 { return &n }
