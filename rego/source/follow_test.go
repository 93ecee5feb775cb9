package source_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// site is a web server with one bundle, which tests change under way.
type site struct {
	mu     sync.Mutex
	tag    string
	body   []byte
	status int      // in place of the bundle
	asked  []string // If-None-Match of every request
}

func (s *site) publish(tag string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tag, s.body, s.status = tag, body, 0
}

func (s *site) fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Header.Get("If-None-Match"))
	switch {
	case s.status != 0:
		w.WriteHeader(s.status)
	case s.tag != "" && r.Header.Get("If-None-Match") == s.tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", s.tag)
		_, _ = w.Write(s.body)
	}
}

// last is the ETag that the last request had.
func (s *site) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func published(t *testing.T, s *site) source.Source {
	t.Helper()
	server, access := secure(t, s.ServeHTTP)
	return newHTTP(t, source.HTTP{URL: server.URL, Access: access})
}

// Wherever bringing in a new bundle fails, the last good one decides on, what failed
// is tried again, and does not count as fresh; when it is mended, it comes in.
func TestEachFailureKeepsTheLastGood(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	good := s.sign(t, archive(t, 1, denies))
	next := s.sign(t, archive(t, 2, denies))
	broken := func(rule string) []byte {
		b, err := signedText(s, rule)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		name  string
		fail  func(*site, *gate)
		stage source.Stage
		code  rego.BundleCode
	}{
		{"download", func(w *site, _ *gate) { w.fail(http.StatusInternalServerError) }, source.StageFetch, ""},
		{"no archive", func(w *site, _ *gate) { w.publish(`"bad"`, []byte("<html>")) }, source.StageRead, ""},
		{"verify: unsigned", func(w *site, _ *gate) { w.publish(`"bad"`, archive(t, 3, denies)) }, source.StageActivate, rego.CodeBundleUnsigned},
		{"verify: another key", func(w *site, _ *gate) { w.publish(`"bad"`, other.sign(t, archive(t, 3, denies))) }, source.StageActivate, rego.CodeSignatureInvalid},
		{"verify: expired", func(w *site, _ *gate) { w.publish(`"bad"`, s.sign(t, archive(t, 3, denies), time.Second)) }, source.StageActivate, rego.CodeSignatureExpired},
		{"roll-back", func(w *site, _ *gate) { w.publish(`"bad"`, s.sign(t, archive(t, 0, denies))) }, source.StageActivate, rego.CodeEpochOlder},
		{"epoch reused", func(w *site, _ *gate) { w.publish(`"bad"`, s.sign(t, archive(t, 1, denies+"\n\nx := 1"))) }, source.StageActivate, rego.CodeEpochReused},
		{"parse", func(w *site, _ *gate) { w.publish(`"bad"`, broken("???")) }, source.StageActivate, ""},
		{"compile", func(w *site, _ *gate) { w.publish(`"bad"`, broken(denies+"\n\nx := 1 + \"a\"")) }, source.StageActivate, ""},
		{"allows all", func(w *site, _ *gate) { w.publish(`"bad"`, broken(`decision := {"decision": "allow"}`)) }, source.StageActivate, ""},
		{"commit", func(w *site, g *gate) {
			w.publish(`"bad"`, s.sign(t, archive(t, 3, denies)))
			g.commit = errors.New("no")
		}, source.StageCommit, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, w, dir := newClock(), &site{}, t.TempDir()
			w.publish(`"v1"`, good)
			g := newGate(s, c, dir)
			f := follow(t, source.Options{
				Source: published(t, w), Activate: g.activate, Store: source.NewStore(filepath.Join(dir, "bundles")),
				Every: 10 * time.Second, MaxAge: 5 * time.Minute, Now: c.now,
			})
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			tt.fail(w, g)
			c.pass(time.Minute)
			for n := range 2 {
				err := f.Poll(t.Context())
				if stage(err) != tt.stage || rego.BundleCodeOf(err) != tt.code {
					t.Fatalf("%v, want %s %s", err, tt.stage, tt.code)
				}
				if w.last() != `"v1"` {
					t.Errorf("asked with %s: what failed is not tried again", w.last())
				}
				if st := f.Status(); st.Failed != tt.stage || st.Failures != n+1 || st.Stale || !st.Fresh.Equal(start) {
					t.Errorf("status %+v", st)
				}
			}
			if got := g.decides(t); got != "r1" {
				t.Errorf("%s decides", got)
			}
			if err := f.Check(); err != nil {
				t.Errorf("within the budget: %v", err)
			}
			c.pass(4*time.Minute + time.Second)
			if err := f.Check(); codeOf(err) != call.CodePolicyStale || !f.Status().Stale {
				t.Errorf("beyond the budget: %v", err)
			}
			w.publish(`"v2"`, next)
			g.commit = nil
			if err := f.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := f.Status(); f.Check() != nil || g.decides(t) != "r2" || st.Failed != "" || st.Failures != 0 || st.Revision.Revision != "r2" {
				t.Errorf("after it is mended: %v, %s decides, %+v", f.Check(), g.decides(t), st)
			}
		})
	}
}

