package source_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/pack"
	"github.com/callgate/callgate/rego/source"
)

// faulty is a site that can be made to answer in other ways.
type faulty struct {
	site
	mu     sync.Mutex
	answer http.HandlerFunc // nil: as the site does
}

func (f *faulty) is(h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = h
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	h := f.answer
	f.mu.Unlock()
	if h == nil {
		h = f.site.ServeHTTP
	}
	h(w, r)
}

// anything is an Activate that refuses nothing.
func anything(context.Context, *source.Snapshot) (*source.Prepared, error) {
	return &source.Prepared{Commit: func() error { return nil }}, nil
}

// relay is a source that tests replace under way.
type relay struct{ source.Source }

// status answers with a code and a page that says something.
func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		http.Error(w, "<html>c4nary</html>", code)
	}
}

// body answers with bytes under a tag.
func body(tag string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", tag)
		_, _ = w.Write(b)
	}
}

// raw answers with bytes that need not be HTTP, and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// bomb is an archive that says it has 16 GiB, and goes on for 200 MiB.
func bomb(t testing.TB) []byte {
	t.Helper()
	var head, b bytes.Buffer
	mustDo(t, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "/data.json", Mode: 0o600, Typeflag: tar.TypeReg, Size: 16 << 30}))
	z := gzip.NewWriter(&b)
	_, err := z.Write(head.Bytes())
	mustDo(t, err, z.Flush())
	start := b.Len()
	_, err = z.Write(make([]byte, 1<<20))
	mustDo(t, err, z.Flush())
	return append(b.Bytes(), bytes.Repeat(b.Bytes()[start:], 199)...)
}

// light is a gate that does not open what it has verified, which takes longest.
func light(s signer, c *clock) (source.Activate, func() string) {
	now := "none"
	g := newGate(s, c, "")
	return func(_ context.Context, snap *source.Snapshot) (*source.Prepared, error) {
		fsys, _, err := rego.Verify(snap.FS, g.verify)
		if err != nil {
			return nil, err
		}
		facts, err := rego.Inspect(fsys)
		if err != nil {
			return nil, err
		}
		return &source.Prepared{Commit: func() error { now = facts.Revision; return nil }}, nil
	}, func() string { return now }
}

