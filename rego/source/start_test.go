package source_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// Without network, the bundle that decided last does, for what is left of its
// budget: a restart does not make it younger.
func TestStartWithoutNetwork(t *testing.T) {
	s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
	place := published(t, w)
	open := func(o source.Options) (*source.Follower, *gate) {
		g := newGate(s, c, dir)
		o.Source, o.Activate, o.Now = place, g.activate, c.now
		o.Store = source.NewStore(filepath.Join(dir, "bundles"))
		o.Every, o.MaxAge = time.Second, time.Hour
		return follow(t, o), g
	}
	w.fail(http.StatusBadGateway)
	if f, _ := open(source.Options{}); stage(f.Start(t.Context())) != source.StageFetch {
		t.Error("starts from nothing")
	}
	w.publish(`"v2"`, s.sign(t, archive(t, 2, denies)))
	f, _ := open(source.Options{})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(30 * time.Minute)
	if err := f.Poll(t.Context()); err != nil { // 304, which is written down
		t.Fatal(err)
	}
	for name, fail := range map[string]func(){
		"unreachable": func() { w.fail(http.StatusBadGateway) },
		"rolled back": func() { w.publish(`"v1"`, s.sign(t, archive(t, 1, denies))) },
	} {
		fail()
		f, g := open(source.Options{})
		if err := f.Start(t.Context()); err != nil || f.Check() != nil || g.decides(t) != "r2" {
			t.Errorf("%s: %v, %v, %s decides", name, err, f.Check(), g.decides(t))
		}
		if st := f.Status(); st.Failed == "" || st.Failures != 1 || !st.Fresh.Equal(start.Add(30*time.Minute)) {
			t.Errorf("%s: %+v", name, st)
		}
	}
	c.pass(50 * time.Minute)
	f, _ = open(source.Options{})
	if err := f.Start(t.Context()); err != nil || f.Check() != nil {
		t.Errorf("50 minutes after the last word: %v, %v", err, f.Check())
	}
	c.pass(11 * time.Minute)
	f, g := open(source.Options{})
	if err := f.Start(t.Context()); err != nil || codeOf(f.Check()) != call.CodePolicyStale {
		t.Errorf("61 minutes after it: %v, %v", err, f.Check())
	}
	w.publish(`"v2"`, s.sign(t, archive(t, 2, denies)))
	if err := f.Poll(t.Context()); err != nil || f.Check() != nil || g.decides(t) != "r2" {
		t.Errorf("with network again: %v, %v", err, f.Check())
	}
	w.fail(http.StatusBadGateway)
	c.pass(-time.Hour)
	f, _ = open(source.Options{})
	if err := f.Start(t.Context()); err != nil || codeOf(f.Check()) != call.CodePolicyStale {
		t.Errorf("the clock was put back: %v, %v", err, f.Check())
	}
}

// A crash between keeping a bundle and putting it into force leaves one to start
// from: the epoch's mark is never above what is kept.
func TestCrashBeforeCommit(t *testing.T) {
	s, c, w, dir := newSigner(t), newClock(), &site{}, t.TempDir()
	w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
	g := newGate(s, c, dir)
	o := source.Options{Source: published(t, w), Activate: g.activate, Now: c.now, Store: source.NewStore(filepath.Join(dir, "bundles"))}
	f := follow(t, o)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.publish(`"v2"`, s.sign(t, archive(t, 2, denies)))
	g.commit = errors.New("crash")
	if err := f.Poll(t.Context()); stage(err) != source.StageCommit || g.decides(t) != "r1" {
		t.Fatalf("%v, %s decides", err, g.decides(t))
	}
	w.fail(http.StatusBadGateway)
	g = newGate(s, c, dir)
	o.Activate = g.activate
	if err := follow(t, o).Start(t.Context()); err != nil || g.decides(t) != "r2" {
		t.Errorf("%v, %s decides", err, g.decides(t))
	}
}

// What is kept is checked as if it came from the network, and only for its source.
func TestStartWithoutNetworkRefuses(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	for name, change := range map[string]func(*testing.T, *source.Options, *gate, string){
		"another key": func(_ *testing.T, _ *source.Options, g *gate, _ string) {
			g.verify.Keys["k"] = rego.Key{PEM: other.public}
		},
		"another source": func(t *testing.T, o *source.Options, _ *gate, _ string) {
			o.Source = published(t, &site{status: http.StatusBadGateway})
		},
		"damaged":       func(t *testing.T, _ *source.Options, _ *gate, dir string) { damage(t, dir, "sha256-*.tar.gz") },
		"damaged note":  func(t *testing.T, _ *source.Options, _ *gate, dir string) { damage(t, dir, "last-base.json") },
		"another layer": func(_ *testing.T, o *source.Options, _ *gate, _ string) { o.Layer = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			c, w, dir := newClock(), &site{}, t.TempDir()
			w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
			g := newGate(s, c, dir)
			o := source.Options{Source: published(t, w), Activate: g.activate, Now: c.now, Store: source.NewStore(filepath.Join(dir, "bundles"))}
			if err := follow(t, o).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.fail(http.StatusBadGateway)
			g = newGate(s, c, dir)
			o.Activate = g.activate
			change(t, &o, g, filepath.Join(dir, "bundles"))
			f := follow(t, o)
			if err := f.Start(t.Context()); err == nil || f.Check() == nil || g.decides(t) != "none" {
				t.Errorf("starts: %v, %s decides", err, g.decides(t))
			}
			// And mends itself when the source is back.
			w.publish(`"v1"`, s.sign(t, archive(t, 1, denies)))
			o.Source, g.verify.Keys["k"] = published(t, w), rego.Key{PEM: s.public}
			for range 2 {
				if err := follow(t, o).Start(t.Context()); err != nil {
					t.Errorf("with network: %v", err)
				}
				w.fail(http.StatusBadGateway)
			}
		})
	}
}
