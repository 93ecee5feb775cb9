package source_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/rego/source"
)

// Where something ends held requests, the next one is not to be held, so that the
// bundle stays fresh; the one after that is again.
func TestLongPollThatIsCut(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"at once": raw(""),
		"gateway": status(http.StatusGatewayTimeout),
		"in the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, w := newSigner(t), newClock(), &site{}
			w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
			server, access := secure(t, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/vnd.openpolicyagent.bundles")
				if strings.Contains(r.Header.Get("Prefer"), "wait=60") {
					fail(rw, r)
					return
				}
				w.ServeHTTP(rw, r)
			})
			access.Wait = time.Minute
			activate, _ := light(s, c)
			f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: server.URL, Access: access}), Activate: activate, Every: time.Second, MaxAge: 5 * time.Minute, Now: c.now})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				c.pass(4 * time.Minute)
				if err := f.Poll(t.Context()); stage(err) != source.StageFetch {
					t.Errorf("held: %v", err)
				}
				if err := f.Poll(t.Context()); err != nil || f.Check() != nil || f.Status().Failures != 0 {
					t.Errorf("not held: %v, %v", err, f.Check())
				}
			}
		})
	}
}

// An answer is waited for no longer than was asked for, and a little more.
func TestLongPollTooLate(t *testing.T) {
	done := make(chan struct{})
	server, access := secure(t, func(http.ResponseWriter, *http.Request) { <-done })
	t.Cleanup(func() { close(done) })
	access.Wait, access.Timeout = time.Second, time.Millisecond
	began := time.Now()
	_, err := newHTTP(t, source.HTTP{URL: server.URL, Access: access}).Fetch(t.Context(), `"v1"`)
	if err == nil || !strings.Contains(err.Error(), "deadline") || time.Since(began) < time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// hung counts the connections that a server has.
type hung struct {
	mu sync.Mutex
	n  int
}

// serve is a TLS server whose connections are counted.
func (h *hung) serve(t *testing.T, h2 bool, handler http.HandlerFunc) (string, source.Access) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = h2
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch st {
		case http.StateNew:
			h.n++
		case http.StateClosed:
			h.n--
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, source.Access{CA: caOf(t, s)}
}

// up waits until the client has hung up.
func (h *hung) up(t *testing.T) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; runtime.Gosched() {
		h.mu.Lock()
		n := h.n
		h.mu.Unlock()
		if n == 0 {
			return
		}
	}
	t.Error("a connection is left")
}

// When it is told to stop, Run ends at once, whatever the server does, and leaves no
// connection behind. Neither does a start that fails.
func TestRunLeavesNothingBehind(t *testing.T) {
	bundle := archive(t, 1, denies)
	for _, tt := range []struct {
		name     string
		h2, held bool
	}{
		{"between polls", false, false}, {"within a poll", false, true},
		{"between polls by HTTP/2", true, false}, {"within a poll by HTTP/2", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h hung
			asked := make(chan struct{}, 1)
			url, access := h.serve(t, tt.h2, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"v1"`)
				w.Header().Set("Content-Type", "application/vnd.openpolicyagent.bundles")
				if (r.ProtoMajor == 2) != tt.h2 {
					t.Errorf("asked by %s", r.Proto)
				}
				if r.Header.Get("If-None-Match") == "" {
					_, _ = w.Write(bundle)
					return
				}
				select {
				case asked <- struct{}{}:
				default:
				}
				if tt.held {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(http.StatusNotModified)
			})
			if tt.held {
				access.Wait = 10 * time.Minute
			}
			f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: url, Access: access}), Activate: anything, Every: time.Millisecond})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { f.Run(ctx); close(ended) }()
			<-asked
			stop()
			<-ended
			h.up(t)
			if st := f.Status(); st.Failures != 0 {
				t.Errorf("being stopped is no failure: %+v", st)
			}
		})
	}
	var h hung
	url, access := h.serve(t, false, status(http.StatusNotFound))
	f := follow(t, source.Options{Source: newHTTP(t, source.HTTP{URL: url, Access: access}), Activate: anything})
	if err := f.Start(t.Context()); stage(err) != source.StageFetch {
		t.Error(err)
	}
	h.up(t)
}