// Word that there is nothing newer is fresh: by 304, by the same bytes under another
// tag, and by the older tag coming back.
func TestFresh(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &site{}
	good := s.sign(t, archive(t, 1, denies))
	w.publish(`"v1"`, good)
	g := newGate(s, c, t.TempDir())
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Every: time.Second, MaxAge: time.Minute, Now: c.now})
	if err := f.Check(); codeOf(err) != call.CodePolicyStale {
		t.Errorf("before the start: %v", err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, tag := range map[string]string{"the same": `"v1"`, "another tag": `"v2"`, "no tag": ""} {
		w.publish(tag, good)
		for range 2 {
			c.pass(50 * time.Second)
			if err := f.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Check(); err != nil || g.opened != 1 {
			t.Errorf("%s: %v, opened %d times", name, err, g.opened)
		}
	}
}

// apart is t after the clock that counts went on by one time, and the clock on the
// wall by another. No time of the standard library's making is like that in a test,
// so the wall's seconds are changed in place, as package time has them.
func apart(t *testing.T, began time.Time, counted, wall time.Duration) time.Time {
	t.Helper()
	now := began.Add(counted)
	*(*uint64)(unsafe.Pointer(&now)) += uint64(int64((wall-counted)/time.Second)) << 30
	if c, w := now.Sub(began), now.Round(0).Sub(began.Round(0)); c != counted || w != wall {
		t.Fatalf("package time keeps times in another way: %v by the clock that counts, %v by the wall", c, w)
	}
	return now
}

// A clock that is put back does not make an old bundle young, nor does one that
// stands still while the machine sleeps.
func TestStaleClocks(t *testing.T) {
	s, w := newSigner(t), &site{}
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	g := newGate(s, newClock(), t.TempDir())
	began := time.Now()
	now := began
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Every: time.Second, MaxAge: time.Hour, Now: func() time.Time { return now }})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		now   time.Time
		stale bool
	}{
		"asleep":                  {apart(t, began, time.Minute, 2*time.Hour), true},
		"put back":                {apart(t, began, 2*time.Hour, time.Minute), true},
		"put back to before then": {apart(t, began, 2*time.Hour, -24*time.Hour), true},
		"both":                    {began.Add(2 * time.Hour), true},
		"by the wall alone":       {began.Add(2 * time.Hour).Round(0), true},
		"half an hour":            {began.Add(30 * time.Minute), false},
		"a short sleep":           {apart(t, began, time.Minute, 59*time.Minute), false},
		"a little put back":       {apart(t, began, 59*time.Minute, -time.Hour), false},
	} {
		now = tt.now
		if err := f.Check(); (codeOf(err) == call.CodePolicyStale) != tt.stale || (err != nil) != tt.stale {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A bundle whose signature ends while it decides decides no longer.
func TestExpires(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &site{}
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies), time.Hour))
	g := newGate(s, c, t.TempDir())
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Now: c.now})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour - time.Second)
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	c.pass(time.Second)
	if err := f.Check(); codeOf(err) != call.CodePolicyStale {
		t.Errorf("expired: %v", err)
	}
	// The same policy, signed anew, is other bytes, and decides again.
	w.publish(`"v2"`, s.sign(t, archive(t, 1, denies), 2*time.Hour))
	if err := f.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// scripted answers what its test says, in turn; the last answer for ever.
type scripted struct {
	mu      sync.Mutex
	answers []func() (*source.Snapshot, error)
	at      []time.Duration // of each fetch, since the first
	first   time.Time
}

func (s *scripted) String() string { return "scripted" }

func (s *scripted) Fetch(context.Context, string) (*source.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = time.Now()
	}
	s.at = append(s.at, time.Since(s.first))
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a()
}

