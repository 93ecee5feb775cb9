package source_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/download"
	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/plugins/rest"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// bundleServer does what OPA's documentation asks of one that can hold requests.
type bundleServer struct {
	mu      sync.Mutex
	tag     string
	body    []byte
	changed chan struct{}
	held    chan http.Header // of each request that is held
}

func (s *bundleServer) publish(tag string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tag, s.body = tag, body
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *bundleServer) now() (string, []byte, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tag, s.body, s.changed
}

func (s *bundleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tag, body, changed := s.now()
	wait := 0
	for p := range strings.SplitSeq(r.Header.Get("Prefer"), ";") {
		if n, ok := strings.CutPrefix(p, "wait="); ok {
			wait, _ = strconv.Atoi(n)
		}
	}
	if r.Header.Get("If-None-Match") == tag && wait > 0 {
		s.held <- r.Header.Clone()
		select {
		case <-changed:
		case <-time.After(time.Duration(wait) * time.Second):
		case <-r.Context().Done():
			return
		}
		tag, body, _ = s.now()
	}
	w.Header().Set("Content-Type", "application/vnd.openpolicyagent.bundles")
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body)
}

// OPA's downloader and ours ask a server the same, but that OPA would take deltas, and
// get the same from it.
func TestServesOPAAndUs(t *testing.T) {
	s := &bundleServer{held: make(chan http.Header, 8)}
	s.publish(`"v1"`, archive(t, 1, denies))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("BUNDLE_TOKEN", "secret")

	got := make(chan string, 8) // revisions
	client, err := rest.New([]byte(`{"url": "`+server.URL+`", "credentials": {"bearer": {"token": "secret"}}}`), nil, rest.Logger(logging.NewNoOpLogger()))
	if err != nil {
		t.Fatal(err)
	}
	wait := int64(60)
	conf := download.Config{Polling: download.PollingConfig{LongPollingTimeoutSeconds: &wait}}
	mustDo(t, conf.ValidateAndInjectDefaults())
	opa := download.New(conf, client, "b.tar.gz").WithCallback(func(_ context.Context, u download.Update) error {
		if u.Error == nil && u.Bundle != nil {
			got <- "opa " + u.Bundle.Manifest.Revision
		}
		return nil
	})
	opa.Start(t.Context())
	defer opa.Stop(context.Background())

	us := follow(t, source.Options{
		Source: newHTTP(t, source.HTTP{URL: server.URL + "/b.tar.gz", Access: source.Access{Secret: source.Secret{Env: "BUNDLE_TOKEN"}, Wait: time.Minute}}),
		Activate: func(_ context.Context, s *source.Snapshot) (*source.Prepared, error) {
			facts, err := rego.Inspect(s.FS)
			if err != nil {
				return nil, err
			}
			return &source.Prepared{Commit: func() error { got <- "us " + facts.Revision; return nil }}, nil
		},
	})
	mustDo(t, us.Start(t.Context()))
	polled := make(chan error)
	go func() { polled <- us.Poll(context.Background()) }()

	var asked []string
	for range 2 {
		h := <-s.held
		asked = append(asked, h.Get("Prefer"))
		if h.Get("If-None-Match") != `"v1"` || h.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked with %v", h)
		}
	}
	slices.Sort(asked)
	if !slices.Equal(asked, []string{"modes=snapshot,delta;wait=60", "modes=snapshot;wait=60"}) {
		t.Errorf("asked with %q", asked)
	}
	s.publish(`"v2"`, archive(t, 2, denies))
	mustDo(t, <-polled)
	var all []string
	for range 4 {
		all = append(all, <-got)
	}
	slices.Sort(all)
	if !slices.Equal(all, []string{"opa r1", "opa r2", "us r1", "us r2"}) {
		t.Errorf("got %q", all)
	}
}
