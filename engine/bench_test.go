package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// BenchmarkAdmit measures admissions a second: in memory alone, and with the
// durable record that each needs, as ratios to one fsync a call in the same run.
func BenchmarkAdmit(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		for _, durable := range []bool{false, true} {
			b.Run(fmt.Sprintf("durable=%v/callers=%d", durable, callers), func(b *testing.B) {
				baseline := admitRate(b, callers, oneByOne(b))
				log := func([]byte) error { return nil }
				if durable {
					log = appendTo(b)
				}
				rate := admitRate(b, callers, log)
				b.ReportMetric(rate/baseline, "x-one-fsync-a-call")
				b.ReportMetric(0, "ns/op") // the rates are what counts
			})
		}
	}
}

// admitRate is how many calls a second are admitted and recorded.
func admitRate(b *testing.B, callers int, record func([]byte) error) float64 {
	const window = 300 * time.Millisecond
	l := state.NewLocal()
	done := make([]int, callers)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					done[i] = n
					return
				default:
				}
				id := fmt.Sprintf("C%d-%d", i, n)
				ans, err := l.Admit(context.Background(), state.Admission{
					Call: id, Now: time.Now(), Principal: "p", Session: "s",
					Charges: []state.Charge{{Name: "l", Key: "k", Burst: 1 << 40, Cost: 1, Per: time.Hour}},
				})
				if err != nil || !ans.Admitted {
					b.Errorf("Admit = %+v, %v", ans, err)
					return
				}
				line, err := call.Record{Type: call.TypeDecision, Time: time.Now().UTC(), Call: id, Verdict: call.Allow, Change: &ans.Change}.Encode()
				if err == nil {
					err = record(line)
				}
				if err != nil {
					b.Error(err)
					return
				}
				l.Settle(id)
			}
		})
	}
	start := time.Now()
	time.Sleep(window)
	close(stop)
	wg.Wait()
	took := time.Since(start)
	total := 0
	for _, n := range done {
		total += n
	}
	return float64(total) / took.Seconds()
}

func appendTo(b *testing.B) func([]byte) error {
	log, err := audit.Open(b.TempDir(), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	return func(line []byte) error { _, err := log.Append(context.Background(), line); return err }
}

// oneByOne is the same log without group commit: a write and a sync for each call.
func oneByOne(b *testing.B) func([]byte) error {
	var mu sync.Mutex
	log := appendTo(b)
	return func(line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return log(line)
	}
}
