package sandbox

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/meter"
)

// A pool gives an instance to nobody but who it was made for, twice to nobody,
// keeps within its bounds, and accounts for every byte that it holds.
func TestPoolKeepsWithinItsBounds(t *testing.T) {
	guests := []*guest{{}, {}}
	shots := []*snapshot{nil, {}}
	rapid.Check(t, func(t *rapid.T) {
		key := func() poolKey {
			return poolKey{
				rapid.SampledFrom([]string{"t", "u"}).Draw(t, "tool"), rapid.SampledFrom(guests).Draw(t, "guest"), rapid.SampledFrom(shots).Draw(t, "from"),
				rapid.Int64Range(1, 2).Draw(t, "memory"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "policies"), rapid.Bool().Draw(t, "bare"),
			}
		}
		room := newCeiling(1, 100)
		p := newPool(1, room)
		p.count, p.bytes = 3, 50
		kept := map[*instance]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				i := &instance{key: key(), own: rapid.Int64Range(1, 60).Draw(t, "bytes")}
				p.put(context.Background(), i)
				kept[i] = true
			case 3, 4:
				k := key()
				if i := p.take(k); i != nil {
					if i.key != k || !kept[i] {
						t.Fatalf("an instance of %v was given for %v, or given twice", i.key, k)
					}
					delete(kept, i)
				}
			case 5:
				before, n := p.held, rapid.Int64Range(0, 60).Draw(t, "bytes")
				p.evict(n)
				if p.held > max(0, before-n) {
					t.Fatalf("%d of %d bytes were to go, and %d are held", n, before, p.held)
				}
			}
			var sum int64
			for _, i := range p.idle {
				sum += i.own
			}
			if len(p.idle) > 3 || sum > 50 || sum != p.held || sum != room.held {
				t.Fatalf("%d instances hold %d bytes; the pool counts %d, the ceiling %d", len(p.idle), sum, p.held, room.held)
			}
		}
		p.close(context.Background())
		p.put(context.Background(), &instance{own: 1})
		if len(p.idle) != 0 || room.held != 0 {
			t.Fatalf("a closed pool keeps %d instances and %d bytes", len(p.idle), room.held)
		}
	})
}

// What idles gives way to runs.
func TestPoolGivesWay(t *testing.T) {
	room := newCeiling(2, 100)
	p := newPool(2, room)
	room.evict = p.evict
	p.put(t.Context(), &instance{own: 30})
	p.put(t.Context(), &instance{own: 30})
	if code := room.take(t.Context(), nil, 0, 50); code != "" {
		t.Fatalf("a run gets %s", code)
	}
	if len(p.idle) != 1 {
		t.Errorf("%d instances idle beside it", len(p.idle))
	}
	p.put(t.Context(), &instance{own: 30})
	if len(p.idle) != 1 {
		t.Errorf("%d instances idle, and there is room for one", len(p.idle))
	}
}

func TestPoliciesAreToldApart(t *testing.T) {
	seen := map[string][]call.Revision{}
	for _, revisions := range [][]call.Revision{
		nil, {{Name: "a"}}, {{Revision: "a"}}, {{Digest: "a"}}, {{Role: "a"}}, {{Entrypoint: "a"}}, {{}}, {{}, {}},
		{{Name: "a\x00"}}, {{Name: "a", Revision: "\x00"}}, {{Name: "ab"}}, {{Name: "a", Revision: "b"}}, {{Name: "a"}, {Name: "b"}},
	} {
		word := policiesOf(revisions)
		if other, ok := seen[word]; ok {
			t.Errorf("the same word for %v and %v", revisions, other)
		}
		seen[word] = revisions
	}
}

// A function that grew its stack is not kept with its instance, and neither is one
// whose stack is not known.
func TestLargeStacksAreNotKept(t *testing.T) {
	b := newBench(t)
	r := b.run(64 << 20)
	ctx := context.WithValue(r.ctx, runKey{}, r)
	i, err := r.instantiate(ctx, b.guest(t, "scribble"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close(ctx)
	deep := i.module.ExportedFunction("deep")
	var sizes []int
	for _, depth := range []uint64{1, 10_000} {
		if _, err := deep.Call(ctx, depth); err != nil {
			t.Fatal(err)
		}
		size, known := stackOf(deep)
		if !known {
			t.Fatal("the engine's functions are not as they were: their stacks cannot be seen")
		}
		sizes = append(sizes, size)
		i.functions[callEntry] = deep
		if !i.reset() {
			t.Fatal("the instance was not reset")
		}
		if kept := i.functions[callEntry] != nil; kept != (size <= keepStack) {
			t.Errorf("a function with a stack of %d bytes is kept: %v", size, kept)
		}
	}
	if sizes[0] > keepStack || sizes[1] <= keepStack {
		t.Errorf("stacks have %d bytes, and one of them was to be large", sizes)
	}
	if _, known := stackOf(strange{}); known {
		t.Error("a stack is known that is not there")
	}
}

// A snapshot holds what initialising left, wherever instances of it come from.
func TestSnapshotIsWhatInitialisingLeft(t *testing.T) {
	b := newBench(t)
	g := b.guest(t, "settled")
	plain := b.run(64 << 20)
	first, err := plain.begin(g)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close(plain.ctx)
	memory, globals := first.state()
	used := plain.account.Used(int64(first.fuel.Get()))
	shot := b.run(64 << 20).shoot(g)
	if shot == nil {
		t.Fatal("there is no snapshot")
	}
	for range 2 {
		r := b.run(64 << 20)
		ctx := context.WithValue(r.ctx, runKey{}, r)
		i, err := r.instantiate(ctx, g, shot)
		if err != nil {
			t.Fatal(err)
		}
		defer i.close(ctx)
		for n := range 2 {
			now, values := i.state()
			for k, name := range g.parts.Globals {
				if name == meter.FuelGlobal {
					if owed := new(meter.Account).Used(int64(values[k])); owed != used {
						t.Errorf("%d fuel is owed, and %d was used", owed, used)
					}
					values[k] = globals[k]
				}
			}
			if d := cmp.Diff(globals, values); d != "" {
				t.Errorf("globals of instance %d (-initialised +from the snapshot):\n%s", n, d)
			}
			if string(now) != string(memory) {
				t.Errorf("the memory of instance %d is not what initialising left", n)
			}
			if _, err := i.call(ctx, callEntry); err != nil {
				t.Fatal(err)
			}
			if !i.reset() {
				t.Fatal("the instance was not reset")
			}
		}
	}
}

// Worlds of a guest are bounded, and the oldest gives way with what it held.
func TestSnapshotsAreBounded(t *testing.T) {
	var s snapshots
	for n := range 2 * maxSnapshots {
		key := string(rune('a' + n))
		if _, try, old := s.find(key); !try || (old != nil) != (n >= maxSnapshots) {
			t.Errorf("world %d: try is %v, and what went for it %v", n, try, old)
		}
		if _, try, _ := s.find(key); try {
			t.Error("two make one snapshot")
		}
		if !s.made(key, &snapshot{}) || s.made(key, &snapshot{}) {
			t.Error("a snapshot is to be kept once")
		}
	}
	if len(s.list) != maxSnapshots {
		t.Errorf("there are %d", len(s.list))
	}
	for range maxTries {
		if _, try, _ := s.find("never"); !try {
			t.Error("it is given up too early")
		}
		s.made("never", nil)
	}
	if _, try, _ := s.find("never"); try {
		t.Error("it is never given up")
	}
}

// strange is a function of another engine.
type strange struct{ api.Function }
