package state_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

var benchStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// benchCall needs three limits: one that all share, one of an agent, one of a tool.
func benchCall(caller int, n int64) state.Admission {
	b := func(key string) state.Charge {
		return state.Charge{Name: key, Key: key, Burst: 1 << 40, Cost: 1, Per: time.Hour}
	}
	return state.Admission{
		Call: fmt.Sprint("C", n), Now: benchStart.Add(time.Duration(n)), Principal: "p", Session: fmt.Sprint("s", caller),
		Charges: []state.Charge{b("tenant"), b(fmt.Sprint("agent", caller)), b(fmt.Sprint("tool", n%50))},
	}
}

func BenchmarkAdmit(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			l := state.NewLocal()
			b.ReportAllocs()
			share(b, callers, func(caller int, n int64) {
				a := benchCall(caller, n)
				if ans, err := l.Admit(b.Context(), a); err != nil || !ans.Admitted {
					b.Errorf("Admit = %+v, %v", ans, err)
				}
				l.Settle(a.Call, 0)
			})
		})
	}
}

// share splits b.N operations between callers.
func share(b *testing.B, callers int, op func(caller int, n int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				op(caller, n)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
}

// BenchmarkAsk asks about a call that is asked about already, while others are
// open: the cost must not depend on how many.
func BenchmarkAsk(b *testing.B) {
	for _, open := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint("open=", open), func(b *testing.B) {
			l := state.NewLocal()
			ask := func(n int64, what string) {
				a := benchCall(0, n)
				a.Asks = []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}
				a.Bind = func(day time.Time) (state.Binding, error) {
					b := day.Format(time.DateOnly) + what
					return state.Binding{Exact: b, About: b}, nil
				}
				if ans, err := l.Admit(b.Context(), a); err != nil || ans.Approval == nil {
					b.Fatalf("Admit = %+v, %v", ans, err)
				}
			}
			n := int64(0)
			for range open {
				n++
				ask(n, fmt.Sprint(n))
			}
			b.ResetTimer()
			for b.Loop() {
				n++
				ask(n, "1")
			}
		})
	}
}
