package call

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// genCap has an opinion on some families.
func genCap(t *rapid.T, label string) Cap {
	all := genCaps(t, label)
	c := Cap{Bounds: all.Bounds}
	has := func(what string) bool { return rapid.Bool().Draw(t, label+" on "+what) }
	if has("fs") {
		c.FS = slices.Concat([]FS{}, all.FS)
	}
	if has("http") {
		c.HTTP = slices.Concat([]HTTP{}, all.HTTP)
	}
	if has("exec") {
		c.Exec = slices.Concat([]Exec{}, all.Exec)
	}
	if has("secrets") {
		c.Secrets = slices.Concat([]string{}, all.Secrets)
	}
	if has("workspace") {
		c.Workspace = &all.Workspace
	}
	if has("plan") {
		c.Plan = &all.Plan
	}
	if has("log") {
		c.Log = &all.Log
	}
	if has("precise_clock") {
		c.PreciseClock = &all.PreciseClock
	}
	return c
}

// silent reports whether the cap says nothing of such operations.
func (c Cap) silent(k OpKind) bool {
	switch k {
	case OpFS:
		return c.FS == nil
	case OpHTTP:
		return c.HTTP == nil
	case OpExec:
		return c.Exec == nil
	case OpSecret:
		return c.Secrets == nil
	case OpWorkspace:
		return c.Workspace == nil
	case OpPlan:
		return c.Plan == nil
	case OpLog:
		return c.Log == nil
	case OpPreciseClock:
		return c.PreciseClock == nil
	}
	return true
}

// What a cap leaves is what was there and what it allows or is silent about.
func TestCappedIsMeetOfWhatIsStated(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		c, by := genCaps(t, "c"), genCap(t, "by")
		got, err := c.Capped(by)
		if err != nil {
			if code := CodeOf(err, ""); code != CodeCapsTooMany {
				t.Fatal(err)
			}
			return
		}
		stated := by.over(Caps{})
		for _, op := range ops {
			if want := c.Allows(op) && (by.silent(op.Kind) || stated.Allows(op)); got.Allows(op) != want {
				t.Fatalf("%+v: allowed %v, want %v", op, !want, want)
			}
		}
		if want := c.Bounds.merge(by.Bounds, func(x, y int64) int64 { return min(x, y) }); got.Bounds != want {
			t.Errorf("bounds %+v, want %+v", got.Bounds, want)
		}
		if !c.Covers(got) {
			t.Errorf("wider than it was: %+v", got)
		}
	})
}

// Two caps are one, in either order.
func TestCapsMeet(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		c, a, b := genCaps(t, "c"), genCap(t, "a"), genCap(t, "b")
		one, err1 := a.Meet(b)
		two, err2 := b.Meet(a)
		if err1 != nil || err2 != nil {
			if (err1 == nil) != (err2 == nil) || CodeOf(errors.Join(err1, err2), "") != CodeCapsTooMany {
				t.Fatal(err1, err2)
			}
			return
		}
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("order matters: %+v, %+v", one, two)
		}
		together, err1 := c.Capped(one)
		first, err2 := c.Capped(a)
		if err2 == nil {
			first, err2 = first.Capped(b)
		}
		if err1 != nil || err2 != nil {
			return // too many on the way
		}
		for _, op := range ops {
			if together.Allows(op) != first.Allows(op) {
				t.Fatalf("%+v: together %v, one after the other %v", op, together.Allows(op), first.Allows(op))
			}
		}
		for _, k := range []OpKind{OpFS, OpHTTP, OpExec, OpSecret, OpWorkspace, OpPlan, OpLog, OpPreciseClock} {
			if one.silent(k) != (a.silent(k) && b.silent(k)) {
				t.Errorf("%s: silent %v", k, one.silent(k))
			}
		}
	})
}

func TestCapFromJSON(t *testing.T) {
	all := Caps{
		FS: []FS{{"docs", ".", []string{"read"}}}, Secrets: []string{"s"}, Workspace: true, Log: true, Bounds: Bounds{Calls: 9},
	}
	for give, want := range map[string]Caps{
		`{}`:                      all,
		`{"fs": []}`:              {Secrets: all.Secrets, Workspace: true, Log: true, Bounds: all.Bounds},
		`{"secrets": []}`:         {FS: all.FS, Workspace: true, Log: true, Bounds: all.Bounds},
		`{"workspace": false}`:    {FS: all.FS, Secrets: all.Secrets, Log: true, Bounds: all.Bounds},
		`{"log": true}`:           all,
		`{"precise_clock": true}`: all, // a cap gives nothing
		`{"http": []}`:            all,
		`{"bounds": {}}`:          all,
		`{"bounds": {"calls": 2, "fuel": 5}}`: {
			FS: all.FS, Secrets: all.Secrets, Workspace: true, Log: true, Bounds: Bounds{Calls: 2, Fuel: 5},
		},
	} {
		var c Cap
		if err := json.Unmarshal([]byte(give), &c, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(give, err)
		}
		if err := c.Validate(); err != nil {
			t.Fatal(give, err)
		}
		if got, err := all.Capped(c); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s leaves %+v, %v, want %+v", give, got, err, want)
		}
	}
}

func TestCapValidates(t *testing.T) {
	for give, want := range map[string]Code{
		`{"fs": [{"root": "docs", "path": "../x", "modes": ["read"]}]}`: CodeCapsInvalid,
		`{"secrets": ["Not a name"]}`:                                   CodeCapsInvalid,
	} {
		var c Cap
		if err := json.Unmarshal([]byte(give), &c); err != nil {
			t.Fatal(err)
		}
		if got := CodeOf(c.Validate(), ""); got != want {
			t.Errorf("%s: %q, want %s", give, got, want)
		}
	}
	if got := CodeOf(Cap{Secrets: make([]string, MaxCapsEntries+1)}.Validate(), ""); got != CodeCapsTooMany {
		t.Error(got)
	}
}
