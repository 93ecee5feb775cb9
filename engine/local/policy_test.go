package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/rego"
)

// lines is a sink of log lines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer

	opened []string // what was said before the first poll
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the lines about the policy since the last time.
func (l *lines) take() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, `"from":`) {
			out = append(out, line)
		}
	}
	l.b.Reset()
	return out
}

// followed is an owner of the small project in dir whose polls are made by hand.
func followed(t *testing.T, c local.Config) (e *local.Engine, poll func(n int), log *lines) {
	t.Helper()
	log = &lines{}
	c.Logger = zerolog.New(log)
	c, polls := local.Polled(c)
	e = open(t, c)
	poll = func(n int) {
		t.Helper()
		for range n {
			done := make(chan struct{})
			polls <- done
			<-done
		}
	}
	if slices.ContainsFunc(c.Layers, func(l local.Layer) bool { return l.Mode == local.InShadow }) {
		poll(1) // brings them in
	}
	log.opened = log.take()
	return e, poll, log
}

func put(t *testing.T, text string, name ...string) {
	t.Helper()
	path := filepath.Join(name...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// nobody are rules under which no call is allowed.
const nobody = "package callgate.rules\n\nimport rego.v2\n\nallow contains {\"id\": \"all\"} if input.tool.name == \"none\"\n"

// digestOf is the revision that a bundle is decided by.
func digestOf(t *testing.T, bundle string) string {
	t.Helper()
	fsys, err := rego.Load(bundle)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rego.Open(t.Context(), fsys, rego.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Revision().Digest
}

// decidedBy are the revisions in the log's decisions, in order.
func decidedBy(t *testing.T, dir string) (digests []string) {
	t.Helper()
	for _, r := range records(t, dir) {
		if r.Type != call.TypeDecision {
			continue
		}
		if len(r.Policy) != 1 {
			t.Errorf("call %s was decided by %v", r.Call, r.Policy)
			continue
		}
		digests = append(digests, r.Policy[0].Digest)
	}
	return digests
}

func allowed(t *testing.T, e *local.Engine) bool {
	t.Helper()
	_, err := e.Do(t.Context(), ask("echo", "x"))
	if err != nil && !errors.Is(err, engine.ErrDenied) {
		t.Fatal(err)
	}
	return err == nil
}

func TestPolicyFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	e, poll, log := followed(t, small(dir))
	bundle := filepath.Join(dir, "bundle")
	want := []string{digestOf(t, bundle)}
	poll(3)
	if !allowed(t, e) || len(log.take()) > 0 {
		t.Error("nothing changed, and yet")
	}
	put(t, nobody, bundle, "rules.rego")
	want = append(want, digestOf(t, bundle))
	poll(2)
	if allowed(t, e) {
		t.Error("the new rules do not decide")
	}
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], `"info"`) || !strings.Contains(got[0], want[1]) {
		t.Errorf("the log says %q", got)
	}
	poll(3)
	if got := log.take(); len(got) > 0 {
		t.Errorf("nothing changed, and the log says %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got := decidedBy(t, dir); !slices.Equal(got, want) || want[0] == want[1] {
		t.Errorf("decided by %q, want %q", got, want)
	}
}

// What does not load is told once, by place and without the policy's text.
func TestBrokenPolicyKeepsTheLastGood(t *testing.T) {
	const word = "hunter2"
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, bundle string)
		mend  string
	}{
		{"syntax", func(t *testing.T, b string) { put(t, nobody+"\n"+word+" {{{\n", b, "rules.rego") }, "rules.rego:8: rego_parse_error"},
		{"a reference to nothing", func(t *testing.T, b string) { put(t, nobody+"\nx if input."+word+"\n", b, "rules.rego") }, "rules.rego:7: rego_type_error"},
		{"a changed base library", func(t *testing.T, b string) {
			if err := appendTo(filepath.Join(b, "callgate/decision.rego"), "\n# "+word+"\n"); err != nil {
				t.Fatal(err)
			}
		}, "bundle/callgate: " + local.ErrBaseChanged.Error()},
		{"a base library out of its place", func(t *testing.T, b string) {
			if err := errors.Join(os.MkdirAll(filepath.Join(b, "x"), 0o755), os.Rename(filepath.Join(b, "callgate"), filepath.Join(b, "x/callgate"))); err != nil {
				t.Fatal(err)
			}
		}, "bundle/x/callgate: " + local.ErrBaseChanged.Error()},
		{"a rule for the base library", func(t *testing.T, b string) { put(t, "package callgate.lib\n\nx := 1\n", b, "x.rego") }, "x.rego:1: "},
		{"equal keys", func(t *testing.T, b string) { put(t, `{"`+word+`": 1, "`+word+`": 2}`, b, "data.json") }, "data.json: is not JSON"},
		{"broken yaml", func(t *testing.T, b string) { put(t, word+": [", b, "data.yaml") }, "data.yaml: is not YAML"},
		{"data of the starter policy", func(t *testing.T, b string) {
			put(t, `{"tools": {"echo": {"`+word+`": 1, "who": [], "grant": {}}}}`, b, "starter/data.json")
		}, "data.starter/tools/echo: does not fit"},
		{"a link", func(t *testing.T, b string) {
			if err := os.Symlink("rules.rego", filepath.Join(b, "more.rego")); err != nil {
				t.Fatal(err)
			}
		}, "more.rego: not a regular file"},
		{"nothing", func(t *testing.T, b string) {
			if err := os.RemoveAll(b); err != nil {
				t.Fatal(err)
			}
		}, "bundle: no such file"},
		{"a yes to everybody", func(t *testing.T, b string) {
			put(t, nobody+"\nallow contains {}\n\nwaive contains \"ask\"\n", b, "rules.rego")
		}, "data.callgate.decision: asked about an empty call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeSmall(t, dir)
			bundle := filepath.Join(dir, "bundle")
			e, poll, log := followed(t, small(dir))
			tt.spoil(t, bundle)
			poll(5)
			if !allowed(t, e) {
				t.Error("the last good policy does not decide")
			}
			got := log.take()
			if len(got) != 1 || !strings.Contains(got[0], `"error"`) || !strings.Contains(got[0], tt.mend) || strings.Contains(got[0], word) {
				t.Errorf("the log says %q, want once %q", got, tt.mend)
			}
			if err := os.RemoveAll(bundle); err != nil {
				t.Fatal(err)
			}
			writeSmall(t, dir)
			put(t, nobody, bundle, "rules.rego")
			poll(2)
			if allowed(t, e) {
				t.Error("what was mended does not decide")
			}
			if got := log.take(); len(got) != 1 || !strings.Contains(got[0], `"info"`) {
				t.Errorf("mended, the log says %q", got)
			}
		})
	}
}

