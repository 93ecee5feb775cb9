package story

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever a story holds, reading it does not panic; and what is read once is read
// the same again after an update has written down what became of its scenes.
func FuzzParseStory(f *testing.F) {
	names, err := filepath.Glob("../stories/*" + storySuffix)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("x\n-- story.yaml --\nlayers: [{name: a}]\n-- a/../x --\n-- a.call --\nwhy: x\nkind: attack\nargs: !!binary x\n"))
	f.Add([]byte("x\n-- story.yaml --\nlayers: [{name: a}]\ngiven: &g {principal: {claims: *g}}\n-- a.call --\n"))
	f.Add([]byte("x\n-- story.yaml --\nlayers: [{name: a}]\n-- a/b --\n-- a/b/c --\n-- a.road --\nwhy: x\nkind: attack\nsteps: [{advance: 1h}]\n"))
	f.Add([]byte("x\n-- --\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parseStory("fuzz.txtar", src, nil)
		if err != nil {
			return // refusing is always allowed
		}
		for _, l := range s.layers {
			if _, err := s.bundle(l); err != nil {
				return
			}
		}
		wants := map[string]want{}
		for _, c := range s.scenes {
			if c.want != nil {
				wants[c.name] = *c.want
			}
			if c.Steps == nil {
				_, _ = s.input(c.ask)
			}
		}
		written := s.rewritten(wants)
		again, err := parseStory("fuzz.txtar", written, nil)
		if err != nil {
			t.Fatalf("what an update writes is not read: %v\n%s", err, written)
		}
		for i, c := range s.scenes {
			if diff := cmp.Diff(c.want, again.scenes[i].want); diff != "" {
				t.Fatalf("%s: the expectation changed\n%s", c.name, diff)
			}
		}
		if string(again.rewritten(wants)) != string(written) {
			t.Fatal("writing it again changes it")
		}
	})
}
