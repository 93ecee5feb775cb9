package hostfx_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

func logging(t testing.TB, caps call.Caps) *hostfx.Effects {
	t.Helper()
	fx, err := (*hostfx.Host)(nil).Open(t.Context(), mint(t, caps))
	must(t, err)
	t.Cleanup(func() { fx.Close() })
	return fx
}

func TestLog(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"plain", "a\tb é", "a\tb é\n"},
		{"empty", "", "\n"},
		{"line breaks", "a\r\nb\u2028c\u2029d\u0085e", "a\ufffd\ufffdb\ufffdc\ufffdd\ufffde\n"},
		{"terminal", "\x1b[2J\x00\x7f\u009b", "\ufffd[2J\ufffd\ufffd\ufffd\n"},
		{"direction", "a\u202eb\u2066c", "a\ufffdb\ufffdc\n"},
		{"not UTF-8", "a\xffb", "a\ufffdb\n"},
		{"long", strings.Repeat("a", 1<<20), strings.Repeat("a", 4096) + "\n"},
		{"cut in a character", strings.Repeat("a", 4095) + "é", strings.Repeat("a", 4095) + "\n"},
		{"grows", strings.Repeat("\x00", 4096), strings.Repeat("\ufffd", 1365) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := logging(t, call.Caps{Log: true})
			must(t, fx.Log(tt.give))
			want := []call.Effect{{Kind: "log", Within: "log", Code: "ok", BytesOut: int64(len(tt.want)), Count: 1}}
			if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.want, string(fx.Logged())); d != "" {
				t.Errorf("logged (-want +got):\n%s", d)
			}
		})
	}
}

func TestLogLevels(t *testing.T) {
	fx := logging(t, call.Caps{Log: true, Bounds: call.Bounds{LogBytes: 100}})
	for _, l := range []hostfx.Level{hostfx.Debug, hostfx.Info, hostfx.Warn, hostfx.Error} {
		must(t, fx.LogAt(l, "a\nb"))
	}
	if got, want := string(fx.Logged()), "debug: a\ufffdb\na\ufffdb\nwarn: a\ufffdb\nerror: a\ufffdb\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}

func TestLogBound(t *testing.T) {
	fx := logging(t, call.Caps{Log: true, Bounds: call.Bounds{LogBytes: 10}})
	for _, tt := range []struct {
		line string
		want error
	}{{"1234", nil}, {"12345", hostfx.ErrTooLarge}, {"1", hostfx.ErrTooLarge}} {
		if err := fx.Log(tt.line); !errors.Is(err, tt.want) {
			t.Errorf("Log(%q) = %v, want %v", tt.line, err, tt.want)
		}
	}
	if got := string(fx.Logged()); got != "1234\n" {
		t.Errorf("Logged() = %q", got)
	}
	want := []call.Effect{
		{Kind: "log", Within: "log", Code: "ok", BytesOut: 5, Count: 1}, {Kind: "log", Within: "log", Code: "over_cap", Count: 2},
	}
	if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestLogNotGranted(t *testing.T) {
	fx := logging(t, call.Caps{})
	for range 2 {
		if err := fx.Log("x"); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("Log() = %v, want %v", err, hostfx.ErrNotGranted)
		}
	}
	if d := cmp.Diff([]call.Effect{{Kind: "log", Code: "refused", Count: 2}}, happened(t, fx.Close())); d != "" || len(fx.Logged()) != 0 {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	if err := fx.Log("x"); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	fx = logging(t, call.Caps{Log: true})
	granttest.Kill(fx.Grant())
	if err := fx.Log("x"); !errors.Is(err, hostfx.ErrClosed) || len(fx.Logged()) != 0 {
		t.Errorf("under a dead grant: %v", err)
	}
}

func TestLogTogether(t *testing.T) {
	fx := logging(t, call.Caps{Log: true})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				_ = fx.Log("123456789")
			}
		})
	}
	wg.Wait()
	e := fx.Close()
	if len(e) != 2 || e[0].Count+e[1].Count != 16_000 || e[0].BytesOut != 65_530 || int64(len(fx.Logged())) != e[0].BytesOut {
		t.Errorf("effects = %v, logged %d bytes", e, len(fx.Logged()))
	}
}

func FuzzLog(f *testing.F) {
	f.Add("a\nb\x00\xff\u202e")
	f.Fuzz(func(t *testing.T, line string) {
		fx := logging(t, call.Caps{Log: true})
		must(t, fx.Log(line))
		got, _ := strings.CutSuffix(string(fx.Logged()), "\n")
		if len(got) > 4096 || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\x00\x1b\u0085\u009b\u2028\u202e") {
			t.Errorf("Log(%q) kept %q", line, got)
		}
	})
}
