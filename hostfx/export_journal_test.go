package hostfx

import "io"

// SetImaged says how many bytes of images a call has taken.
func SetImaged(fx *Effects, n int64) { fx.edits.images = n }

// Journaled is what a call's file says: who it was, its end, and what it changed.
type Journaled struct {
	Call, Owner, Session, End string
	Roots, Paths              []string
	Changed                   int
}

// ReadJournaled reads a call's file.
func ReadJournaled(r io.Reader) (*Journaled, error) {
	c, err := readJournaled(r)
	if err != nil {
		return nil, err
	}
	out := &Journaled{Call: c.call, Owner: c.owner, Session: c.session, End: c.end}
	for s, e := range c.names {
		out.Roots, out.Paths = append(out.Roots, s.root), append(out.Paths, s.path)
		if e.changed() {
			out.Changed++
		}
	}
	return out, nil
}
