package audit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
)

// BenchmarkAppend reports how many records share a sync, and how many times as
// many records a second that makes as with one write, one checkpoint and one
// sync for each record, measured in the same run.
func BenchmarkAppend(b *testing.B) {
	digest := "hmac-sha256:" + strings.Repeat("0123456789abcdef", 4)
	rec, err := call.Record{
		Type: call.TypeDecision, Time: time.Now().UTC(), Node: "n1", Call: "01JABCDEFGHJKMNPQRSTVWXYZ0",
		Principal: &call.RecordPrincipal{ID: "agent:research-7", Kind: "agent", Roles: []string{"analyst"}, Auth: call.Auth{Method: "jwt", Issuer: "https://issuer.example"}},
		Tool:      &call.RecordTool{Name: "http.get", Kind: "wasm", Digest: digest}, Args: digest, Verdict: call.Allow,
		Policy: []call.Revision{{Name: "starter", Digest: digest}},
	}.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			single := measure(b, callers, Options{maxBatch: 1}, rec, func(n int64) bool { return n < 1000 })
			left := int64(b.N)
			b.ResetTimer()
			grouped := measure(b, callers, Options{}, rec, func(n int64) bool { return n < left })
			b.StopTimer()
			b.ReportMetric(grouped.perSync, "rec/fsync")
			b.ReportMetric(grouped.perSecond, "rec/s")
			b.ReportMetric(grouped.perSecond/single.perSecond, "x-one-by-one")
		})
	}
}

type rate struct{ perSecond, perSync float64 }

// counted counts syncs.
type counted struct {
	File
	syncs *atomic.Int64
}

func (c counted) Sync() error { c.syncs.Add(1); return c.File.Sync() }

func measure(b *testing.B, callers int, o Options, rec []byte, more func(n int64) bool) rate {
	var syncs, next atomic.Int64
	o.Wrap = func(f File) File { return counted{f, &syncs} }
	l := open(b, filepath.Join(b.TempDir(), fmt.Sprint(time.Now().UnixNano())), o)
	start := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for more(next.Add(1) - 1) {
				if _, err := l.Append(context.Background(), rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	n := float64(l.durable.n)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return rate{n / took, n / float64(syncs.Load())}
}
