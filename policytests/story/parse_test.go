package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// What a story does not say in words that are known is an error.
func TestStoriesAreReadStrictly(t *testing.T) {
	const (
		prose = "Somebody did something.\n"
		top   = "-- story.yaml --\nlayers: [{name: app, bundle: starter}]\n"
		call  = "-- a.call --\nwhy: it is so\nkind: attack\n"
	)
	if _, err := parseStory("ok.txtar", []byte(prose+top+call+"-- a.want --\ndecision: deny\n"), nil); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]string{
		"no prose":                      top + call,
		"no head":                       prose + call,
		"head not first":                prose + "-- tools.yaml --\n[]\n" + top + call,
		"no scenes":                     prose + top,
		"no layers":                     prose + "-- story.yaml --\nlayers: []\n" + call,
		"a bundle that is not shipped":  prose + "-- story.yaml --\nlayers: [{name: app, bundle: x}]\n" + call,
		"a role that is none":           prose + "-- story.yaml --\nlayers: [{name: app, role: allow}]\n" + call,
		"two layers of a name":          prose + "-- story.yaml --\nlayers: [{name: app}, {name: app}]\n" + call,
		"unknown key of the head":       prose + "-- story.yaml --\nlayers: [{name: app}]\nx: 1\n" + call,
		"unknown key of a call":         prose + top + call + "x: 1\n",
		"unknown key in a call":         prose + top + call + "principal: {role: x}\n",
		"unknown key of a want":         prose + top + call + "-- a.want --\nverdict: deny\n",
		"empty want":                    prose + top + call + "-- a.want --\n",
		"a want without its scene":      prose + top + call + "-- b.want --\ndecision: deny\n",
		"a scene twice":                 prose + top + call + call,
		"no why":                        prose + top + "-- a.call --\nkind: attack\n",
		"no kind":                       prose + top + "-- a.call --\nwhy: x\n",
		"an everyday call with a limit": prose + top + "-- a.call --\nwhy: x\nkind: everyday\nlets: x\n",
		"a chain of a single call":      prose + top + call + "principal: {on_behalf_of: [{id: x}]}\n",
		"two documents":                 prose + top + call + "---\nkind: everyday\n",
		"a file that nobody reads":      prose + top + call + "-- notes.txt --\nx\n",
		"a file of no layer":            prose + top + call + "-- org/x.rego --\npackage x\n",
		"a file outside":                prose + top + call + "-- app/../../x.rego --\npackage x\n",
		"a malformed tool":              prose + top + "-- tools.yaml --\n- {name: x}\n" + call,
		"steps that are none":           prose + top + "-- a.road --\nwhy: x\nkind: attack\nsteps: [{x: 1}]\n",
		"no steps":                      prose + top + "-- a.road --\nwhy: x\nkind: attack\nsteps: []\n",
		"time that runs back":           prose + top + "-- a.road --\nwhy: x\nkind: attack\nsteps: [{advance: -1h}]\n",
		"two things in a step":          prose + top + "-- a.road --\nwhy: x\nkind: attack\nsteps: [{advance: 1h, revoke: x}]\n",
		"labels in a step":              prose + top + "-- a.road --\nwhy: x\nkind: attack\nsteps: [{session: {labels: [x]}}]\n",
	} {
		if _, err := parseStory("bad.txtar", []byte(src), nil); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
}

// Expectations are the only thing that an update changes.
func TestUpdateChangesExpectationsAlone(t *testing.T) {
	for _, s := range tell(t) {
		wants := map[string]want{}
		for _, c := range s.scenes {
			if c.want != nil {
				wants[c.name] = *c.want
			}
		}
		src, err := os.ReadFile(filepath.Join("../stories", s.name+storySuffix))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(src), "\n"), strings.Split(string(s.rewritten(wants)), "\n")); diff != "" && !*update {
			t.Errorf("%s is not as an update writes it\n%s", s.name, diff)
		}
	}
}

// rewritten is the archive with each scene followed by what became of it.
func (s *story) rewritten(got map[string]want) []byte {
	out := &txtar.Archive{Comment: s.files.Comment}
	for _, f := range s.files.Files {
		if strings.HasSuffix(f.Name, ".want") {
			continue
		}
		out.Files = append(out.Files, f)
		for _, ext := range []string{".call", ".road"} {
			if name, ok := strings.CutSuffix(f.Name, ext); ok {
				if w, ok := got[name]; ok {
					out.Files = append(out.Files, txtar.File{Name: name + ".want", Data: w.text()})
				}
			}
		}
	}
	return txtar.Format(out)
}
