package wasi

// Stdio are the flags of stdin, stdout and stderr, which programs set when they
// initialise themselves. Nothing but fd_fdstat_get shows them.
type Stdio [3]uint16

// Stdio gives the flags of a State that was not touched.
func (s *State) Stdio() (flags Stdio) {
	for fd := range flags {
		flags[fd] = s.fds.slots[fd].flags
	}
	return flags
}

// SetStdio makes a new State go on from what initialising did to another.
func (s *State) SetStdio(flags Stdio) {
	for fd, f := range flags {
		s.fds.slots[fd].flags = f
	}
}

// output is what was written to stdout or stderr. It takes no more than most, and
// once more while it grows.
type output struct {
	bytes []byte
	most  int64
}

func (o *output) left() int64 { return max(0, o.most-int64(len(o.bytes))) }

// add appends what there is room for.
func (o *output) add(b []byte) {
	if need := len(o.bytes) + len(b); need > cap(o.bytes) {
		size := int(min(int64(max(need, 2*cap(o.bytes), 512)), o.most))
		o.bytes = append(make([]byte, 0, size), o.bytes...)
	}
	o.bytes = append(o.bytes, b...)
}
