//go:build race

package redis_test

// Under the race detector a thousand races take minutes. They run without it as well.
const raceEnabled = true
