package meter

// elementSection copies element segments with their functions renumbered.
func (m *module) elementSection(r *reader) []byte {
	n := r.count(m.limits.Elements, TooManyElements, 3)
	m.elements = n
	b := appendU32(nil, n)
	room := m.limits.ElementItems
	for range n {
		flags := r.u32()
		if flags > 7 {
			r.fail(Malformed, "flags of an element segment")
		}
		b = appendU32(b, flags)
		active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
		if active {
			table := uint32(0)
			if explicit {
				table = r.index(m.tables)
				b = appendU32(b, table)
			}
			b = m.constExpr(r, b)
		}
		if flags&3 != 0 {
			if exprs {
				b = append(b, r.refType())
			} else {
				if r.byte() != 0 {
					r.fail(Malformed, "kind of an element segment")
				}
				b = append(b, 0)
			}
		}
		k := r.count(room, TooManyElementItems, 1)
		room -= k
		b = appendU32(b, k)
		for range k {
			if exprs {
				b = m.constExpr(r, b)
			} else {
				i := r.index(len(m.funcTypes))
				m.declare(i)
				b = appendU32(b, m.shift(i))
			}
			if r.err != nil {
				return nil
			}
		}
		if r.err != nil {
			return nil
		}
	}
	if n == 0 {
		return m.same(r)
	}
	return b
}

func (m *module) dataCountSection(r *reader) []byte {
	m.data = int(min(r.u32(), 1<<30))
	return m.same(r)
}

// dataSection only checks: nothing in it is renumbered.
func (m *module) dataSection(r *reader) []byte {
	n := r.count(m.limits.Data, TooManyData, 2)
	if m.sections[secDataCount].ok && m.data != n {
		r.fail(Malformed, "data count differs from the data section")
	}
	m.data = n
	m.segments = make([]uint32, 0, n)
	var scratch []byte
	for range n {
		switch flags := r.u32(); flags {
		case 0:
			scratch = m.constExpr(r, scratch[:0])
		case 1:
		case 2:
			if r.u32() != 0 {
				r.fail(MultiMemory, "data segment")
			}
			scratch = m.constExpr(r, scratch[:0])
		default:
			r.fail(Malformed, "flags of a data segment")
		}
		// An offset that names a function is not a number, and was not renumbered.
		if len(scratch) > 0 && scratch[0] == opRefFunc {
			r.fail(Malformed, "offset of a data segment")
		}
		size := r.u32()
		r.bytes(size)
		if r.err != nil {
			return nil
		}
		m.segments = append(m.segments, size)
	}
	return m.same(r)
}

// codeSection rewrites the function bodies.
func (m *module) codeSection(r *reader) []byte {
	n := r.count(m.limits.Functions, TooManyFunctions, 3)
	if n != len(m.funcTypes)-m.imported {
		r.fail(Malformed, "as many bodies as functions are needed")
		return nil
	}
	out := make([]byte, 0, len(r.b)+len(r.b)/4+16)
	out = appendU32(out, n)
	for i := range n {
		size := r.u32()
		if uint64(size) > uint64(m.limits.Body) {
			r.fn = m.imported + i
			r.fail(BodyTooLarge, limitText("bytes", uint64(size), m.limits.Body))
		}
		b := r.bytes(size)
		if r.err != nil {
			return nil
		}
		br := &reader{b: b, base: r.base + r.i - len(b), fn: m.imported + i}
		nb := m.body.rewrite(m, br, m.types[m.funcTypes[m.imported+i]])
		if br.err == nil && len(nb) > 2*m.limits.Body {
			br.fail(BodyTooLarge, limitText("bytes after rewriting", uint64(len(nb)), 2*m.limits.Body))
		}
		if br.err != nil {
			r.err = br.err
			return nil
		}
		out = append(appendU32(out, len(nb)), nb...)
	}
	if n == 0 {
		return m.same(r)
	}
	return out
}
