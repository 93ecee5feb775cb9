//go:build race

package sandbox

// Under the race detector compiling takes about ten times as long, and the
// detector reserves more address space than any limit would leave it.
const (
	slowdown       = 20
	addressLimited = false
)
