package hostfx

import "slices"

// WriteFile makes b the content of a regular file, and creates it if it is not there. It
// needs the mode write. A file that may not be written, or not that much, is left as it
// was, and none is created. It is not done in one step, as little as
// [Effects.OpenWrite] is: whoever reads the file meanwhile can find a part of b.
func (fx *Effects) WriteFile(name string, b []byte) error {
	return fx.put("fs.write", name, b, func(m Modes) bool { return m.Write }, fx.OpenWrite)
}

// AppendFile adds b to the end of a regular file, and creates it if it is not there. It
// needs the mode append or write, and leaves a file alone as [Effects.WriteFile] does.
func (fx *Effects) AppendFile(name string, b []byte) error {
	return fx.put("fs.append", name, b, func(m Modes) bool { return m.Append || m.Write }, fx.OpenAppend)
}

// put looks at the quota first, since opening a file for writing can empty it.
func (fx *Effects) put(kind, name string, b []byte, has func(Modes) bool, open func(string) (*File, error)) error {
	d, rel, err := fx.find(kind, name, has)
	if err != nil {
		return err
	}
	if has(d.modes) && !fx.quota.has(int64(len(b))) {
		return d.self.do(func(*place) error { return d.self.note(kind, rel, ErrQuota) })
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for part := range slices.Chunk(b, maxMove) {
		if fx.ctx.Err() != nil {
			return ErrClosed
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	return nil
}
