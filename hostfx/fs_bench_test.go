package hostfx_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// BenchmarkFiles does the same with package os, with a bare os.Root, and with both
// resolvers, in turn and in one process. It reports the medians as ratios to package
// os's, which neither checks nor records anything.
func BenchmarkFiles(b *testing.B) {
	dir := tree(b)
	at := filepath.Join(dir, "docs/reports")
	must(b, os.MkdirAll(filepath.Join(at, "1/2/3/4"), 0o755))
	must(b, os.Mkdir(filepath.Join(at, "many"), 0o755))
	for _, name := range []string{"f", "1/2/3/4/f"} {
		must(b, os.WriteFile(filepath.Join(at, name), make([]byte, 4096), 0o600))
	}
	crowd(b, filepath.Join(at, "many"), 10_000, 20)

	root, err := os.OpenRoot(at)
	must(b, err)
	defer root.Close()
	folders := [2]*hostfx.Folder{}
	for i := range folders {
		portable = i == 1
		fx, err := host(b, dir).Open(b.Context(), mint(b, call.Caps{
			FS:     []call.FS{{Root: "docs", Path: "reports", Modes: all}},
			Bounds: call.Bounds{TimeoutMS: 3_600_000, WriteBytes: 1 << 50},
		}))
		must(b, err)
		defer fx.Close()
		hostfx.SetEntries(fx, 1<<50)
		folders[i] = fx.Dirs()[0].Folder()
	}
	portable = false

	buf := make([]byte, 4096)
	type file interface {
		ReadAt([]byte, int64) (int, error)
		WriteAt([]byte, int64) (int, error)
		Close() error
	}
	type ways struct {
		open   func(name string) file
		create func(name string) file
		stat   func(name string) error
		remove func(name string) error
		list   func(name string) int
	}
	did := func(f *os.File, err error) file { must(b, err); return f }
	all := []ways{{
		open:   func(name string) file { return did(os.Open(at + "/" + name)) },
		create: func(name string) file { return did(os.Create(at + "/" + name)) },
		stat:   func(name string) error { _, err := os.Stat(at + "/" + name); return err },
		remove: func(name string) error { return os.Remove(at + "/" + name) },
		list: func(name string) int {
			f, err := os.Open(at + "/" + name)
			must(b, err)
			defer f.Close()
			entries, err := f.ReadDir(-1)
			must(b, err)
			return len(entries)
		},
	}, {
		open:   func(name string) file { return did(root.Open(name)) },
		create: func(name string) file { return did(root.Create(name)) },
		stat:   func(name string) error { _, err := root.Stat(name); return err },
		remove: root.Remove,
		list: func(name string) int {
			f, err := root.Open(name)
			must(b, err)
			defer f.Close()
			entries, err := f.ReadDir(-1)
			must(b, err)
			return len(entries)
		},
	}}
	for _, f := range folders {
		open := func(name string, o hostfx.OpenOptions) file {
			h, err := f.Open(name, o)
			must(b, err)
			return h.(*hostfx.File)
		}
		all = append(all, ways{
			open: func(name string) file { return open(name, hostfx.OpenOptions{}) },
			create: func(name string) file {
				return open(name, hostfx.OpenOptions{Write: true, Create: true, Truncate: true})
			},
			stat:   func(name string) error { _, err := f.StatAt(name); return err },
			remove: f.Remove,
			list: func(name string) int {
				h, err := f.Open(name, hostfx.OpenOptions{})
				must(b, err)
				defer h.Close()
				entries, err := h.(*hostfx.Folder).EntriesAt(0, 20_000)
				must(b, err)
				return len(entries)
			},
		})
	}
	for _, c := range []struct {
		name string
		many int // in one round
		do   func(w ways)
	}{
		{"open", 50, func(w ways) { must(b, w.open("f").Close()) }},
		{"open-5-deep", 50, func(w ways) { must(b, w.open("1/2/3/4/f").Close()) }},
		{"open-read-4K", 50, func(w ways) {
			f := w.open("f")
			_, err := f.ReadAt(buf, 0)
			must(b, err)
			must(b, f.Close())
		}},
		{"stat", 50, func(w ways) { must(b, w.stat("f")) }},
		{"stat-5-deep", 50, func(w ways) { must(b, w.stat("1/2/3/4/f")) }},
		{"create-write-4K-remove", 20, func(w ways) {
			f := w.create("tmp")
			_, err := f.WriteAt(buf, 0)
			must(b, err)
			must(b, f.Close())
			must(b, w.remove("tmp"))
		}},
		{"list-10000", 1, func(w ways) {
			if n := w.list("many"); n != 10_000 {
				b.Fatalf("%d entries", n)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			took := make([][]float64, len(all))
			for b.Loop() {
				for i, w := range all {
					start := time.Now()
					for range c.many {
						c.do(w)
					}
					took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/float64(c.many))
				}
			}
			median := func(i int) float64 { slices.Sort(took[i]); return took[i][len(took[i])/2] }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(0), "ns/os")
			b.ReportMetric(median(1)/median(0), "os.Root/os")
			b.ReportMetric(median(2)/median(0), "hostfx/os")
			b.ReportMetric(median(3)/median(0), "portable/os")
		})
	}
	f := all[2].open("f")
	defer f.Close()
	plain := all[0].open("f")
	defer plain.Close()
	b.Run("pread-4K", func(b *testing.B) {
		var took [2][]float64
		for b.Loop() {
			for i, f := range []file{plain, f} {
				start := time.Now()
				for range 100 {
					_, _ = f.ReadAt(buf, 0)
				}
				took[i] = append(took[i], float64(time.Since(start).Nanoseconds()))
			}
		}
		slices.Sort(took[0])
		slices.Sort(took[1])
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took[1][len(took[1])/2]/took[0][len(took[0])/2], "hostfx/os")
	})
}
