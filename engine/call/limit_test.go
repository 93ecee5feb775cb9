package call

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimitFlaws(t *testing.T) {
	for _, tt := range []struct {
		name string
		give Limit
		want string
	}{
		{"refills", Limit{Burst: 1, Per: "1m"}, ""},
		{"a day", Limit{Burst: 1, Per: "day", Cost: 7}, ""},
		{"a month of output", Limit{Burst: 1, Per: "month", Charge: "output_bytes"}, ""},
		{"windows of a minute", Limit{Burst: 1, Per: "1m", Charge: "fuel"}, ""},
		{"a tool's charge", Limit{Burst: maxBound, Per: "day", Charge: "eur.cents-2:x_y", Cost: maxBound}, ""},
		{"no burst", Limit{Per: "1m"}, "burst"},
		{"a negative burst", Limit{Burst: -1, Per: "1m"}, "burst"},
		{"a large burst", Limit{Burst: maxBound + 1, Per: "1m"}, "burst"},
		{"a negative cost", Limit{Burst: 1, Cost: -1, Per: "1m"}, "cost"},
		{"a large cost", Limit{Burst: 1, Cost: maxBound + 1, Per: "1m"}, "cost"},
		{"a cost of what is measured", Limit{Burst: 1, Cost: 1, Per: "day", Charge: "time_ms"}, "cost"},
		{"no cost of what a tool says", Limit{Burst: 1, Per: "day", Charge: "tokens"}, "cost"},
		{"text for a charge", Limit{Burst: 1, Cost: 1, Per: "day", Charge: "a b"}, "charge"},
		{"a charge that begins with a digit", Limit{Burst: 1, Cost: 1, Per: "day", Charge: "1a"}, "charge"},
		{"a long charge", Limit{Burst: 1, Cost: 1, Per: "day", Charge: strings.Repeat("a", 65)}, "charge"},
		{"no time", Limit{Burst: 1}, "per"},
		{"a week", Limit{Burst: 1, Per: "week"}, "per"},
		{"a Day", Limit{Burst: 1, Per: "Day"}, "per"},
		{"a negative time", Limit{Burst: 1, Per: "-1m"}, "per"},
		{"a year and more", Limit{Burst: 1, Per: "8785h"}, "per"},
		{"windows of a second", Limit{Burst: 1, Per: "59s", Charge: "fuel"}, "per"},
	} {
		if got := tt.give.Flaw(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestLimitWindows(t *testing.T) {
	day, month, hour := Limit{Per: "day"}, Limit{Per: "month"}, Limit{Per: "1h", Charge: "fuel"}
	week := Limit{Per: "168h", Charge: "fuel"} // the epoch was a Thursday
	zone := time.FixedZone("", -7*3600)
	for _, tt := range []struct {
		name             string
		of               Limit
		now, begin, ends string
	}{
		{"a day", day, "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"its first moment", day, "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"its last moment", day, "2026-03-01T23:59:59.999999999Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"elsewhere it is yesterday", day, "2026-03-02T01:00:00+03:00", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"a leap day", day, "2028-02-28T23:59:59Z", "2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"a month", month, "2026-01-31T23:59:59.999999999Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"a short month", month, "2026-02-28T23:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"a leap month", month, "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a century without a leap day", month, "2100-02-28T23:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		{"the last month", month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"an hour", hour, "2026-03-01T12:59:59.999999999Z", "2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"},
		{"a week", week, "2026-03-01T12:00:00Z", "2026-02-26T00:00:00Z", "2026-03-05T00:00:00Z"},
		{"before the epoch", hour, "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339Nano, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range []time.Time{now, now.In(zone)} {
			begin, end := tt.of.Window(now)
			if b, e := begin.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano); b != tt.begin || e != tt.ends {
				t.Errorf("%s: at %s it is from %s to %s", tt.name, now, b, e)
			}
		}
	}
}

// Windows of one limit have no gap, do not overlap, and hold their moments.
func TestLimitWindowsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Charge: "fuel", Per: rapid.SampledFrom([]string{"day", "month", "1m", "7m", "1h30m", "8784h", "60000000001ns"}).Draw(t, "per")}
		now := time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "now"))
		begin, end := l.Window(now)
		if now.Before(begin) || !now.Before(end) {
			t.Fatalf("%s is not from %s to %s", now, begin, end)
		}
		for _, at := range []time.Time{begin, end.Add(-1)} {
			if b, e := l.Window(at); !b.Equal(begin) || !e.Equal(end) {
				t.Fatalf("at %s the window is another one", at)
			}
		}
		if next, _ := l.Window(end); !next.Equal(end) {
			t.Fatalf("the next one begins at %s, not at %s", next, end)
		}
		if _, before := l.Window(begin.Add(-1)); !before.Equal(begin) {
			t.Fatalf("the one before ends at %s, not at %s", before, begin)
		}
	})
}

func TestCeilings(t *testing.T) {
	all := Bounds{Fuel: 5, TimeoutMS: 6, OutputBytes: 7, HTTPBytes: 8}
	huge := Bounds{HTTPBytes: math.MaxInt64}
	for _, tt := range []struct {
		charge string
		of     Bounds
		want   int64
		known  bool
	}{
		{"fuel", all, 5, true}, {"time_ms", all, 6, true}, {"output_bytes", all, 7, true}, {"http_bytes", all, 16, true},
		{"time_ms", Bounds{}, 30_000, true}, {"output_bytes", Bounds{}, 1 << 20, true}, {"http_bytes", Bounds{}, 4_000_000, true},
		{"http_bytes", huge, math.MaxInt64, true}, {"fuel", Bounds{}, 0, false}, {"tokens", all, 0, false}, {"", all, 0, false},
	} {
		if n, known := tt.of.Ceiling(tt.charge); n != tt.want || known != tt.known {
			t.Errorf("%q of %+v: %d, %v", tt.charge, tt.of, n, known)
		}
		if Measured(tt.charge) == Unmeasured(tt.charge) && Measured(tt.charge) {
			t.Errorf("%q is measured and is not", tt.charge)
		}
	}
	for _, name := range []string{"write_bytes", "memory_bytes", "open_files", "log_bytes", "calls"} {
		if !Unmeasured(name) {
			t.Errorf("tools may report %s", name)
		}
	}
}
