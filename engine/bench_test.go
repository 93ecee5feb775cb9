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
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// BenchmarkAdmit measures admissions a second: in memory alone, with the durable
// record that each needs, and with that and the state on a server that syncs each of
// its answers too, as ratios to one fsync a call in the same run.
func BenchmarkAdmit(b *testing.B) {
	local := func(*testing.B) state.Store { return state.NewLocal() }
	unrecorded := func(*testing.B) func([]byte) error { return func([]byte) error { return nil } }
	for _, callers := range []int{1, 16, 256} {
		for _, backend := range []struct {
			name   string
			store  func(*testing.B) state.Store
			record func(*testing.B) func([]byte) error
		}{
			{"memory", local, unrecorded},
			{"local", local, appendTo},
			{"redis", shared, appendTo},
		} {
			b.Run(fmt.Sprintf("%s/callers=%d", backend.name, callers), func(b *testing.B) {
				baseline := admitRate(b, callers, state.NewLocal(), oneByOne(b))
				rate := admitRate(b, callers, backend.store(b), backend.record(b))
				b.ReportMetric(rate/baseline, "x-one-fsync-a-call")
				b.ReportMetric(0, "ns/op") // the rates are what counts
			})
		}
	}
}

// shared is a state on a server of its own.
func shared(b *testing.B) state.Store {
	server := redistest.Start(b)
	s, err := redis.Open(b.Context(), redis.Options{Address: server.Address, Prefix: "bench", Node: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() }) // the server may be gone
	if _, err := s.Begin(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Recover(b.Context(), state.Recovery{}); err != nil {
		b.Fatal(err)
	}
	return s
}

// admitRate is how many calls a second are admitted and recorded.
func admitRate(b *testing.B, callers int, l state.Store, record func([]byte) error) float64 {
	const window = 300 * time.Millisecond
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
				l.Settle(id, 0)
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
