package sandbox

import "github.com/callgate/callgate/sandbox/wasi"

// SetWorld gives the guests of s what no guest gets otherwise: arguments, an
// environment, and names for directories.
func SetWorld(s *Sandbox, w *wasi.World) { s.world = w }

// Raced is whether the race detector is on, under which compiling takes long.
const Raced = slowdown > 1
