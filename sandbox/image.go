package sandbox

import "github.com/callgate/callgate/sandbox/meter"

// image is what a memory holds at first: content up to some page of the
// operating system, zeroes from there on. It is read only, and lies outside of
// Go's heap where it can, so that instances share its pages until they write to
// them. The nil image is all zeroes.
type image struct {
	content []byte // whole pages
	backing        // of the operating system
}

// newImage makes an image of the first size bytes, which fill writes.
func newImage(size int, fill func([]byte)) *image {
	if size == 0 {
		return nil
	}
	return makeImage((size+pageMask)&^pageMask, fill)
}

func (i *image) bytes() []byte {
	if i == nil {
		return nil
	}
	return i.content
}

// parts is how the sandbox makes instances of one module.
type parts struct {
	*meter.Parts
	image *image // of the data, nil if there is none
}

// prepare takes a rewritten module apart: into what is compiled, and what the
// memory of a new instance holds.
func prepare(m *meter.Module) ([]byte, *parts, error) {
	taken, err := m.Parts()
	if err != nil {
		return nil, nil, err
	}
	p := &parts{Parts: taken}
	var end int
	for _, s := range p.Data {
		end = max(end, int(s.Offset)+len(s.Bytes))
	}
	p.image = newImage(end, func(b []byte) {
		for _, s := range p.Data {
			copy(b[s.Offset:], s.Bytes)
		}
	})
	p.Data = nil
	wasm := p.Wasm
	p.Wasm = nil
	return wasm, p, nil
}

// snapped reports whether an instance can start after its initialisation.
func (g *guest) snapped() bool {
	return g.parts.Resets && g.memoryMin > 0 && (g.init || g.parts.HasStart)
}
