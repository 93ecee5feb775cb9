package source_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego/source"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// registry is one of the OCI distribution specification, as far as pulling goes.
type registry struct {
	mu    sync.Mutex
	blobs map[string][]byte // digest -> blob
	types map[string]string // digest of a manifest -> media type
	tags  map[string]string // tag -> digest of a manifest

	password string // if not empty, is asked for
	blobsAt  string // where blobs are, if elsewhere
	pulled   int    // blobs
}

func newRegistry() *registry {
	return &registry{blobs: map[string][]byte{}, types: map[string]string{}, tags: map[string]string{}}
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.password != "" {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+r.password))
		if req.Header.Get("Authorization") != want {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	path, ok := strings.CutPrefix(req.URL.Path, "/v2/team/b/")
	kind, ref, _ := strings.Cut(path, "/")
	if digest, tagged := r.tags[ref]; tagged {
		ref = digest
	}
	b, found := r.blobs[ref]
	switch {
	case !ok || !found:
		w.WriteHeader(http.StatusNotFound)
	case kind == "blobs" && r.blobsAt != "":
		http.Redirect(w, req, r.blobsAt+"/"+ref, http.StatusTemporaryRedirect)
	case kind == "manifests" && r.types[ref] != "":
		w.Header().Set("Content-Type", r.types[ref])
		w.Header().Set("Docker-Content-Digest", ref)
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	case kind == "blobs":
		r.pulled++
		_, _ = w.Write(b)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

type descriptor struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitzero"`
}

func (r *registry) push(kind string, b []byte) descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := descriptor{MediaType: kind, Digest: call.Digest(b), Size: len(b)}
	r.blobs[d.Digest] = b
	if kind == manifestType || kind == indexType {
		r.types[d.Digest] = kind
	}
	return d
}

// manifest pushes an image of layers, or an index of images.
func (r *registry) manifest(t testing.TB, kind, tag string, of ...descriptor) descriptor {
	t.Helper()
	m := map[string]any{"schemaVersion": 2, "mediaType": kind}
	if kind == indexType {
		m["manifests"] = of
	} else {
		m["config"], m["layers"] = r.push("application/vnd.oci.image.config.v1+json", []byte("{}")), of
	}
	b, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	d := r.push(kind, b)
	r.tag(tag, d)
	return d
}

func (r *registry) tag(tag string, d descriptor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[tag] = d.Digest
}

