package source_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/rego/source"
)

// authority issues client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func certify(t testing.TB, template, parent *x509.Certificate, pub any, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func newECKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key := newECKey(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := x509.ParseCertificate(certify(t, c, c, key.Public(), key))
	if err != nil {
		t.Fatal(err)
	}
	a := authority{cert, key, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// issue makes a certificate and its key, in PEM form.
func (a authority) issue(t testing.TB, serial int64) (cert, key []byte) {
	t.Helper()
	k := newECKey(t)
	der := certify(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "engine"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, a.cert, k.Public(), a.key)
	p8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8})
}

func put(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// known gives access the certificate that a issues, in files.
func (a authority) known(t testing.TB, access source.Access) source.Access {
	t.Helper()
	dir := t.TempDir()
	access.ClientCert, access.ClientKey = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	cert, key := a.issue(t, 7)
	put(t, access.ClientCert, cert)
	put(t, access.ClientKey, key)
	return access
}

// mutual is a web server with TLS that wants certificates.
func mutual(t *testing.T, want tls.ClientAuthType, pool *x509.CertPool, h http.HandlerFunc) (*httptest.Server, source.Access) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: want, ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, source.Access{CA: caOf(t, s)}
}

func TestClientCertificate(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	var mu sync.Mutex
	asked := 0
	server, access := mutual(t, tls.RequireAndVerifyClientCert, ours.pool, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		_, _ = io.WriteString(w, "one")
	})
	if one, err := newHTTP(t, source.HTTP{URL: server.URL, Access: ours.known(t, access)}).Fetch(t.Context(), ""); err != nil || string(one.Bytes) != "one" {
		t.Fatalf("%+v, %v", one, err)
	}
	for name, a := range map[string]source.Access{"none": access, "of another authority": theirs.known(t, access)} {
		_, err := newHTTP(t, source.HTTP{URL: server.URL, Access: a}).Fetch(t.Context(), "")
		if err == nil || asked != 1 || strings.Contains(err.Error(), "://") {
			t.Errorf("%s: %v, asked %d times", name, err, asked)
		}
	}
	// Which error it is depends on whether the alert or the end of the connection is
	// seen first.
	for alert, want := range map[tls.AlertError]string{42: "bad certificate", 45: "expired", 48: "unknown certificate authority", 116: "certificate required", 70: ""} {
		err := &url.Error{Op: "Get", URL: "https://a.example/?c4nary", Err: &net.OpError{Op: "remote error", Err: alert}}
		for file, start := range map[string]string{"": "the server wants a client certificate: ", "client.pem": "the server refuses the client certificate in client.pem: "} {
			got := source.Access{ClientCert: file}.Refused(err).Error()
			if strings.HasPrefix(got, start) != (want != "") || !strings.Contains(got, want) || strings.Contains(got, "c4nary") {
				t.Errorf("alert %d is %q", alert, got)
			}
		}
	}
}

// A renewed certificate is shown from the next fetch on, also where a connection made
// with the one before is still open. Half of it is no reason to go on with the old one.
func TestClientCertificateRenewed(t *testing.T) {
	ours, s, c := newAuthority(t), newSigner(t), newClock()
	var mu sync.Mutex
	var shown []int64
	w := &site{}
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	server, access := mutual(t, tls.RequireAndVerifyClientCert, ours.pool, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown = append(shown, r.TLS.PeerCertificates[0].SerialNumber.Int64())
		mu.Unlock()
		w.ServeHTTP(rw, r)
	})
	access = ours.known(t, access)
	g := newGate(s, c, t.TempDir())
	f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL, Access: access}), Activate: g.activate, Now: c.now})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	cert, key := ours.issue(t, 8)
	put(t, access.ClientCert, cert)
	w.publish(`"v2"`, s.sign(t, archive(t, 2, denies)))
	if err := f.Poll(t.Context()); stage(err) != source.StageCredential || !strings.Contains(err.Error(), "is not the key") || g.decides(t) != "r1" {
		t.Errorf("between the two files: %v, %s decides", err, g.decides(t))
	}
	if st := f.Status(); st.Failed != source.StageCredential || st.Failures != 1 {
		t.Errorf("%+v", st)
	}
	put(t, access.ClientKey, key)
	for range 2 {
		if err := f.Poll(t.Context()); err != nil || g.decides(t) != "r2" {
			t.Errorf("renewed: %v, %s decides", err, g.decides(t))
		}
	}
	if len(shown) != 3 || shown[0] != 7 || shown[1] != 8 || shown[2] != 8 {
		t.Errorf("shown %v", shown)
	}
}

