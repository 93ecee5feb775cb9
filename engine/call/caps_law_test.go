package call

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func must(t interface{ Fatalf(string, ...any) }, c Caps, err error) Caps {
	if err != nil {
		t.Fatalf("unexpected refusal: %v", err)
	}
	return c
}

func meet(t *rapid.T, a, b Caps) Caps {
	m, err := a.Meet(b)
	return must(t, m, err)
}

func same(t *rapid.T, law string, got, want Caps) {
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", law, d)
	}
}

func TestMeetIsAnd(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genCaps(t, "a"), genCaps(t, "b")
		m := meet(t, a, b)
		for _, op := range ops {
			if got, want := m.Allows(op), a.Allows(op) && b.Allows(op); got != want {
				t.Fatalf("meet allows %+v: %v, want %v", op, got, want)
			}
		}
	})
}

func TestJoinIsOr(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genCaps(t, "a"), genCaps(t, "b")
		j, err := Join(a, b)
		must(t, j, err)
		for _, op := range ops {
			if got, want := j.Allows(op), a.Allows(op) || b.Allows(op); got != want {
				t.Fatalf("join allows %+v: %v, want %v", op, got, want)
			}
		}
		ba, err := Join(b, a)
		same(t, "join commutes", must(t, ba, err), j)
	})
}

func TestNormaliseKeepsAllows(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		c := genCaps(t, "c")
		before := c.Clone()
		n, err := c.Normalise()
		must(t, n, err)
		same(t, "normalise leaves its argument alone", c, before)
		for _, op := range ops {
			if n.Allows(op) != c.Allows(op) {
				t.Fatalf("normal form allows %+v: %v, want %v", op, n.Allows(op), c.Allows(op))
			}
		}
		again, err := n.Normalise()
		same(t, "normal form of a normal form", must(t, again, err), n)
	})
}

func TestMeetLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genCaps(t, "a"), genCaps(t, "b"), genCaps(t, "c")
		same(t, "commutative", meet(t, b, a), meet(t, a, b))
		same(t, "associative", meet(t, meet(t, a, b), c), meet(t, a, meet(t, b, c)))
		n, err := a.Normalise()
		same(t, "idempotent", meet(t, a, a), must(t, n, err))
		m := meet(t, a, b)
		if !a.Covers(m) || !b.Covers(m) {
			t.Fatalf("meet is wider than a side: %+v", m)
		}
		same(t, "meet with nothing", meet(t, a, Caps{}), Caps{Bounds: a.Bounds})
	})
}

func TestCoversIsInclusion(t *testing.T) {
	ops := allOps()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genCaps(t, "a"), genCaps(t, "b")
		switch rapid.IntRange(0, 2).Draw(t, "shape") { // unrelated pairs rarely cover
		case 1:
			b = meet(t, a, b)
		case 2:
			j, err := Join(a, b)
			a = must(t, j, err)
		}
		want := a.Bounds.covers(b.Bounds)
		for _, op := range ops {
			want = want && (a.Allows(op) || !b.Allows(op))
		}
		if got := a.Covers(b); got != want {
			t.Fatalf("Covers = %v, want %v", got, want)
		}
	})
}

func TestBoundsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genCaps(t, "a").Bounds, genCaps(t, "b").Bounds
		m := meet(t, Caps{Bounds: a}, Caps{Bounds: b}).Bounds
		j, err := Join(Caps{Bounds: a}, Caps{Bounds: b})
		must(t, j, err)
		fa, fb, fm, fj := a.all(), b.all(), m.all(), j.Bounds.all()
		for i, f := range fm {
			x, y := *fa[i].value, *fb[i].value
			least, most := min(x, y), max(x, y)
			if least == 0 {
				least = most
			}
			if *f.value != least || *fj[i].value != most {
				t.Fatalf("%s of %d and %d: meet %d, join %d", f.name, x, y, *f.value, *fj[i].value)
			}
		}
	})
}

func TestCapsJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := genCaps(t, "c").Normalise()
		must(t, c, err)
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got Caps
		if err := json.Unmarshal(b, &got, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		same(t, "round trip", got, c)
	})
}

func FuzzCapsJSON(f *testing.F) {
	f.Add([]byte(`{"fs":[{"root":"w","path":"a","modes":["read"]},{"root":"w","path":"a/b","modes":["read","write"]}]}`))
	f.Add([]byte(`{"http":[{"hosts":["*.x.io","a.x.io"],"ports":[443],"methods":["GET"],"paths":["/v1"],"networks":["public"],"secret":{"name":"s","as":"bearer"}}]}`))
	f.Add([]byte(`{"exec":[{"command":"git","args":["log","*"]}],"secrets":["s"],"log":true,"bounds":{"fuel":1}}`))
	f.Add([]byte(`{"exec":[{"command":"git","args":[],"env":["A=1","B=1"],"ports":[443]},{"command":"git","args":[],"env":["A=1"]}]}`))
	f.Add([]byte(`{"fs":null,"bounds":{"fuel":0}}`))
	ops := allOps()
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Caps
		if json.Unmarshal(b, &c, json.RejectUnknownMembers(true)) != nil || c.Validate() != nil {
			return // refusing is always allowed
		}
		m, err := c.Meet(c)
		if err != nil {
			t.Fatalf("valid but does not meet itself: %v", err)
		}
		if !c.Covers(m) || !m.Covers(c) {
			t.Fatalf("meets itself in something else: %+v", m)
		}
		for _, op := range ops {
			if m.Allows(op) && !c.Allows(op) {
				t.Fatalf("wider by %+v", op)
			}
		}
	})
}