// Run asks every so often, after failures ever less often, and at once where the
// server holds requests; whatever panics ends nothing.
func TestRun(t *testing.T) {
	b := archive(t, 1, denies)
	snap := func(wait bool) func() (*source.Snapshot, error) {
		return func() (*source.Snapshot, error) {
			return &source.Snapshot{Bytes: b, Digest: call.Digest(b), Version: "v", Wait: wait}, nil
		}
	}
	unchanged := func() (*source.Snapshot, error) { return nil, source.ErrUnchanged }
	fails := func() (*source.Snapshot, error) { return nil, errors.New("no") }
	panics := func() (*source.Snapshot, error) { panic("no") }
	for _, tt := range []struct {
		name    string
		answers []func() (*source.Snapshot, error)
		want    []time.Duration // pauses, within a tenth
	}{
		{"steady", []func() (*source.Snapshot, error){snap(false), unchanged}, []time.Duration{10 * time.Second, 10 * time.Second}},
		{"held", []func() (*source.Snapshot, error){snap(true), unchanged}, []time.Duration{time.Second, time.Second}},
		{"failing", []func() (*source.Snapshot, error){snap(false), fails, panics, fails, fails, fails, fails, fails, fails, fails}, []time.Duration{
			10 * time.Second, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute,
		}},
		{"recovering", []func() (*source.Snapshot, error){snap(false), fails, fails, unchanged}, []time.Duration{10 * time.Second, 500 * time.Millisecond, time.Second, 10 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &scripted{answers: tt.answers}
				commits := 0
				f := follow(t, source.Options{Source: src, Every: 10 * time.Second, Activate: func(context.Context, *source.Snapshot) (*source.Prepared, error) {
					return &source.Prepared{Commit: func() error { commits++; return nil }}, nil
				}})
				if err := f.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { f.Run(ctx); close(done) }()
				time.Sleep(10 * time.Minute)
				stop()
				<-done
				if commits != 1 || len(src.at) < len(tt.want)+1 {
					t.Fatalf("%d commits, %d fetches", commits, len(src.at))
				}
				for i, want := range tt.want {
					if got := src.at[i+1] - src.at[i]; got < want-want/10 || got > want+want/10 {
						t.Errorf("pause %d is %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// A failure is told once, without what the policy says; so is the next one.
func TestFailuresAreToldOnce(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &site{}
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	g := newGate(s, c, t.TempDir())
	var log strings.Builder
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Now: c.now, Logger: zerolog.New(&log)})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll := func(n int, body []byte, want string) {
		t.Helper()
		log.Reset()
		w.publish(`"bad"`, body)
		for range n {
			if f.Poll(t.Context()) == nil {
				t.Fatal("comes in")
			}
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) || strings.Contains(got, "c4nary") {
			t.Errorf("%s, want %s", got, want)
		}
	}
	broken, err := signedText(s, denies+"\n\nx := {\"c4nary\"} + 1")
	if err != nil {
		t.Fatal(err)
	}
	poll(3, broken, "p.rego:")
	poll(3, archive(t, 3, denies), "bundle_unsigned")
	poll(1, []byte("x"), `"stage":"read"`)
}

func TestNewRefuses(t *testing.T) {
	activate := func(context.Context, *source.Snapshot) (*source.Prepared, error) { return nil, nil }
	src := &scripted{}
	held := newHTTP(t, source.HTTP{URL: "https://a.example", Access: source.Access{Wait: time.Minute}})
	for want, o := range map[string]source.Options{
		"no name":          {Source: src, Activate: activate, Layer: "../x"},
		"Source":           {Activate: activate, Layer: "base"},
		"Activate is nil":  {Source: src, Layer: "base"},
		"negative":         {Source: src, Activate: activate, Layer: "base", Every: -1},
		"less than twice":  {Source: src, Activate: activate, Layer: "base", MaxAge: 30 * time.Second},
		"two polls, 1m30s": {Source: held, Activate: activate, Layer: "base", MaxAge: time.Minute},
	} {
		if _, err := source.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Decisions may ask whether the bundle may decide while another comes in.
func TestCheckWhilePolling(t *testing.T) {
	s, c, w := newSigner(t), newClock(), &site{}
	one, two := s.sign(t, archive(t, 1, denies)), s.sign(t, archive(t, 2, denies))
	w.publish(`"v1"`, one)
	g := newGate(s, c, t.TempDir())
	f := follow(t, source.Options{Source: published(t, w), Activate: g.activate, Every: time.Second, MaxAge: time.Hour, Now: c.now})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f.Check(); err != nil || f.Status().Stale {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		if i == 10 {
			w.publish(`"v2"`, two)
		}
		if err := f.Poll(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if got := g.decides(t); got != "r2" {
		t.Errorf("%s decides", got)
	}
}
