package sandbox

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/callgate/callgate/sandbox/meter"
	"github.com/callgate/callgate/sandbox/wasi"
)

// Bounds of snapshots.
const (
	maxSnapshot  = 64 << 20 // bytes of memory
	maxSnapshots = 4        // of one guest
	maxTries     = 3        // for one world, before it is given up
)

// snapshot is a guest as it was after its initialisation, which looked at nothing
// that belongs to one call: not a byte of arguments or files was there when it
// was made.
type snapshot struct {
	image   *image
	size    uint64   // bytes of memory
	globals []uint64 // as in parts.Globals; the fuel that was used is owed
	stdio   wasi.Stdio
	holds   int64 // bytes of host memory
}

// snapshots are those of one guest, by what initialising could see.
type snapshots struct {
	mu   sync.Mutex // protects the field below
	list []*world   // the last used comes last
}

// world is what a guest can see of a grant without touching anything.
type world struct {
	key   string
	shot  *snapshot
	tries int
	busy  bool // one is being made
}

// find returns the snapshot of a world, or reports that the caller is to make
// one and then say so with made. What had to go for that is old.
func (s *snapshots) find(key string) (shot *snapshot, try bool, old *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.list, func(w *world) bool { return w.key == key })
	if at < 0 {
		if len(s.list) >= maxSnapshots {
			old = s.list[0].shot
			s.list = slices.Delete(s.list, 0, 1)
		}
		s.list = append(s.list, &world{key: key, tries: 1, busy: true})
		return nil, true, old
	}
	w := s.list[at]
	s.list = append(slices.Delete(s.list, at, at+1), w)
	if w.shot != nil || w.busy || w.tries >= maxTries {
		return w.shot, false, nil
	}
	w.tries++
	w.busy = true
	return nil, true, nil
}

// made keeps what the caller made, nil if it could not, and reports whether there
// is still a place for it.
func (s *snapshots) made(key string, shot *snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		if w.key == key && w.busy {
			w.shot, w.busy = shot, false
			return true
		}
	}
	return false
}

// snapshot finds the snapshot that the run starts from, nil if it has to
// initialise the guest itself.
func (r *run) snapshot(g *guest) *snapshot {
	if !g.snapped() || r.sandbox.fresh {
		return nil
	}
	key := r.world()
	shot, try, old := g.snapshots.find(key)
	r.sandbox.forget(old)
	if try {
		shot = r.shoot(g)
		if !g.snapshots.made(key, shot) {
			r.sandbox.forget(shot)
		}
	}
	// Where its memory is more than the grant gives, the guest shows itself what it
	// does then: initialise itself, and meet the bound.
	if shot != nil && shot.size > r.memory.limit {
		return nil
	}
	return shot
}

// shoot initialises the guest in a run without arguments and handles, and gives
// nil if that did not end well or looked at something.
func (r *run) shoot(g *guest) *snapshot {
	n := r.neutral()
	defer n.memory.Free() // an instance that never came to be does not
	i, err := n.begin(g)
	if i != nil {
		defer i.close(n.ctx)
	}
	if err != nil || n.ended != nil || n.wasi.Touched() || n.memory.refused || n.memory.size > maxSnapshot {
		return nil
	}
	used := n.account.Used(int64(i.fuel.Get()))
	img, holds := n.memory.copy(func() bool { return !r.sandbox.now().Before(r.deadline) })
	if holds < 0 || !r.sandbox.ceiling.keep(holds) {
		return nil
	}
	r.sandbox.shots.Add(holds)
	s := &snapshot{image: img, size: n.memory.size, stdio: n.wasi.Stdio(), holds: holds}
	for k, name := range g.parts.Globals {
		v := i.globals[k].Get()
		if name == meter.FuelGlobal {
			// Whoever starts from here owes what initialising used, as if it had
			// done that itself: the first look at the fuel asks for it.
			v = uint64(-used)
		}
		s.globals = append(s.globals, v)
	}
	return s
}

// forget accounts for a snapshot that no more runs start from, if there is one.
func (s *Sandbox) forget(shot *snapshot) {
	if shot != nil {
		s.shots.Add(-shot.holds)
		s.ceiling.drop(shot.holds)
	}
}

// limitSnapshots gives up snapshots until all hold at most so many bytes. They are
// made again when they are wanted and there is room.
func (s *Sandbox) limitSnapshots(bytes int64) {
	s.mu.RLock()
	guests := slices.Collect(maps.Values(s.modules))
	s.mu.RUnlock()
	for _, g := range guests {
		for s.shots.Load() > bytes {
			shot := g.snapshots.giveUp()
			if shot == nil {
				break
			}
			s.forget(shot)
		}
	}
}

// giveUp removes the snapshot that was used longest ago and returns it, if there is
// one.
func (s *snapshots) giveUp() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		if shot := w.shot; shot != nil {
			w.shot = nil
			w.tries--
			return shot
		}
	}
	return nil
}

// copy makes an image of what the memory holds. Pages of zeroes take no room. If
// it is over before that is done, holds is negative: no image.
func (m *memory) copy(over func() bool) (_ *image, holds int64) {
	const page, some = 4096, 1 << 20
	var zeroes [page]byte
	content := m.space[:m.size]
	end := len(content)
	for ; end > 0 && bytes.Equal(content[end-page:end], zeroes[:]); end -= page {
		if end%some == 0 && over() {
			return nil, -1
		}
	}
	late := false
	img := newImage(end, func(b []byte) {
		for at := 0; at < end; at += page {
			if at%some == 0 && over() {
				late = true
				return
			}
			if p := content[at : at+page]; !bytes.Equal(p, zeroes[:]) {
				holds += int64(copy(b[at:], p))
			}
		}
	})
	if late {
		return nil, -1
	}
	return img, holds
}

// begin makes an instance of the module and initialises it. The instance may
// come with an error.
func (r *run) begin(g *guest) (i *instance, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = errPanic
		}
	}()
	ctx := context.WithValue(r.ctx, runKey{}, r)
	if i, err = r.instantiate(ctx, g, nil); err == nil {
		err = i.initialise(ctx)
	}
	return i, err
}
