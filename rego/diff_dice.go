package rego

import (
	"crypto/sha256"
	"encoding/binary"
)

// dice fall the same way each time for the same name and seed: comparisons are to be
// repeated. They are SplitMix64, and nothing that anybody could keep a secret with.
type dice struct{ state uint64 }

func newDice(name string, seed uint64) *dice {
	h := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(name), seed))
	return &dice{binary.LittleEndian.Uint64(h[:])}
}

// IntN is at least 0 and less than n, which is at least 1.
func (d *dice) IntN(n int) int {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n)) //nolint:gosec // less than n, which is an int
}

// mix puts the elements of list into another order.
func mix[T any](d *dice, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := d.IntN(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
