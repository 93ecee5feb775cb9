package hostfx_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// happened is what the effects are without how long they took, where they went and
// what held them, of which TestEvidence is.
func happened(t testing.TB, effects []call.Effect) []call.Effect {
	t.Helper()
	var out []call.Effect
	for _, e := range effects {
		if (e.Enforcement == "") != (e.Code == "more") || e.TookUS < 0 {
			t.Errorf("%+v has no evidence", e)
		}
		e.TookUS, e.Address = 0, ""
		if e.Enforcement == hostfx.Structural {
			e.Enforcement = ""
		}
		out = append(out, e)
	}
	return out
}

// slow is a clock that goes on by step each time somebody looks at it.
type slow struct {
	mu   sync.Mutex
	at   time.Time
	step time.Duration
}

func (c *slow) now() time.Time { return c.add(c.step) }

func (c *slow) add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// Each effect says what was done to what, how much of it, for how long and where.
func TestEvidence(t *testing.T) {
	const ms = time.Millisecond
	clock := &slow{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		clock.add(7 * ms)
		hello(rw, r)
	})
	dir := tree(t)
	w.opts.Now, w.opts.Roots = clock.now, []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}
	var file *hostfx.File
	opened := func(f *hostfx.File, err error) error { file = f; clock.add(3 * ms); return err }
	fs := func(kind, name string, took time.Duration) call.Effect {
		return call.Effect{Kind: "fs." + kind, Within: within, Target: within + name, Code: "ok", TookUS: took.Microseconds(), Enforcement: "structural"}
	}
	web := call.Effect{Kind: "http.post", Within: api + ":443", Target: v1, Address: w.at.String(), Code: "ok", BytesIn: 5, BytesOut: 2, TookUS: 7000, Enforcement: "structural"}
	tests := []struct {
		name string
		step time.Duration
		do   func(*testing.T, *hostfx.Effects) error
		want []call.Effect
	}{
		{"read", 0, func(t *testing.T, fx *hostfx.Effects) error {
			must(t, opened(fx.OpenRead(within+"/a.txt")))
			_, err := io.ReadFull(file, make([]byte, 4))
			must(t, errors.Join(err, file.Close()))
			clock.add(ms) // it is closed
			file.Close()
			return nil
		}, []call.Effect{in(fs("read", "/a.txt", 3*ms), 4)}},
		{"written, and open to the end", 0, func(t *testing.T, fx *hostfx.Effects) error {
			must(t, opened(fx.OpenWrite(within+"/new")))
			_, err := file.Write([]byte("gamma"))
			return err
		}, []call.Effect{out(fs("write", "/new", 3*ms), 5)}},
		{"appended", 0, func(t *testing.T, fx *hostfx.Effects) error {
			must(t, opened(fx.OpenAppend(within+"/new")))
			_, err := file.Write([]byte("delta"))
			return errors.Join(err, file.Close())
		}, []call.Effect{out(fs("append", "/new", 3*ms), 5)}},
		{"listed", ms, func(t *testing.T, fx *hostfx.Effects) error {
			_, err := fx.List(within + "/sub")
			return err
		}, []call.Effect{fs("list", "/sub", ms)}},
		{"made", ms, func(t *testing.T, fx *hostfx.Effects) error { return fx.Mkdir(within + "/dir") }, []call.Effect{fs("write", "/dir", ms)}},
		{"moved", ms, func(t *testing.T, fx *hostfx.Effects) error { return fx.Rename(within+"/dir", within+"/to") }, []call.Effect{fs("remove", "/dir", ms), fs("write", "/to", ms)}},
		{"removed", ms, func(t *testing.T, fx *hostfx.Effects) error { return fx.Remove(within + "/to") }, []call.Effect{fs("remove", "/to", ms)}},
		{"not there", ms, func(t *testing.T, fx *hostfx.Effects) error {
			if err := fx.Remove(within + "/none"); err == nil {
				t.Error("removed what is not there")
			}
			if _, err := fx.ReadFile(within + "/none"); err == nil {
				t.Error("read what is not there")
			}
			return nil
		}, []call.Effect{coded(fs("remove", "/none", ms), "not_found"), coded(fs("read", "/none", ms), "not_found")}},
		{"requested", 0, func(t *testing.T, fx *hostfx.Effects) error {
			_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1, Body: []byte("ab")})
			return err
		}, []call.Effect{web}},
		{"refused", 0, func(t *testing.T, fx *hostfx.Effects) error {
			_, err := fx.HTTP(t.Context(), get("https://api.example.com/v2"))
			_, err2 := fx.ReadFile("/docs/secret.txt")
			_, err3 := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"})
			for _, err := range []error{err, err2, err3} {
				if !errors.Is(err, hostfx.ErrNotGranted) {
					t.Errorf("refused with %v", err)
				}
			}
			return nil
		}, []call.Effect{
			{Kind: "http.get", Target: "https://api.example.com/v2", Code: "refused", Enforcement: "structural"},
			{Kind: "fs.read", Target: "/docs/secret.txt", Code: "refused", Enforcement: "structural"},
			{Kind: "exec", Target: "/bin/true", Code: "refused", Enforcement: "structural"},
		}},
		{"logged", ms, func(t *testing.T, fx *hostfx.Effects) error { return fx.Log("a line") },
			[]call.Effect{{Kind: "log", Within: "log", Code: "ok", BytesOut: 7, Count: 1, Enforcement: "structural"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			caps := only()
			caps.Log, caps.FS = true, []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "append", "write", "list", "remove"}}}
			fx := w.open(t, caps)
			clock.step = tt.step
			defer func() { clock.step = 0 }()
			must(t, tt.do(t, fx))
			if d := cmp.Diff(tt.want, fx.Close()); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		fx := w.open(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}})
		clock.step = ms
		defer func() { clock.step = 0 }()
		for range 502 {
			_, err := fx.ReadFile(within + "/sub/b.txt")
			must(t, err)
		}
		got := fx.Close()
		if d := cmp.Diff(call.Effect{Code: "more", BytesIn: 8, TookUS: 2000, Count: 2}, got[len(got)-1]); d != "" {
			t.Errorf("the rest (-want +got):\n%s", d)
		}
	})
	t.Run("many others", func(t *testing.T) { // hide no request
		caps := only()
		caps.FS = []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}
		fx := w.open(t, caps)
		for range 500 {
			_, err := fx.ReadFile(within + "/a.txt")
			must(t, err)
		}
		for range 4 {
			_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1, Body: []byte("ab")})
			must(t, err)
		}
		if d := cmp.Diff([]call.Effect{web, web, web, {Code: "more", BytesIn: 5, BytesOut: 2, TookUS: 7000, Count: 1}}, fx.Close()[500:]); d != "" {
			t.Errorf("effects (-want +got):\n%s", d)
		}
	})
	t.Run("back from a link", func(t *testing.T) { // does not lead to where the link is
		must(t, os.Mkdir(filepath.Join(dir, "docs/reports/sub/deep"), 0o755))
		must(t, os.Symlink("sub/deep", filepath.Join(dir, "docs/reports/ldeep")))
		fx := w.open(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}})
		h, err := fx.Dirs()[0].Folder().Open("./ldeep//../b.txt", hostfx.OpenOptions{})
		must(t, err)
		b, err := io.ReadAll(h.(*hostfx.File))
		if d := cmp.Diff([]call.Effect{in(fs("read", "/ldeep/../b.txt", 0), 4)}, fx.Close()); d != "" || err != nil || string(b) != "beta" {
			t.Errorf("read %q, %v, effects (-want +got):\n%s", b, err, d)
		}

		// Nor out of the granted directory.
		fx = w.open(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "list"}}}})
		h, err = fx.Dirs()[0].Folder().Open("ldeep/../..", hostfx.OpenOptions{})
		must(t, err)
		text, err := h.(*hostfx.Folder).Readlink("in")
		_, err2 := h.(*hostfx.Folder).Next(1)
		if d := cmp.Diff([]call.Effect{fs("list", "/ldeep/../..", 0)}, fx.Close()); d != "" || err != nil || err2 != nil || text != "sub/b.txt" {
			t.Errorf("the link says %q, %v, %v, effects (-want +got):\n%s", text, err, err2, d)
		}
	})
	t.Run("a clock that is set back", func(t *testing.T) {
		fx := w.open(t, call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read"}}}})
		must(t, opened(fx.OpenRead(within+"/a.txt")))
		clock.add(-time.Hour)
		if d := cmp.Diff([]call.Effect{fs("read", "/a.txt", 0)}, fx.Close()); d != "" {
			t.Errorf("effects (-want +got):\n%s", d)
		}
	})
}

