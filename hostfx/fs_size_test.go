package hostfx_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// A file that was opened to append to is written from when its size is set on, and the
// record says so.
func TestSizesOfAppendedFilesAreWrites(t *testing.T) {
	const name = "/docs/reports/a.txt"
	for what, do := range map[string]func(*hostfx.File) error{
		"emptied": func(f *hostfx.File) error { return f.Truncate(0) },
		"grown":   func(f *hostfx.File) error { return f.Allocate(0, 100) },
	} {
		t.Run(what, func(t *testing.T) {
			fx := open(t, tree(t), "append", "write")
			f, err := fx.OpenAppend(name)
			must(t, err)
			_, err = f.Write([]byte("ab"))
			must(t, err)
			must(t, do(f))
			_, err = f.Write([]byte("c"))
			must(t, err)
			want := []call.Effect{effect("fs.append", name, "ok", 2), effect("fs.write", name, "ok", 1)}
			if d := cmp.Diff(want, happened(t, fx.Close())); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
		})
	}
}
