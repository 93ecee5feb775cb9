package sandbox

// Idle is how many instances wait for another call, and how many memories.
func (s *Sandbox) Idle() (instances, memories int) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, i := range s.pool.idle {
		if i.key.bare {
			memories++
		} else {
			instances++
		}
	}
	return instances, memories
}

// Snapshots is how many there are of a guest.
func (s *Sandbox) Snapshots(module string) (n int) {
	g := s.guest(module)
	g.snapshots.mu.Lock()
	defer g.snapshots.mu.Unlock()
	for _, w := range g.snapshots.list {
		if w.shot != nil {
			n++
		}
	}
	return n
}

// Once has every instance thrown away after its call, but not its memory.
func (s *Sandbox) Once() { s.once = true }
