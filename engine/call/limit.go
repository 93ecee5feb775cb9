package call

import (
	"math"
	"slices"
	"time"
)

// Limit takes units from a budget when a call is admitted. Its identity is (layer,
// name, key).
//
// With a duration for Per it is a bucket of Burst units that refills within Per. With
// "day" or "month" it counts Burst units in each day or month of UTC, and so does a
// limit with a Charge, whose durations are windows since the Unix epoch: nothing comes
// back before the next one begins.
//
// A Charge names what is known only after the run. The most that it can be is taken
// when the call is admitted, and what the run did not use is given back. Of
// output_bytes, http_bytes, fuel and time_ms the engine knows both: the most is the
// bound of what is granted (see [Bounds.Ceiling]), and Cost is absent. Of any other
// name, the most is Cost, which must be there, and the tool says what it used.
type Limit struct {
	Layer  string `json:"-"` // set by the engine's side, never by a policy
	Name   string `json:"name"`
	Key    string `json:"key"`
	Burst  int64  `json:"burst"`           // units, at least 1
	Per    string `json:"per"`             // "day", "month", or a duration as in time.ParseDuration: "1m"
	Cost   int64  `json:"cost,omitzero"`   // units, at least 1; absent means 1
	Charge string `json:"charge,omitzero"` // "" charges Cost and no more
}

// The spans of a calendar, which is that of UTC.
const (
	perDay   = "day"
	perMonth = "month"
)

// What a duration may be.
const (
	minWindow = time.Minute // each window has keys of its own
	maxPer    = 366 * 24 * time.Hour
)

// The charges of which the engine knows how much a run used.
const (
	ChargeOutput = "output_bytes" // that the caller got
	ChargeHTTP   = "http_bytes"   // of the bodies of requests and answers
	ChargeFuel   = "fuel"
	ChargeTime   = "time_ms"
)

// Measured reports whether the engine measures the charge itself.
func Measured(charge string) bool {
	return slices.Contains([]string{ChargeOutput, ChargeHTTP, ChargeFuel, ChargeTime}, charge)
}

// Unmeasured reports whether the limit charges what another of the [Bounds] bounds, of
// which nobody knows how much a run used. Tools may not report that either.
func Unmeasured(charge string) bool {
	for _, b := range new(Bounds).all() {
		if b.name == charge {
			return !Measured(charge)
		}
	}
	return false
}

// Flaw is the JSON name of the first member that is malformed, or "". A Name and a Key
// are taken as they are.
func (l Limit) Flaw() string {
	switch {
	case l.Burst < 1 || l.Burst > maxBound:
		return "burst"
	case l.Charge != "" && !isCharge(l.Charge):
		return "charge"
	case l.Cost < 0 || l.Cost > maxBound || Measured(l.Charge) && l.Cost != 0 || l.Charge != "" && !Measured(l.Charge) && l.Cost == 0:
		return "cost"
	case l.Per == perDay || l.Per == perMonth:
		return ""
	}
	d, err := time.ParseDuration(l.Per)
	if err != nil || d <= 0 || d > maxPer || l.Charge != "" && d < minWindow {
		return "per"
	}
	return ""
}

// isCharge takes the names that policies write.
func isCharge(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '.' || c == ':' || c == '-') {
			continue
		}
		return false
	}
	return s != "" && len(s) <= 64
}

// Counted reports whether the limit counts within windows rather than refills.
func (l Limit) Counted() bool { return l.Charge != "" || l.Per == perDay || l.Per == perMonth }

// Window is the one of a counted limit that now is in: from begin on, and before end.
// The limit MUST have no [Limit.Flaw].
func (l Limit) Window(now time.Time) (begin, end time.Time) {
	now = now.UTC()
	switch l.Per {
	case perDay:
		begin = time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
		return begin, begin.AddDate(0, 0, 1)
	case perMonth:
		begin = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		return begin, begin.AddDate(0, 1, 0)
	}
	d, _ := time.ParseDuration(l.Per)
	at := now.UnixNano()
	into := at % int64(max(d, 1))
	if into < 0 {
		into += int64(d)
	}
	begin = now.Add(-time.Duration(into))
	return begin, begin.Add(d)
}

// Ceiling is the most of a measured charge that a run within the bounds can use: what
// the bounds say, or what holds when they say nothing. known is false for fuel that
// nothing bounds, and for what is not measured.
func (b Bounds) Ceiling(charge string) (units int64, known bool) {
	switch charge {
	case ChargeOutput:
		return b.Output(), true
	case ChargeHTTP:
		return twice(b.HTTP()), true // as much may be sent as received
	case ChargeTime:
		return b.Timeout().Milliseconds(), true
	case ChargeFuel:
		return b.Fuel, b.Fuel > 0
	}
	return 0, false
}

// twice stops at the largest integer.
func twice(n int64) int64 { return n + min(n, math.MaxInt64-n) }

// Charged is what one run used of a limit with a [Limit.Charge].
type Charged struct {
	Limit    string `json:"limit"` // as [InLayer] says
	Charge   string `json:"charge"`
	Reserved int64  `json:"reserved"`         // units, taken when the call was admitted
	Used     int64  `json:"used"`             // units; of what is beyond Reserved the limit knows nothing
	Unknown  bool   `json:"unknown,omitzero"` // nobody knows what it used, so all that was reserved counts
}
