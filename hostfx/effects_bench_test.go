package hostfx_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// route is one of several ways to do the same.
type route struct {
	unit string // of its ratio to the first
	do   func()
}

// compareRoutes does all in turn, and reports the medians as ratios to the first's.
func compareRoutes(b *testing.B, all ...route) {
	took := make([][]float64, len(all))
	for b.Loop() {
		for i, r := range all {
			start := time.Now()
			r.do()
			took[i] = append(took[i], float64(time.Since(start).Nanoseconds()))
		}
	}
	median := func(i int) float64 { slices.Sort(took[i]); return took[i][len(took[i])/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(0), all[0].unit)
	for i := 1; i < len(all); i++ {
		b.ReportMetric(median(i)/median(0), all[i].unit)
	}
}

// BenchmarkHTTP gets 4 KiB over TLS from a server in this process: with bare net/http,
// which checks and records nothing, on a new connection for each request as hostfx has
// it; with hostfx; and with bare net/http on a connection that is kept, which is what
// the rule of one connection for each request costs.
func BenchmarkHTTP(b *testing.B) {
	body := make([]byte, 4096)
	w := newWeb(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	w.secrets()
	caps := only(func(h *call.HTTP) { h.Methods = []string{"GET"} })
	caps.HTTP = append(caps.HTTP, entry(carrying("token", "bearer")))
	caps.Bounds = call.Bounds{TimeoutMS: 3_600_000, HTTPBytes: 1 << 50}
	fx := w.open(b, caps)
	authorities := x509.NewCertPool()
	authorities.AddCert(w.ca.cert)
	bare := func(kept bool) func() {
		one := new(http.Protocols)
		one.SetHTTP1(true)
		t := &http.Transport{
			Protocols: one, DisableKeepAlives: !kept, DisableCompression: true,
			TLSClientConfig: &tls.Config{ServerName: api, RootCAs: authorities},
		}
		b.Cleanup(t.CloseIdleConnections)
		url := "https://" + w.at.String() + "/v1/x"
		return func() {
			q, err := http.NewRequestWithContext(b.Context(), "GET", url, nil)
			must(b, err)
			a, err := t.RoundTrip(q)
			must(b, err)
			defer a.Body.Close()
			got, err := io.ReadAll(a.Body)
			must(b, err)
			if len(got) != len(body) {
				b.Fatalf("%d bytes", len(got))
			}
		}
	}
	gets := func(r hostfx.Request) func() {
		return func() {
			a, err := fx.HTTP(b.Context(), r)
			must(b, err)
			if len(a.Body) != len(body) {
				b.Fatalf("%d bytes", len(a.Body))
			}
		}
	}
	b.Run("get-4K", func(b *testing.B) {
		compareRoutes(b, route{"ns/net-http", bare(false)}, route{"hostfx/net-http", gets(get(v1))}, route{"kept/net-http", bare(true)})
	})
	b.Run("get-4K-with-a-secret", func(b *testing.B) {
		compareRoutes(b, route{"ns/net-http", bare(false)}, route{"hostfx/net-http", gets(named("token"))})
	})
	// What is refused costs no connection: here is the check alone.
	refused := hostfx.Request{Method: "DELETE", URL: v1}
	dial := func() {
		conn, err := net.Dial("tcp", w.at.String())
		must(b, err)
		conn.Close()
	}
	b.Run("refused", func(b *testing.B) {
		compareRoutes(b, route{"ns/dial", dial}, route{"refused/dial", func() {
			if a, err := fx.HTTP(b.Context(), refused); err == nil {
				b.Fatalf("it was answered: %v", a)
			}
		}})
	})
}

// BenchmarkOpenRead opens, reads and closes a file of 4 KiB by the name that tools have
// for it, and with package os.
func BenchmarkOpenRead(b *testing.B) {
	dir := tree(b)
	at := filepath.Join(dir, "docs/reports/f")
	must(b, os.WriteFile(at, make([]byte, 4096), 0o600))
	fx, err := host(b, dir).Open(b.Context(), mint(b, call.Caps{
		FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}, Bounds: call.Bounds{TimeoutMS: 3_600_000},
	}))
	must(b, err)
	defer fx.Close()
	buf := make([]byte, 4096)
	read := func(f io.ReadCloser, err error) {
		must(b, err)
		_, err = io.ReadFull(f, buf)
		must(b, err)
		must(b, f.Close())
	}
	compareRoutes(b, route{"ns/os", func() { read(os.Open(at)) }}, route{"hostfx/os", func() { read(fx.OpenRead(within + "/f")) }})
}