// delta is an archive that changes data, which nobody can have signed.
func delta(t testing.TB) []byte {
	t.Helper()
	b, err := pack.Dir(fstest.MapFS{
		".manifest":  {Data: []byte(`{"revision": "r9"}`)},
		"patch.json": {Data: []byte(`{"data": [{"op": "upsert", "path": "/a", "value": 1}]}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever a server answers in place of a bundle: the last good one decides, until its
// time is over, and the next good one comes in.
func TestFaultsOfServers(t *testing.T) {
	s := newSigner(t)
	good, next := s.sign(t, archive(t, 1, denies)), s.sign(t, archive(t, 2, denies))
	done := make(chan struct{})
	defer close(done)
	trickle := func(start string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			for text := start; ; text = "X" {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		stage  source.Stage
		code   rego.BundleCode
		slow   bool
		heavy  bool
	}{
		{name: "401", answer: status(401, "WWW-Authenticate", `Basic realm="c4nary"`), stage: source.StageFetch},
		{name: "403", answer: status(403), stage: source.StageFetch},
		{name: "404", answer: status(404), stage: source.StageFetch},
		{name: "429", answer: status(429, "Retry-After", "3600"), stage: source.StageFetch},
		{name: "500", answer: status(500), stage: source.StageFetch},
		{name: "503", answer: status(503, "Retry-After", "c4nary"), stage: source.StageFetch},
		{name: "206 of a bundle", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206); _, _ = w.Write(next) }, stage: source.StageFetch},
		{name: "a page", answer: status(200, "ETag", `"v2"`, "Content-Type", "application/vnd.openpolicyagent.bundles"), stage: source.StageRead},
		{name: "a page for the tag that decides", answer: status(200, "ETag", `"v1"`), stage: source.StageRead},
		{name: "nothing", answer: body(`"v2"`, nil), stage: source.StageFetch},
		{name: "half, and its length", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(next)))
			_, _ = w.Write(next[:len(next)/2])
		}, stage: source.StageFetch},
		{name: "half in chunks", answer: raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(next)/2, next[:len(next)/2])), stage: source.StageFetch},
		{name: "half until the end", answer: raw("HTTP/1.0 200 OK\r\n\r\n" + string(next[:len(next)/2])), stage: source.StageRead},
		{name: "more than a bundle", answer: body(`"v2"`, append(bytes.Clone(next), "c4nary"...)), stage: source.StageRead},
		{name: "two bundles", answer: body(`"v2"`, append(bytes.Clone(next), next...)), stage: source.StageRead},
		{name: "a bomb", answer: body(`"v2"`, bomb(t)), stage: source.StageRead, heavy: true},
		{name: "a delta", answer: body(`"v2"`, delta(t)), stage: source.StageActivate, code: rego.CodeBundleDelta},
		{name: "a slow head", answer: trickle("HTTP/1.1 200 OK\r\nX: "), stage: source.StageFetch, slow: true},
		{name: "a slow body", answer: trickle("HTTP/1.1 200 OK\r\n\r\n"), stage: source.StageFetch, slow: true},
		{name: "no answer", answer: raw(""), stage: source.StageFetch},
		{name: "no HTTP", answer: raw("SSH-2.0-c4nary\r\n"), stage: source.StageFetch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w := newClock(), &faulty{}
			w.publish(`"v1"`, good)
			server, access := secure(t, w.ServeHTTP)
			usual := newHTTP(t, source.HTTP{URL: server.URL, Access: access})
			place := &relay{usual}
			activate, decides := light(s, c)
			var log strings.Builder
			f := follow(t, source.Options{Source: place, Activate: activate, Every: time.Second, MaxAge: time.Minute, Now: c.now, Logger: zerolog.New(&log)})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.slow {
				access.Timeout = 100 * time.Millisecond
				place.Source = newHTTP(t, source.HTTP{URL: server.URL, Access: access})
			}
			w.is(tt.answer)
			for n := range map[bool]int{false: 2, true: 1}[tt.heavy] {
				c.pass(20 * time.Second)
				err := f.Poll(t.Context())
				if stage(err) != tt.stage || rego.BundleCodeOf(err) != tt.code {
					t.Fatalf("%v, want %s %s", err, tt.stage, tt.code)
				}
				if st := f.Status(); decides() != "r1" || f.Check() != nil || st.Failures != n+1 || strings.Contains(err.Error()+log.String(), "c4nary") {
					t.Errorf("%s decides, %v, %+v, %v", decides(), f.Check(), st, err)
				}
			}
			c.pass(time.Minute)
			if err := f.Check(); codeOf(err) != call.CodePolicyStale {
				t.Errorf("beyond the budget: %v", err)
			}
			place.Source = usual
			w.publish(`"v2"`, next) // by the tag that was refused
			w.is(nil)
			if err := f.Poll(t.Context()); err != nil || decides() != "r2" || f.Check() != nil {
				t.Errorf("mended: %v, %s decides, %v", err, decides(), f.Check())
			}
		})
	}
}

// What counts is the bytes: others under the tag that we have are taken up.
func TestOtherBytesUnderOneTag(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &faulty{}
	w.is(body(`"v1"`, s.sign(t, archive(t, 1, denies))))
	server, access := secure(t, w.ServeHTTP)
	activate, decides := light(s, c)
	f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL, Access: access}), Activate: activate, Now: c.now})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.is(body(`"v1"`, s.sign(t, archive(t, 2, denies))))
	if err := f.Poll(t.Context()); err != nil || decides() != "r2" {
		t.Errorf("%v, %s decides", err, decides())
	}
}

// Pauses grow with failures up to a bound, are longer where a server asks for it, up to
// the same bound, and differ from one engine to the next.
func TestPauses(t *testing.T) {
	w := &faulty{}
	w.publish(`"v1"`, archive(t, 1, denies))
	server, access := secure(t, w.ServeHTTP)
	f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL, Access: access}), Every: 10 * time.Second, Activate: anything})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const first = 500 * time.Millisecond
	for _, tt := range []struct {
		answer http.HandlerFunc
		want   time.Duration
	}{
		{status(500), first},
		{status(429, "Retry-After", "7"), 7 * time.Second},
		{status(503, "Retry-After", "7"), 7 * time.Second},
		{status(500, "Retry-After", "7"), first},
		{status(429, "Retry-After", "0"), first},
		{status(429, "Retry-After", "86400"), time.Minute},
		{status(429, "Retry-After", "99999999999999999999"), first},
		{status(429, "Retry-After", "-5"), first},
		{status(429, "Retry-After", "Fri, 01 May 2026 12:00:20 GMT", "Date", "Fri, 01 May 2026 12:00:00 GMT"), 20 * time.Second},
		{status(429, "Retry-After", "Fri, 01 May 2026 11:00:00 GMT", "Date", "Fri, 01 May 2026 12:00:00 GMT"), first},
		{status(429, "Retry-After", "soon"), first},
		{raw(""), first}, // what was asked for before counts no longer
	} {
		w.is(tt.answer)
		if f.Poll(t.Context()) == nil {
			t.Fatal("is well")
		}
		different := map[time.Duration]bool{}
		for range 32 {
			d := f.Pause()
			different[d] = true
			if d < tt.want-tt.want/10 || d > tt.want+tt.want/10 {
				t.Errorf("%v, want %v", d, tt.want)
			}
		}
		if len(different) < 2 {
			t.Errorf("always %v", different)
		}
		w.is(nil)
		if err := f.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := f.Pause(); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("well again, and yet %v", d)
		}
	}
}

// Neither what is in the URL nor the token comes back out, whatever a server makes of
// them.
func TestNoCredentialIsShown(t *testing.T) {
	t.Setenv("BUNDLE_TOKEN", "c4nary-token")
	for name, h := range map[string]http.HandlerFunc{
		"as the status":        raw("GET /b?sig=c4nary HTTP/1.1\r\n\r\n"),
		"as the code":          raw("HTTP/1.1 c4nary OK\r\n\r\n"),
		"as the version":       raw("c4nary/1.1 200 OK\r\n\r\n"),
		"as a header":          raw("HTTP/1.1 200 OK\r\nBearer c4nary-token\r\n\r\n"),
		"as a length":          raw("HTTP/1.1 200 OK\r\nContent-Length: c4nary\r\n\r\n"),
		"as an encoding":       raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: c4nary\r\n\r\n"),
		"as a place":           raw("HTTP/1.1 302 Found\r\nLocation: https://a b/?sig=c4nary\r\nContent-Length: 0\r\n\r\n"),
		"as another place":     raw("HTTP/1.1 302 Found\r\nLocation: c4nary://x/?sig=c4nary\r\nContent-Length: 0\r\n\r\n"),
		"as a place in quotes": raw("HTTP/1.1 302 Found\r\nLocation: https://\"c4\\\"nary\" c4nary/\r\nContent-Length: 0\r\n\r\n"),
		"as a page":            status(403),
		"as a bundle":          body(`"c4nary"`, []byte("c4nary")),
	} {
		server, access := secure(t, h)
		access.Secret = source.Secret{Env: "BUNDLE_TOKEN"}
		var log strings.Builder
		f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL + "/b?sig=c4nary#c4nary", Access: access}), Activate: anything, Logger: zerolog.New(&log)})
		err := f.Poll(t.Context())
		st, err2 := json.Marshal(f.Status())
		if err2 != nil {
			t.Fatal(err2)
		}
		if text := fmt.Sprint(err, log.String(), string(st)); err == nil || strings.Contains(text, "c4nary") {
			t.Errorf("%s: %s", name, text)
		}
	}
	for give, want := range map[string]string{
		"https://me:c4nary@a.example:8443/b/c.tar.gz?sig=c4nary#c4nary": "https://a.example:8443/b/c.tar.gz",
		"https://me:c4/nary@a.example/c4nary":                           "https://...",
		"oci://a.example/team/b@sha256:00":                              "oci://a.example/team/b@sha256:00",
		"oci://me:c4nary@a.example/team/b:v1":                           "oci://a.example/team/b:v1",
		"bundles/org.tar.gz":                                            "bundles/org.tar.gz",
	} {
		if got := source.Redacted(give); got != want {
			t.Errorf("%s is %s, want %s", give, got, want)
		}
	}
	for _, place := range []string{"oci://me:c4nary@a.example/team/b:v1", "oci://a.example/team/b:v1?c4nary", "https://c4nary@a.example/"} {
		if _, err := source.At(place, source.Access{}); err == nil || strings.Contains(err.Error(), "c4nary") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// The clock is put back between two polls: what comes in is fresh from then on, and
// what does not is stale in time.
func TestClockPutBack(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &faulty{}
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	server, access := secure(t, w.ServeHTTP)
	activate, _ := light(s, c)
	f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL, Access: access}), Activate: activate, Every: time.Second, MaxAge: time.Minute, Now: c.now})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(-24 * time.Hour)
	if err := f.Poll(t.Context()); err != nil || f.Check() != nil {
		t.Errorf("%v, %v", err, f.Check())
	}
	w.is(status(500))
	c.pass(time.Minute + time.Second)
	if err := f.Poll(t.Context()); stage(err) != source.StageFetch || codeOf(f.Check()) != call.CodePolicyStale {
		t.Errorf("%v, %v", err, f.Check())
	}
}
