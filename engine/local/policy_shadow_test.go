package local

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/rego"
)

// A layer in shadow that never loads keeps no other from deciding, from changing, or
// the owner from closing.
func TestShadowDelaysNobody(t *testing.T) {
	dir, hold, begun := t.TempDir(), make(chan struct{}), make(chan struct{})
	defer close(hold)
	name, tried := filepath.Join(dir, "p.rego"), t.TempDir()
	overwrite(t, name, denies)
	overwrite(t, filepath.Join(tried, "p.rego"), denies)
	c := Config{Data: t.TempDir(), Watch: time.Millisecond, Logger: zerolog.Nop(), Layers: []Layer{
		{Name: "late", Mode: InShadow, Bundle: tried}, {Bundle: dir},
	}}
	l := &live{load: func(ctx context.Context, fsys fs.FS, o rego.Options) (*rego.Policy, error) {
		if o.Name == "late" {
			close(begun)
			<-hold // whatever becomes of ctx
		}
		return rego.Open(ctx, fsys, o)
	}}
	if err := l.open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	stop := l.watch(c)
	first := l.Snapshot()
	if _, err := first.Decide(t.Context(), &call.Input{}); call.CodeOf(err, "") == call.CodePolicyStale {
		t.Error(err)
	}
	<-begun
	overwrite(t, name, denies+"# second\n")
	for l.Snapshot() == first {
		time.Sleep(time.Millisecond) // until the ticker has come round
	}
	if err := errors.Join(stop(), l.close()); err != nil {
		t.Error(err)
	}
}

// Nobody watches: layers in shadow are brought in all the same, once.
func TestShadowWithoutWatch(t *testing.T) {
	dir, tried := t.TempDir(), t.TempDir()
	overwrite(t, filepath.Join(dir, "p.rego"), denies)
	overwrite(t, filepath.Join(tried, "p.rego"), denies)
	l, err := openLive(t.Context(), Config{Data: t.TempDir(), Watch: -1, Logger: zerolog.Nop(), Layers: []Layer{
		{Bundle: dir}, {Name: "late", Mode: InShadow, Bundle: tried},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for l.layers[1].Status().Revision.Digest == "" {
		time.Sleep(time.Millisecond)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// A bundle that was given up is not begun again while work on it goes on, and of others
// only a few are.
func TestStuckBundles(t *testing.T) {
	l, name, log := liveOf(t)
	first := l.Snapshot()
	tries, ends := 0, make(chan struct{})
	l.load = func(context.Context, fs.FS, rego.Options) (*rego.Policy, error) {
		tries++
		return nil, &call.Error{Code: call.CodePolicyTimeout, Err: &rego.StillRuns{Done: ends}}
	}
	for i := range 2 * maxStuck {
		overwrite(t, name, denies+strings.Repeat("# next\n", i+1))
		for range 3 {
			l.poll(t.Context(), l.layers...)
		}
	}
	if tries != maxStuck || l.Snapshot() != first {
		t.Errorf("%d tries: %s", tries, log)
	}
	close(ends)
	l.poll(t.Context(), l.layers...)
	if tries != maxStuck+1 {
		t.Errorf("%d tries when all have ended", tries)
	}
}

// What is compiled can take all memory, so in production all of it is signed.
func TestProductionSignsShadow(t *testing.T) {
	for _, mode := range []string{Enforce, InShadow} {
		signed := Layer{Name: "a", Mode: mode, Bundle: "a", Signing: &Signing{Scope: "x"}}
		bare, anywhere := signed, signed
		bare.Signing, anywhere.Signing = nil, &Signing{}
		for l, ok := range map[*Layer]bool{&signed: true, &bare: false, &anywhere: false} {
			if _, err := (Config{Production: true, Layers: []Layer{*l}}).layers(); (err == nil) != ok {
				t.Errorf("%+v: %v", *l, err)
			}
		}
	}
}
