package hostfx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		give call.Bounds
		want hostfx.Limits
	}{
		{"nothing stated", call.Bounds{}, hostfx.Limits{
			OutputBytes: 1 << 20, OpenFiles: 64, WriteBytes: 64 << 20, Entries: 10_000, LogBytes: 65_536, HTTPBytes: 2_000_000, Calls: hostfx.Unlimited,
		}},
		{"all stated", call.Bounds{TimeoutMS: 60_000, OutputBytes: 1, OpenFiles: 2, WriteBytes: 3, LogBytes: 4, HTTPBytes: 5, Calls: 6}, hostfx.Limits{
			OutputBytes: 1, OpenFiles: 2, WriteBytes: 3, Entries: 10_000, LogBytes: 4, HTTPBytes: 5, Calls: 6,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := time.Now()
			fx := logging(t, call.Caps{Bounds: tt.give})
			after, got := time.Now(), fx.Limits()
			if at := got.Deadline.Add(-tt.give.Timeout()); at.Before(before) || at.After(after) {
				t.Errorf("the deadline is %v after the opening between %v and %v", tt.give.Timeout(), before, after)
			}
			got.Deadline = time.Time{}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			fx.Close()
			if fx.Limits().Calls != tt.want.Calls {
				t.Error("they are others once the call is over")
			}
		})
	}

	soon := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	fx, err := (*hostfx.Host)(nil).Open(ctx, mint(t, call.Caps{Bounds: call.Bounds{TimeoutMS: 3_600_000}}))
	must(t, err)
	defer fx.Close()
	if at := fx.Limits().Deadline; !at.Equal(soon) {
		t.Errorf("the deadline is %v, the caller's is %v", at, soon)
	}
}

// What a call is told that it may have is what it gets, and not more.
func TestLimitsHold(t *testing.T) {
	for _, b := range []call.Bounds{{}, {OpenFiles: 3, WriteBytes: 10, LogBytes: 8}} {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			fx, err := host(t, tree(t)).Open(t.Context(), mint(t, call.Caps{Log: true, FS: []call.FS{{Root: "docs", Path: "reports", Modes: all}}, Bounds: b}))
			must(t, err)
			defer fx.Close()
			l := fx.Limits()

			f := create(t, fx.Dirs()[0].Folder(), "new")
			must(t, f.Truncate(l.WriteBytes))
			if err := f.Truncate(l.WriteBytes + 1); !errors.Is(err, hostfx.ErrQuota) {
				t.Errorf("a byte more of a file: %v", err)
			}
			for range l.OpenFiles - 1 {
				_, err := fx.OpenRead("/docs/reports/a.txt")
				must(t, err)
			}
			if _, err := fx.OpenRead("/docs/reports/a.txt"); !errors.Is(err, hostfx.ErrTooManyOpen) {
				t.Errorf("a file more: %v", err)
			}
			for range l.LogBytes / 8 {
				must(t, fx.Log("7 bytes"))
			}
			if err := fx.Log(""); !errors.Is(err, hostfx.ErrTooLarge) {
				t.Errorf("a line more: %v", err)
			}
		})
	}
}

const module = "github.com/callgate/callgate/"

// forbidden says why a tool must not be able to come by a value of a type, "" if it may.
func forbidden(t reflect.Type) string {
	if slices.Contains([]reflect.Type{
		reflect.TypeFor[hostfx.Host](), reflect.TypeFor[hostfx.Options](), reflect.TypeFor[hostfx.Root](), reflect.TypeFor[hostfx.Network](),
		reflect.TypeFor[hostfx.Secret](), reflect.TypeFor[hostfx.Session](),
	}, t) {
		return "the operator's settings, or what other calls have"
	}
	if slices.Contains([]reflect.Type{reflect.TypeFor[os.File](), reflect.TypeFor[os.Root](), reflect.TypeFor[os.Process]()}, t) {
		return "a handle that checks nothing"
	}
	switch pkg := t.PkgPath(); {
	case pkg == "net/http" && t.Name() != "Header", pkg == "net", pkg == "os/exec", pkg == "crypto/tls", strings.HasPrefix(pkg, "context") && t.Kind() == reflect.Struct:
		return "what reaches the outside by itself"
	case strings.HasPrefix(pkg, module) && !slices.Contains([]string{"hostfx", "engine/call", "engine/grant", "engine/internal/seal", "engine/facts"}, strings.TrimPrefix(pkg, module)):
		return "a part of the engine"
	}
	return ""
}

// reach lists, with the way to them, the forbidden types that whoever has a value of a
// type can come by: from its exported fields, its methods, and all that is made of.
func reach(t reflect.Type, way string, seen map[reflect.Type]bool) (found []string) {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if why := forbidden(t); why != "" {
		return []string{fmt.Sprintf("%s: %s: %s", way, t, why)}
	}
	next := func(t reflect.Type, step string) { found = append(found, reach(t, way+step, seen)...) }
	for m := range t.Methods() {
		next(m.Type, "."+m.Name)
	}
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				next(f.Type, "."+f.Name)
			}
		}
	case reflect.Func:
		for in := range t.Ins() {
			next(in, "(in)")
		}
		for out := range t.Outs() {
			next(out, "()")
		}
	case reflect.Map:
		next(t.Key(), "[key]")
		next(t.Elem(), "[]")
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		next(t.Elem(), "")
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && t.PkgPath() != "" {
		next(reflect.PointerTo(t), "&")
	}
	return found
}

// From its effects a tool comes by the handles of its call, and by no settings, keys,
// history or registry.
func TestNothingButEffectsIsInReach(t *testing.T) {
	for _, found := range reach(reflect.TypeFor[*hostfx.Effects](), "fx", map[reflect.Type]bool{}) {
		t.Error(found)
	}
	// The search finds what is there.
	seen := map[reflect.Type]bool{}
	reach(reflect.TypeFor[*hostfx.Effects](), "fx", seen)
	for _, want := range []reflect.Type{reflect.TypeFor[hostfx.Limits](), reflect.TypeFor[*hostfx.Folder](), reflect.TypeFor[hostfx.Modes](), reflect.TypeFor[call.Caps](), reflect.TypeFor[hostfx.Response]()} {
		if !seen[want] {
			t.Errorf("%v is not in reach, which it must be", want)
		}
	}
	for _, bad := range []reflect.Type{
		reflect.TypeFor[struct{ H *hostfx.Host }](), reflect.TypeFor[func() (int, []hostfx.Secret)](), reflect.TypeFor[map[string]chan hostfx.Session](),
		reflect.TypeFor[interface{ Get(func(*os.File)) }](), reflect.TypeFor[*hostfx.Options](),
	} {
		if len(reach(bad, "", map[reflect.Type]bool{})) == 0 {
			t.Errorf("nothing is found in %v", bad)
		}
	}
}
