package local_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/local"
)

// newIdentity writes a certificate for clients that vouches for itself, and its key.
func newIdentity(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	k, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err2 := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	p8, err3 := x509.MarshalPKCS8PrivateKey(k)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	err4 := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	err5 := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8}), 0o600)
	if err := errors.Join(err4, err5); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

// A publisher that wants a certificate gets the layer's. Without one, or with half of
// one, nothing is opened.
func TestLayerWithClientCertificate(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	p.publish(p.release(t, dir, 1, rules))
	cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	server := httptest.NewUnstartedServer(p)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: newIdentity(t, cert, key)}
	server.StartTLS()
	t.Cleanup(server.Close)
	l := &c.Layers[0]
	l.Bundle = server.URL + "/team.tar.gz"
	for name, tt := range map[string]struct {
		change func(*local.Config)
		want   string
	}{
		"without one":         {func(c *local.Config) { c.Layers[0].ClientCert, c.Layers[0].ClientKey = "", "" }, "fetch"},
		"without its key":     {func(c *local.Config) { c.Layers[0].ClientKey = "" }, "two files"},
		"without itself":      {func(c *local.Config) { c.Layers[0].ClientCert = "" }, "two files"},
		"with no file":        {func(c *local.Config) { c.Layers[0].ClientKey += ".none" }, "no such file"},
		"for a directory":     {func(c *local.Config) { c.Layers[0].Bundle, c.Layers[0].CA, c.Layers[0].Every = dir, "", 0 }, "for a bundle at a URL"},
		"that others may use": {func(c *local.Config) { c.Layers[0].ClientKey = copyOf(t, key, 0o644) }, "mode is 0644"},
		"of another's key":    {func(c *local.Config) { c.Layers[0].ClientKey = cert }, "holds no private key"},
	} {
		l.ClientCert, l.ClientKey = cert, key
		bad := c
		bad.Layers = slices.Clone(c.Layers)
		tt.change(&bad)
		t.Run(name, func(t *testing.T) { mustNotOpen(t, bad, tt.want) })
	}
	if e := open(t, c); !allowed(t, e) {
		t.Error("denied")
	}
}

func copyOf(t *testing.T, file string, mode os.FileMode) string {
	t.Helper()
	b, err := os.ReadFile(file)
	to := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := errors.Join(err, os.WriteFile(to, b, mode), os.Chmod(to, mode)); err != nil {
		t.Fatal(err)
	}
	return to
}

// What stands in a URL for the server's eyes is in no error and no line of the log.
func TestQueriesAreNotShown(t *testing.T) {
	dir := t.TempDir()
	c, p := remote(t, dir)
	c.Layers[0].Bundle += "?sig=c4nary"
	good := p.release(t, dir, 1, rules)
	if err := appendTo(filepath.Join(dir, "bundle/callgate/words.rego"), "\n# harmless?\n"); err != nil {
		t.Fatal(err)
	}
	bad := p.release(t, dir, 2, rules)
	p.publish(bad)
	e, err := local.Open(t.Context(), c)
	if err == nil {
		e.Close()
	}
	if err == nil || !errors.Is(err, local.ErrBaseChanged) || strings.Contains(err.Error(), "c4nary") {
		t.Errorf("Open = %v", err)
	}
	p.publish(good)
	e, poll, log := followed(t, c)
	p.publish(bad)
	poll(1)
	p.publish(nil)
	poll(1)
	got := strings.Join(append(log.opened, log.take()...), "")
	if !strings.Contains(got, local.ErrBaseChanged.Error()) || !strings.Contains(got, `"stage":"fetch"`) || strings.Contains(got, "c4nary") {
		t.Errorf("the log says %s", got)
	}
	if from := e.Layers()[0].From; strings.Contains(from, "c4nary") || !strings.Contains(from, "/team.tar.gz") {
		t.Errorf("from %s", from)
	}
}
