package guests_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/sandbox/guests"
)

func TestModules(t *testing.T) {
	want := []string{"chatter", "echo", "fetch", "fib", "grow", "hog", "list-dir", "read-file", "recurse", "spin"}
	if d := cmp.Diff(want, guests.Names()); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for _, name := range guests.Names() {
		b, err := guests.Module(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 100<<10 {
			t.Errorf("%s has %d bytes, more than 100 KiB", name, len(b))
		}
		_, c := os.Stat("src/" + name + ".c")
		_, wat := os.Stat("src/" + name + ".wat")
		if c != nil && wat != nil {
			t.Errorf("%s has no source", name)
		}
	}
	for _, name := range []string{"", "nothing", "../guests/spin", "spin.wasm"} {
		if _, err := guests.Module(name); err == nil {
			t.Errorf("Module(%q) is no error", name)
		}
	}
}