func in(e call.Effect, bytes int64) call.Effect { e.BytesIn = bytes; return e }

func out(e call.Effect, bytes int64) call.Effect { e.BytesOut = bytes; return e }

func coded(e call.Effect, code string) call.Effect { e.Code = code; return e }

// A tool that is refused chooses what it is refused, and no more of that is kept than of
// what can be granted.
func TestTargetsAreBounded(t *testing.T) {
	fx := open(t, tree(t), "read")
	long := "/" + strings.Repeat("\u00fc", 1<<20)
	try := []error{}
	_, err := fx.Run(t.Context(), hostfx.Command{Path: long})
	try = append(try, err)
	_, err = fx.Start(t.Context(), hostfx.Command{Path: long})
	try = append(try, err)
	_, err = fx.Output(long)
	try = append(try, err, fx.Kill(long), fx.AdvanceTask(t.Context(), long, "done"))
	for i, err := range try {
		if !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%d was refused with %v", i, err)
		}
	}
	var got []call.Effect
	for _, e := range happened(t, fx.Close()) {
		got = append(got, call.Effect{Kind: e.Kind, Target: e.Target, Code: e.Code})
	}
	want := []call.Effect{
		{Kind: "exec", Target: long[:8191], Code: "refused"}, {Kind: "exec.start", Target: long[:8191], Code: "refused"},
		{Kind: "exec.read", Target: long[:63], Code: "refused"}, {Kind: "exec.kill", Target: long[:63], Code: "refused"},
		{Kind: "plan.advance", Target: long[:255], Code: "refused"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}
