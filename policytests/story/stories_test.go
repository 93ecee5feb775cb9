package story

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

var update = flag.Bool("update", false, "write what became of each scene into the stories, for a person to look at")

// tell reads all stories.
func tell(t testing.TB) []*story {
	t.Helper()
	names, err := filepath.Glob("../stories/*" + storySuffix)
	if err != nil || len(names) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	var all []*story
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseStory(name, src, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, s)
	}
	return all
}

// played keeps what became of the scenes of each story: they are looked at twice.
var played = map[string]map[string]want{}

// play returns what becomes of every scene.
func (s *story) play(t testing.TB) (map[string]want, error) {
	if got := played[s.name]; got != nil {
		return got, nil
	}
	layers, err := s.open(t.Context())
	if err != nil {
		return nil, err
	}
	got := map[string]want{}
	var errs []error
	for _, c := range s.scenes {
		var w want
		if c.Steps != nil {
			w, err = s.walk(t.Context(), layers, c)
		} else {
			w, err = s.decided(t.Context(), layers, c.ask)
		}
		if err != nil {
			errs = append(errs, errors.New(c.name+": "+err.Error()))
		}
		got[c.name] = w
	}
	if errs == nil {
		played[s.name] = got
	}
	return got, errors.Join(errs...)
}

func TestStories(t *testing.T) {
	for _, s := range tell(t) {
		t.Run(s.name, func(t *testing.T) {
			got, err := s.play(t)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(filepath.Join("../stories", s.name+storySuffix), s.rewritten(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, c := range s.scenes {
				t.Run(c.name, func(t *testing.T) {
					if c.want == nil {
						t.Fatal("the story does not say what becomes of it; run with -update and look")
					}
					if diff := cmp.Diff(*c.want, got[c.name]); diff != "" {
						t.Errorf("%s\n-story +policy\n%s", c.Why, diff)
					}
				})
			}
		})
	}
}

// The least of each that there is to be.
const (
	fewestScenes   = 150
	fewestEveryday = 40
)

// tally counts how the scenes end.
type tally struct {
	attacks, stopped, known, everyday, ran, asked, denied int

	wrong []string // what ends as no scene may
}

// count looks at what the policies do, and not at what the stories expect.
func count(t testing.TB) (n tally) {
	for _, s := range tell(t) {
		got, err := s.play(t)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		for _, c := range s.scenes {
			w := got[c.name]
			if c.Kind == attack {
				n.attacks++
				switch {
				case w.stopped():
					n.stopped++
					if c.Lets != "" {
						n.wrong = append(n.wrong, s.name+"/"+c.name+": says why it gets through, and does not")
					}
				case c.Lets != "":
					n.known++
				default:
					n.wrong = append(n.wrong, s.name+"/"+c.name+": an attack that gets through, and the story does not say why")
				}
				continue
			}
			n.everyday++
			switch {
			case w.runs():
				n.ran++
			case w.asks():
				n.asked++
			default:
				n.denied++
				n.wrong = append(n.wrong, s.name+"/"+c.name+": an everyday call that is denied")
			}
		}
	}
	return n
}

// An attack gets through only where the story says why, and no everyday call is
// denied.
func TestRates(t *testing.T) {
	n := count(t)
	for _, what := range n.wrong {
		t.Error(what)
	}
	t.Logf("attacks stopped: %d of %d, let through as a known limit: %d", n.stopped, n.attacks, n.known)
	t.Logf("everyday calls falsely denied: %d of %d, asked about: %d", n.denied, n.everyday, n.asked)
	if n.attacks+n.everyday < fewestScenes || n.everyday < fewestEveryday {
		t.Errorf("%d scenes, %d of them everyday calls", n.attacks+n.everyday, n.everyday)
	}
}

// The classes of attacks that there have to be enough of.
var classes = []string{
	"prompt-injected exfiltration", "confused deputy", "approval replay", "path and host tricks",
	"shell wrappers", "look-alike tool names", "type confusion", "label shedding",
}

const fewestOfClass = 8

// Every story of attacks says in its prose of which class they are.
func TestClasses(t *testing.T) {
	attacks := map[string]int{}
	all := 0
	for _, s := range tell(t) {
		n := 0
		for _, c := range s.scenes {
			if c.Kind == attack {
				n++
			}
		}
		if all += n; n == 0 {
			continue
		}
		_, class, named := strings.Cut(string(s.files.Comment), "\nClass: ")
		if !named {
			t.Errorf("%s: its prose names no class", s.name)
		}
		for _, c := range classes {
			if strings.HasPrefix(class, c) {
				attacks[c] += n
			}
		}
	}
	for _, c := range classes {
		if t.Logf("%s: %d", c, attacks[c]); attacks[c] < fewestOfClass {
			t.Errorf("%s: only %d attacks", c, attacks[c])
		}
	}
	if all < fewestScenes {
		t.Errorf("only %d attacks", all)
	}
}

// Prints the rates with the other benchmarks. What it measures is not time.
func BenchmarkStories(b *testing.B) {
	var n tally
	for b.Loop() {
		n = count(b)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*float64(n.stopped)/float64(n.attacks), "%attacks-stopped")
	b.ReportMetric(100*float64(n.denied)/float64(n.everyday), "%falsely-denied")
	b.ReportMetric(100*float64(n.asked)/float64(n.everyday), "%asked-about")
	b.ReportMetric(float64(n.attacks), "attacks")
	b.ReportMetric(float64(n.everyday), "everyday-calls")
}

// stopped reports whether an attack came to nothing: it was refused, a person looks
// first, or nothing of what it tries is granted.
func (w want) stopped() bool {
	switch {
	case len(w.Steps) > 0:
		return !strings.HasPrefix(w.Steps[len(w.Steps)-1], stepRan)
	case w.Refused != "" || w.Decision != call.Allow:
		return true
	}
	return len(w.Tries) > 0 && !slices.ContainsFunc(w.Tries, func(s string) bool { return s != triedInVain })
}

// runs reports whether a call ran without anybody being asked.
func (w want) runs() bool {
	if len(w.Steps) > 0 {
		return strings.HasPrefix(w.Steps[len(w.Steps)-1], stepRan)
	}
	return w.Decision == call.Allow
}

// asks reports whether a call waits for a person.
func (w want) asks() bool {
	if len(w.Steps) > 0 {
		return strings.HasPrefix(w.Steps[len(w.Steps)-1], string(call.CodeRequiresApproval))
	}
	return w.Decision == call.Ask
}
