//go:build !race

package meter_test

const raceEnabled = false
