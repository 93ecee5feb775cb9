package hostfx

import (
	"maps"
	"slices"
)

// change is what another call did to one name, of which this call may see or undo it.
type change struct {
	spot spot
	name string // as tools know it
	dir  *Dir   // that grants it
	edited
}

// past is what a call changed, in the order of names. It must be called with life held.
//
// A call of another owner or session is refused as one that is not there.
func (fx *Effects) past(id string, has func(Modes) bool) ([]change, error) {
	e := fx.edits
	if e == nil || !callID(id) {
		return nil, ErrNotGranted
	}
	e.j.gate.RLock()
	defer e.j.gate.RUnlock()
	c, err := e.j.open("calls/" + id + ".jsonl")
	if err != nil || c.owner != e.session.Owner || c.session != e.session.ID {
		return nil, ErrNotGranted // and not a word about why
	}
	if c.end != endWhole {
		return nil, ErrUnfinished
	}
	var out []change
	for _, s := range slices.SortedFunc(maps.Keys(c.names), spot.compare) {
		was := c.names[s]
		if !was.changed() {
			continue
		}
		d := fx.granting(s, has)
		if d == nil {
			return nil, ErrNotGranted
		}
		out = append(out, change{s, d.nameOf(s), d, *was})
	}
	if len(out) == 0 {
		return nil, ErrNotGranted
	}
	e.need(out)
	return out, nil
}

// need keeps contents from being pruned while this call is under way.
func (e *edits) need(list []change) {
	e.j.mu.Lock()
	defer e.j.mu.Unlock()
	for _, c := range list {
		for _, i := range []image{c.before, c.after} {
			if i.Stored {
				e.kept[i.Digest] = true
			}
		}
	}
}

// granting is a granted directory that s is in, and that has the modes.
func (fx *Effects) granting(s spot, has func(Modes) bool) *Dir {
	for _, d := range fx.dirs {
		if has(d.modes) && s.in(d.spot) {
			return d
		}
	}
	return nil
}

// nameOf is the name of what is in it.
func (d *Dir) nameOf(s spot) string {
	if d.spot.path == "." {
		return within(d.name, relative(s.path))
	}
	return within(d.name, relative(s.path[len(d.spot.path):]))
}
