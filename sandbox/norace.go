//go:build !race

package sandbox

const (
	slowdown       = 1
	addressLimited = true
)