// Where a server sends us is shown no certificate.
func TestClientCertificateStaysAtHome(t *testing.T) {
	ours := newAuthority(t)
	r := newRegistry()
	r.manifest(t, manifestType, "live", r.push(layerType, []byte("one")))
	asked := 0
	blobs, _ := mutual(t, tls.RequestClientCert, nil, func(w http.ResponseWriter, req *http.Request) {
		asked++
		if len(req.TLS.PeerCertificates) > 0 || req.Header.Get("Authorization") != "" {
			t.Error("the blobs' host knows who we are")
		}
		_, _ = w.Write(r.blobs[strings.TrimPrefix(req.URL.Path, "/")])
	})
	r.blobsAt = blobs.URL
	registry, access := mutual(t, tls.RequireAndVerifyClientCert, ours.pool, r.ServeHTTP)
	at := "oci://" + strings.TrimPrefix(registry.URL, "https://") + "/team/b:live"
	s, err := source.At(at, ours.known(t, access))
	if err != nil {
		t.Fatal(err)
	}
	if one, err := s.Fetch(t.Context(), ""); err != nil || string(one.Bytes) != "one" || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", one, err, asked)
	}
	without, err := source.At(at, access)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := without.Fetch(t.Context(), ""); err == nil || asked != 1 {
		t.Errorf("without one: %v", err)
	}
	// A bundle's server sends us nowhere.
	moved, access := mutual(t, tls.RequireAndVerifyClientCert, ours.pool, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, blobs.URL, http.StatusFound)
	})
	if _, err := newHTTP(t, source.HTTP{URL: moved.URL, Access: ours.known(t, access)}).Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "another host") || asked != 1 {
		t.Errorf("redirected: %v", err)
	}
	for scheme, want := range map[string]bool{"http": true, "https": false, "socks5": true} {
		got, err := source.NotThroughTLS(func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: scheme, Host: "proxy.example"}, nil })(nil)
		if (err == nil) != want || (got != nil) != want {
			t.Errorf("proxy by %s: %v, %v", scheme, got, err)
		}
	}
	none, err := source.NotThroughTLS(func(*http.Request) (*url.URL, error) { return nil, errors.New("no") })(nil)
	if none != nil || err == nil {
		t.Errorf("no proxy: %v, %v", none, err)
	}
}

// What is wrong with the files is said when the source is made and at every fetch, by
// the file's name, and what stands in them is not.
func TestClientCertificateRefuses(t *testing.T) {
	ours := newAuthority(t)
	_, another := ours.issue(t, 9)
	canary := pem.EncodeToMemory(&pem.Block{Type: "C4NARY", Bytes: []byte("c4nary")})
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("c4nary")})
	for name, tt := range map[string]struct {
		change func(t *testing.T, cert, key string)
		want   string
	}{
		"no certificate": {func(t *testing.T, cert, _ string) { put(t, cert, canary) }, "client.pem holds no certificate"},
		"no PEM":         {func(t *testing.T, cert, _ string) { put(t, cert, []byte("c4nary")) }, "client.pem holds no certificate"},
		"a broken one": {func(t *testing.T, cert, _ string) {
			put(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: canary}))
		}, "client.pem holds no certificate"},
		"a key in its place": {func(t *testing.T, cert, _ string) { put(t, cert, another) }, "client.pem holds no certificate"},
		"no key":             {func(t *testing.T, _, key string) { put(t, key, canary) }, "client.key holds no private key"},
		"an encrypted key":   {func(t *testing.T, _, key string) { put(t, key, encrypted) }, "client.key holds no private key"},
		"another key":        {func(t *testing.T, _, key string) { put(t, key, another) }, "client.key is not the key"},
		"a large key":        {func(t *testing.T, _, key string) { put(t, key, make([]byte, 1<<20)) }, "client.key: is not a file of at most"},
		"a directory":        {func(t *testing.T, _, key string) { mustDo(t, os.Remove(key), os.Mkdir(key, 0o700)) }, "client.key: is not a file"},
		"no file":            {func(t *testing.T, cert, _ string) { mustDo(t, os.Remove(cert)) }, "client.pem: no such file"},
		"a key for all":      {func(t *testing.T, _, key string) { mustDo(t, os.Chmod(key, 0o644)) }, "client.key: mode is 0644"},
		"a key groups write": {func(t *testing.T, _, key string) { mustDo(t, os.Chmod(key, 0o660)) }, "client.key: mode is 0660"},
		"a key of a group":   {func(t *testing.T, _, key string) { mustDo(t, os.Chmod(key, 0o640)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, access := mutual(t, tls.RequireAndVerifyClientCert, ours.pool, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "one") })
			access = ours.known(t, access)
			early := newHTTP(t, source.HTTP{URL: server.URL, Access: access})
			tt.change(t, access.ClientCert, access.ClientKey)
			_, err1 := early.Fetch(t.Context(), "")
			_, err2 := source.At(server.URL, access)
			_, err3 := source.At("oci://a.example/team/b:v1", access)
			for _, err := range []error{err1, err2, err3} {
				if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(strings.ToLower(err.Error()), "c4nary")) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		})
	}
	a := ours.known(t, source.Access{})
	for _, tt := range []struct {
		place string
		give  source.Access
		want  string
	}{
		{"https://a.example/b", source.Access{ClientCert: a.ClientCert}, "two files"},
		{"https://a.example/b", source.Access{ClientKey: a.ClientKey}, "two files"},
		{"oci://a.example/b:v1", source.Access{ClientKey: a.ClientKey}, "two files"},
		{"http://localhost/b", a, "without"},
		{"oci+http://localhost/b:v1", a, "without"},
	} {
		if _, err := source.At(tt.place, tt.give); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.place, err, tt.want)
		}
	}
}

func mustDo(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