// Files that are still being written are left alone, also when they would load.
func TestMovingPolicyIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	bundle := filepath.Join(dir, "bundle")
	e, poll, log := followed(t, small(dir))
	for i := range 4 {
		put(t, nobody+strings.Repeat("# more\n", i), bundle, "rules.rego")
		poll(1)
	}
	if !allowed(t, e) || len(log.take()) > 0 {
		t.Error("a policy that was still moving was taken")
	}
	poll(1)
	if allowed(t, e) || len(log.take()) != 1 {
		t.Error("standing still, it was not taken")
	}
}

// Each call is decided by one policy, for everybody in its chain, and its record
// names one that there was.
func TestSwapsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	bundle := filepath.Join(dir, "bundle")
	e, poll, log := followed(t, small(dir))
	there := map[string]bool{digestOf(t, bundle): true}

	var wg sync.WaitGroup
	var over atomic.Bool
	for i := range 16 {
		wg.Go(func() {
			c := ask("echo", fmt.Sprint(i))
			c.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user"}, {ID: "dave", Kind: "user"}}
			for !over.Load() {
				if _, err := e.Do(t.Context(), c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		put(t, fmt.Sprintf("%s\n# %d\n", rules, i), bundle, "rules.rego")
		there[digestOf(t, bundle)] = true
		poll(2)
	}
	over.Store(true)
	wg.Wait()
	if got := log.take(); len(got) != 20 {
		t.Errorf("%d swaps, want 20: %q", len(got), got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, digest := range decidedBy(t, dir) {
		used[digest] = true
		if !there[digest] {
			t.Errorf("decided by %s, which there never was", digest)
		}
	}
	if len(there) != 21 || len(used) < 3 {
		t.Errorf("%d revisions, %d of them decided", len(there), len(used))
	}
}

// watching says whether any owner in this process watches its files.
func watching() bool {
	b := make([]byte, 4<<20)
	return strings.Contains(string(b[:runtime.Stack(b, true)]), "local.(*live).watch")
}

func TestWatchEndsWithItsOwner(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	for _, every := range []time.Duration{0, time.Hour, -1} {
		c := small(dir)
		c.Watch = every
		e := open(t, c)
		if every < 0 && watching() {
			t.Errorf("Watch %v: watching", every)
		}
		for every >= 0 && !watching() {
			runtime.Gosched() // it may not have begun
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if watching() {
			t.Errorf("Watch %v: still watching after Close", every)
		}
	}
	c := small(dir)
	c.HostTools = append(c.HostTools, c.HostTools[0]) // fails after the watch began
	if _, err := local.Open(t.Context(), c); err == nil || watching() {
		t.Errorf("Open = %v, watching %v", err, watching())
	}
}

// Nobody polls here but the ticker.
func TestPolicyIsFollowedUnasked(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	c.Watch = time.Millisecond
	e := open(t, c)
	put(t, nobody, dir, "bundle/rules.rego")
	for allowed(t, e) {
		runtime.Gosched()
	}
}

// The files may change as they like when nobody follows them, but then they are
// part of what client and owner agree on.
func TestUnwatchedPolicyStays(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	c.Watch = -1
	e := open(t, c)
	dial(t, c)
	put(t, nobody, dir, "bundle/rules.rego")
	if !allowed(t, e) {
		t.Error("the changed rules decide")
	}
	if _, err := local.Dial(t.Context(), c); !errors.Is(err, local.ErrConfigDiffers) {
		t.Errorf("Dial = %v, want %v", err, local.ErrConfigDiffers)
	}
}
