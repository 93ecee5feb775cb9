//go:build race

package meter_test

// Under the race detector wazero compiles ten times slower, and nothing here is
// concurrent: what compiles much is thinned out.
const raceEnabled = true
