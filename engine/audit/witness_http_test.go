package audit

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serveWitness is an HTTP witness made of another one.
func serveWitness(w Witness) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		old, cp, proof, err := parseRequest(b)
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		lines, err := w.Update(r.Context(), old, cp, proof)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			rw.Header().Set("Content-Type", sizeType)
			rw.WriteHeader(refused.Status)
			fmt.Fprintf(rw, "%d\n", refused.Size)
			return
		}
		rw.Write(lines)
	})
}

// TLS, by the authorities that are given and no others.
func TestHTTPWitnessOverTLS(t *testing.T) {
	dir := build(t, Options{}, 3)
	kept := newWitness(t, dir, "kept", nil)
	serve := serveWitness(kept)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 { // a connection that went dead would be used on
			t.Errorf("asked in %s", r.Proto)
		}
		serve.ServeHTTP(rw, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	w, err := HTTPWitness("one", s.URL, kept.Key(), roots)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{Witnesses: []Witness{w}, Alive: -1})
	anchored(t, l, 2)
	anchored(t, l, put(t, l, 3))

	stranger, err := HTTPWitness("one", s.URL, kept.Key(), x509.NewCertPool())
	if err != nil {
		t.Fatal(err)
	}
	before := kept.asked.Load()
	if _, err := stranger.Update(t.Context(), 4, []byte("x"), nil); err == nil || kept.asked.Load() != before {
		t.Errorf("a server that nobody vouches for is believed: %v", err)
	}
}

// What a server may do besides answering.
func TestHTTPWitnessFaults(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	k, err := makeCosigningKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		status int
		size   int64
	}{
		"a redirect": {serve: func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, status: http.StatusTemporaryRedirect, size: -1},
		"endless": {serve: func(rw http.ResponseWriter, _ *http.Request) {
			for line := strings.Repeat("x", 1<<10); ; {
				if _, err := io.WriteString(rw, line); err != nil {
					return
				}
			}
		}},
		"cut off": {serve: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			io.WriteString(rw, "x")
		}},
		"a conflict": {serve: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", sizeType+"; charset=utf-8")
			rw.WriteHeader(http.StatusConflict)
			io.WriteString(rw, "12\n")
		}, status: http.StatusConflict, size: 12},
		"a conflict of another type": {serve: func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusConflict)
			io.WriteString(rw, "12\n")
		}, status: http.StatusConflict, size: -1},
		"no answer at all": {serve: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		s := httptest.NewServer(tt.serve)
		w, err := HTTPWitness("one", s.URL, k.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.(*httpWitness).client.Transport.(*http.Transport).Proxy != nil {
			t.Error("a proxy would be used")
		}
		lines, err := w.Update(t.Context(), 0, []byte("x"), nil)
		refused, ok := errors.AsType[*RefusedError](err)
		if err == nil || lines != nil || ok != (tt.status != 0) || ok && (refused.Status != tt.status || refused.Size != tt.size) {
			t.Errorf("%s: %q, %v", name, lines, err)
		}
		s.CloseClientConnections()
		s.Close()
	}
}

// Where a witness may be.
func TestHTTPWitnessURLs(t *testing.T) {
	k, err := makeCosigningKey("w.example")
	if err != nil {
		t.Fatal(err)
	}
	for url, ok := range map[string]bool{
		"https://witness.example": true, "https://witness.example/a/b/": true, "http://localhost:8080": true, "http://127.0.0.1:1/x": true, "http://[::1]:1": true,
		"http://witness.example": false, "http://10.0.0.1": false, "": false, "witness.example": false, "ftp://witness.example": false, "https://": false,
		"https://canary:canary@witness.example": false, "https://witness.example?canary": false, "https://witness.example#canary": false, "https:canary": false, "://canary": false,
	} {
		w, err := HTTPWitness("one", url, k.String(), nil)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", url, err)
		}
		if err == nil && !strings.HasSuffix(w.(*httpWitness).url, "/add-checkpoint") || err == nil && strings.Contains(w.(*httpWitness).url, "//add") {
			t.Errorf("%s is asked at %s", url, w.(*httpWitness).url)
		}
	}
}

// A witness that never answers is given up on, at the latest when the log is closed.
func TestHTTPWitnessThatHangs(t *testing.T) {
	dir := build(t, Options{}, 1)
	kept := newWitness(t, dir, "kept", nil)
	synctest.Test(t, func(t *testing.T) {
		hangs := &httpWitness{identity{"one", kept.Key()}, "http://127.0.0.1/", &http.Client{Transport: silence{}}}
		l := open(t, dir, Options{Witnesses: []Witness{hangs}, Alive: -1})
		time.Sleep(time.Second + witnessTime)
		synctest.Wait()
		if err := l.Witnesses()[0].Err; err == nil {
			t.Error("still waiting")
		}
		l.Close()
	})
}

type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
