package local_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/local/project"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// sharing is a node of a new project that has its state on that server.
func sharing(t *testing.T, address string) local.Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "p")
	if err := project.Write(dir); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "state.key")
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	return local.Config{
		Data: filepath.Join(dir, "data"), Bundle: filepath.Join(dir, "bundle"), Tools: filepath.Join(dir, "tools"),
		Node: "one", DecideTimeout: time.Minute, Guests: sharedGuests(), State: &local.Shared{Address: address, KeyFile: key},
	}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns their files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A node keeps its state on a server that it knows by its certificate, with a password
// from a file, and nothing of that is wrong without being said.
func TestSharedState(t *testing.T) {
	const secret = "canary-4711"
	cert, key := certificate(t)
	port := freePort(t)
	redistest.Start(t, fmt.Sprint("tls-port ", port), "bind 127.0.0.1", "tls-cert-file "+cert, "tls-key-file "+key,
		"tls-ca-cert-file "+cert, "tls-auth-clients no", "user node on >"+secret+" ~* &* +@all")
	c := sharing(t, fmt.Sprint("127.0.0.1:", port))
	c.State.TLS, c.State.CA, c.State.User, c.State.PasswordFile = true, cert, "node", filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(c.State.PasswordFile, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Do(t.Context(), call.Call{
		Principal: call.Principal{ID: "alice", Kind: "user", Roles: []string{"analyst"}}, Tool: "list-dir", Args: []byte(`{"path":"/docs"}`),
	})
	if d, ok := errors.AsType[*engine.Denial](err); ok && d.Code == call.CodeStateUnavailable {
		t.Errorf("Do = %+v, %v", res, err)
	}
	if len(e.Waived()) > 0 {
		t.Errorf("waived: %v", e.Waived())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}

	for name, tt := range map[string]struct {
		change func(*local.Config)
		want   string
	}{
		"no name":          {func(c *local.Config) { c.Node = "" }, "names"},
		"no key":           {func(c *local.Config) { c.State.KeyFile = "" }, "no key file"},
		"another's key":    {func(c *local.Config) { c.State.KeyFile = cert }, "is not a key of 32 bytes"},
		"unknown server":   {func(c *local.Config) { c.State.CA = "" }, "certificate"},
		"a CA without TLS": {func(c *local.Config) { c.State.TLS = false }, "ca is for tls"},
		"no certificate":   {func(c *local.Config) { c.State.CA = key }, "holds no certificate"},
		"no password":      {func(c *local.Config) { c.State.PasswordFile += "x" }, "no such file"},
		"not set":          {func(c *local.Config) { c.State.PasswordFile, c.State.PasswordEnv = "", "CALLGATE_NOT_SET" }, "$CALLGATE_NOT_SET is not set"},
		"two passwords":    {func(c *local.Config) { c.State.PasswordEnv = "X" }, "a password file and a variable"},
		"another user":     {func(c *local.Config) { c.State.User = "nobody" }, "WRONGPASS"},
		"an empty one":     {func(c *local.Config) { c.State.PasswordFile = moded(t, "", 0o600) }, "is empty"},
		"of others":        {func(c *local.Config) { c.State.PasswordFile = moded(t, secret, 0o604) }, "others may have read it"},
		"a CA of others":   {func(c *local.Config) { c.State.CA = moded(t, "", 0o646) }, "others may have written it"},
		"no such waiver":   {func(c *local.Config) { c.State.Waive = []string{"tls"} }, "cannot be waived"},
		"nobody there":     {func(c *local.Config) { c.State.Address = "127.0.0.1:1" }, "connecting to 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			bad, shared := c, *c.State
			bad.State = &shared
			tt.change(&bad)
			e, err := local.Open(t.Context(), bad)
			if err == nil {
				err = errors.Join(errors.New("opened"), e.Close())
			}
			if !strings.HasPrefix(err.Error(), "state: ") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("Open = %v, want something about %q", err, tt.want)
			}
		})
	}
}

// A client that would have its state elsewhere is told so.
func TestSharedStateIsPartOfTheConfiguration(t *testing.T) {
	server := redistest.Start(t)
	c := sharing(t, server.Address)
	e, err := local.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	k, err := local.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	own, other := c, c
	own.State = nil
	elsewhere := *c.State
	elsewhere.Prefix = "elsewhere"
	other.State = &elsewhere
	for _, c := range []local.Config{own, other} {
		if k, err := local.Dial(t.Context(), c); !errors.Is(err, local.ErrConfigDiffers) {
			if err == nil {
				k.Close()
			}
			t.Errorf("Dial = %v", err)
		}
	}
}

// moded makes a file with a mode, whatever the umask is.
func moded(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
	return name
}
