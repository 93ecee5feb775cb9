package hostfx_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

func TestDiff(t *testing.T) { both(t, testDiff) }

func testDiff(t *testing.T) {
	const other = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa" // of "other"
	for _, tt := range []struct {
		name string
		do   func(fx *hostfx.Effects) error
		want string
	}{
		{"text", func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "other\n") },
			"changed file /work/a.txt (0644)\n--- /work/a.txt\n+++ /work/a.txt\n@@ -1,1 +1,1 @@\n-alpha\n+other\n"},
		{"no line break at the end", func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "alpha") },
			"changed file /work/a.txt (0644)\n--- /work/a.txt\n+++ /work/a.txt\n@@ -1,1 +1,1 @@\n-alpha\n+alpha\n\\ No newline at end of file\n"},
		{"created", func(fx *hostfx.Effects) error { return put(fx, "/work/new", "new\n") },
			"created file /work/new (0644)\n--- /dev/null\n+++ /work/new\n@@ -0,0 +1,1 @@\n+new\n"},
		{"created empty", func(fx *hostfx.Effects) error { return put(fx, "/work/new", "") }, "created file /work/new (0644)\n"},
		{"removed", func(fx *hostfx.Effects) error { return fx.Remove("/work/sub/b.txt") },
			"removed file /work/sub/b.txt (0640)\n--- /work/sub/b.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-beta\n"},
		{"directories", func(fx *hostfx.Effects) error { return errors.Join(fx.Mkdir("/work/made"), fx.Remove("/work/empty")) },
			"removed dir /work/empty (0500)\ncreated dir /work/made (0755)\n"},
		{"links", func(fx *hostfx.Effects) error {
			return errors.Join(fx.Remove("/work/sub/up"), fx.Remove("/work/sub/link"), folder(fx).Symlink("a b", "sub/link"))
		}, "changed link /work/sub/link -> \"a b\"\nremoved link /work/sub/up -> ../a.txt\n"},
		{"another kind", func(fx *hostfx.Effects) error {
			return errors.Join(fx.Remove("/work/sub/link"), put(fx, "/work/sub/link", "x\n"))
		},
			"replaced link /work/sub/link -> b.txt by file (0644)\n--- /dev/null\n+++ /work/sub/link\n@@ -0,0 +1,1 @@\n+x\n"},
		{"no text", func(fx *hostfx.Effects) error { return put(fx, "/work/bin", "other") },
			"changed file /work/bin (0644)\n- 2 bytes sha256:b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2\n+ 5 bytes sha256:" + other + "\n"},
		{"times", func(fx *hostfx.Effects) error {
			return folder(fx).SetTimes("a.txt", hostfx.Times{Modify: time.Unix(7, 0)}, true)
		},
			"changed the time of file /work/a.txt: 2020-09-13T12:26:40.123Z, 1970-01-01T00:00:07Z\n"},
		{"a name that is no word", func(fx *hostfx.Effects) error { return put(fx, "/work/\x1b[31m\xff \u202e", "") },
			"created file \"/work/\\x1b[31m\\xff \\u202e\" (0644)\n"},
		{"two roots", func(fx *hostfx.Effects) error { return errors.Join(put(fx, "/work/x", ""), put(fx, "/more/x", "")) },
			"created file /more/x (0644)\ncreated file /work/x (0644)\n"},
		{"what is again as it was", func(fx *hostfx.Effects) error {
			return errors.Join(put(fx, "/work/x", "x"), fx.Remove("/work/x"), put(fx, "/work/y", ""))
		}, "created file /work/y (0644)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			id := d.do(tt.do)
			d.write("work/a.txt", "changed later") // of which it says nothing
			fx, _ := d.open()
			got, err := fx.Diff(id)
			must(t, err)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("diff (-want +got):\n%s", diff)
			}
			want := []call.Effect{{Kind: "workspace.diff", Target: id, Code: "ok", BytesIn: int64(len(got))}}
			if diff := cmp.Diff(want, happened(t, fx.Close())); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			again, _ := d.open()
			if _, err := again.Diff("x"); !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("of no call: %v", err)
			}
		})
	}
}

// What is over the output that the grant allows is cut, and says so; large files are not
// compared by lines.
func TestDiffIsBounded(t *testing.T) {
	d := newDesk(t)
	must(t, os.WriteFile(d.dir+"/work/large", bytes.Repeat([]byte("line\n"), 300_000), 0o644))
	id := d.do(func(fx *hostfx.Effects) error {
		return errors.Join(put(fx, "/work/a.txt", strings.Repeat("line\n", 1000)), put(fx, "/work/large", "small"))
	})
	all, err := d.diff(id, 1<<20)
	must(t, err)
	if !strings.Contains(all, "\n- 1500000 bytes sha256:") || !strings.HasSuffix(all, "\n+ 5 bytes sha256:"+strings.TrimSpace(all[len(all)-65:])+"\n") {
		t.Errorf("the large file: %.300s", all[strings.LastIndex(all, "changed"):])
	}
	for _, most := range []int{1, 10, 24, 25, 26, 100, 1000, len(all) - 1, len(all)} {
		got, err := d.diff(id, int64(most))
		must(t, err)
		if len(got) > most {
			t.Errorf("%d bytes of at most %d", len(got), most)
		}
		if cut := strings.HasSuffix(got, "\n... the rest is left out\n"); cut != (most < len(all) && most > 80) {
			t.Errorf("at most %d bytes: it says that it was cut: %v", most, cut)
		}
		if text := strings.TrimSuffix(got, "... the rest is left out\n"); most > 80 && !strings.HasPrefix(all, text) {
			t.Errorf("at most %d bytes: it is not the beginning", most)
		}
	}
}

func (d *desk) diff(id string, most int64) (string, error) {
	fx, _ := d.open(func(c *callCaps, _ *hostfx.Session) { c.Bounds.OutputBytes = most })
	defer fx.Close()
	b, err := fx.Diff(id)
	return string(b), err
}

// A damaged content is not shown as if it were what was there.
func TestDiffOfDamagedJournal(t *testing.T) {
	d := newDesk(t)
	id := d.do(func(fx *hostfx.Effects) error { return put(fx, "/work/a.txt", "other\n") })
	for _, name := range d.objects() {
		must(t, os.WriteFile(name, []byte("forged"), 0o600))
	}
	if got, err := d.diff(id, 1000); err == nil || got != "" {
		t.Errorf("Diff = %q, %v", got, err)
	}
}