func image(t *testing.T, r http.Handler, ref string, change ...func(*source.Access)) source.Source {
	t.Helper()
	server, access := secure(t, r.ServeHTTP)
	for _, c := range change {
		c(&access)
	}
	s, err := source.At("oci://"+strings.TrimPrefix(server.URL, "https://")+"/team/b"+ref, access)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOCI(t *testing.T) {
	r := newRegistry()
	v1 := r.manifest(t, manifestType, "live", r.push(layerType, []byte("one")))
	s := image(t, r, ":live")
	one, err := s.Fetch(t.Context(), "")
	if err != nil || string(one.Bytes) != "one" || one.Version != v1.Digest {
		t.Fatalf("%+v, %v", one, err)
	}
	if _, err := s.Fetch(t.Context(), one.Version); !errors.Is(err, source.ErrUnchanged) || r.pulled != 1 {
		t.Errorf("again: %v, %d blobs pulled", err, r.pulled)
	}
	v2 := r.manifest(t, manifestType, "live", r.push("text/plain", []byte("readme")), r.push(layerType, []byte("two")))
	if two, err := s.Fetch(t.Context(), one.Version); err != nil || string(two.Bytes) != "two" || two.Version != v2.Digest {
		t.Errorf("%+v, %v", two, err)
	}
	pinned := image(t, r, "@"+v1.Digest)
	if one, err := pinned.Fetch(t.Context(), ""); err != nil || string(one.Bytes) != "one" {
		t.Errorf("by digest: %+v, %v", one, err)
	}
	attested := r.manifest(t, manifestType, "x", r.push(layerType, []byte("provenance")))
	attested.Platform = map[string]string{"os": "unknown", "architecture": "unknown"}
	r.manifest(t, indexType, "live", attested, v2)
	if two, err := s.Fetch(t.Context(), ""); err != nil || string(two.Bytes) != "two" {
		t.Errorf("by index: %+v, %v", two, err)
	}
}

// The password goes to the registry, and not to where the registry keeps its blobs.
func TestOCIPassword(t *testing.T) {
	r := newRegistry()
	r.manifest(t, manifestType, "live", r.push(layerType, []byte("one")))
	r.password = "c4nary"
	var asked http.Header
	blobs, _ := secure(t, func(w http.ResponseWriter, req *http.Request) {
		asked = req.Header.Clone()
		_, _ = w.Write(r.blobs[strings.TrimPrefix(req.URL.Path, "/")])
	})
	r.blobsAt = blobs.URL
	t.Setenv("REGISTRY_PASSWORD", "c4nary")
	with := func(a *source.Access) { a.User, a.Secret = "me", source.Secret{Env: "REGISTRY_PASSWORD"} }
	// Test servers share one certificate.
	one, err := image(t, r, ":live", with).Fetch(t.Context(), "")
	if err != nil || string(one.Bytes) != "one" {
		t.Fatalf("%+v, %v", one, err)
	}
	if asked == nil || asked.Get("Authorization") != "" {
		t.Errorf("the blobs' host was asked with %v", asked)
	}
	t.Setenv("REGISTRY_PASSWORD", "wrong-c4nary")
	if _, err := image(t, r, ":live", with).Fetch(t.Context(), ""); err == nil || strings.Contains(err.Error(), "c4nary") || !strings.Contains(err.Error(), "401") {
		t.Errorf("wrong password: %v", err)
	}
}

func TestOCIRefuses(t *testing.T) {
	layer := func(r *registry, b string) descriptor { return r.push(layerType, []byte(b)) }
	for _, tt := range []struct {
		name string
		give func(*registry) string // what the tag means
		want string
	}{
		{"no tag", func(*registry) string { return "" }, "no such bundle"},
		{"no layer", func(r *registry) string { return r.manifest(t, manifestType, "x").Digest }, "0 layers"},
		{"no layer of the type", func(r *registry) string {
			return r.manifest(t, manifestType, "x", r.push("text/plain", []byte("a"))).Digest
		}, "0 layers"},
		{"two layers", func(r *registry) string { return r.manifest(t, manifestType, "x", layer(r, "a"), layer(r, "b")).Digest }, "2 layers"},
		{"two images", func(r *registry) string {
			return r.manifest(t, indexType, "x", r.manifest(t, manifestType, "a", layer(r, "a")), r.manifest(t, manifestType, "b", layer(r, "b"))).Digest
		}, "2 images"},
		{"index of an index", func(r *registry) string {
			return r.manifest(t, indexType, "x", r.manifest(t, indexType, "a", r.manifest(t, manifestType, "b", layer(r, "a")))).Digest
		}, "0 layers"},
		{"no manifest", func(r *registry) string { return r.push(manifestType, []byte("no")).Digest }, "none"},
		{"large manifest", func(r *registry) string { return r.push(manifestType, bytes.Repeat([]byte(" "), 2<<20)).Digest }, "larger"},
		{"another blob", func(r *registry) string {
			d := layer(r, "abc")
			r.blobs[d.Digest] = []byte("xyz")
			return r.manifest(t, manifestType, "x", d).Digest
		}, "igest"},
		{"a longer blob", func(r *registry) string {
			d := layer(r, "abc")
			r.blobs[d.Digest] = []byte("abcd")
			return r.manifest(t, manifestType, "x", d).Digest
		}, "Length"},
		{"large layer", func(r *registry) string {
			d := layer(r, "abc")
			d.Size = source.MaxBytes + 1
			return r.manifest(t, manifestType, "x", d).Digest
		}, "larger"},
		{"missing blob", func(r *registry) string {
			d := layer(r, "abc")
			delete(r.blobs, d.Digest)
			return r.manifest(t, manifestType, "x", d).Digest
		}, "no such bundle"},
		{"blobs without TLS", func(r *registry) string {
			r.blobsAt = "http://a.example"
			return r.manifest(t, manifestType, "x", layer(r, "a")).Digest
		}, "without TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry()
			r.tags["live"] = tt.give(r)
			if _, err := image(t, r, ":live").Fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "://") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A registry names who issues its tokens; the password does not go there without TLS.
func TestOCITokensWithoutTLS(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the password goes over the network in the clear") }))
	t.Cleanup(issuer.Close)
	t.Setenv("REGISTRY_PASSWORD", "c4nary")
	s := image(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+issuer.URL+`/c4nary",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}), ":live", func(a *source.Access) { a.User, a.Secret = "me", source.Secret{Env: "REGISTRY_PASSWORD"} })
	if _, err := s.Fetch(t.Context(), ""); err == nil || strings.Contains(err.Error(), "c4nary") {
		t.Errorf("%v", err)
	}
}
