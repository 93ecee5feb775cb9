package hostfx_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// scene is a call, and what another call of its session left.
type scene struct {
	*hostfx.Effects
	folder  *hostfx.Folder // docs/reports
	earlier string         // the id of that call, if it changed a file
	process string         // that it started, if it did
	granted bool
}

// deed is one effect.
type deed struct {
	method string // that does it
	kind   string // as it is recorded
	do     func(s scene) error

	quiet  bool             // it is an effect only when it is refused
	change func(*call.Caps) // what is granted besides, or not
	modes  string           // of docs/reports when it is refused
	needs  string           // of an earlier call: a "change" of a file, a "process"; a "server" now
}

var deeds = []deed{
	{method: "Effects.OpenRead", kind: "fs.read", do: func(s scene) error { return second(s.OpenRead(within + "/a.txt")) }},
	{method: "Effects.ReadFile", kind: "fs.read", do: func(s scene) error { return second(s.ReadFile(within + "/a.txt")) }},
	{method: "Effects.OpenAppend", kind: "fs.append", do: func(s scene) error { return second(s.OpenAppend(within + "/a.txt")) }},
	{method: "Effects.AppendFile", kind: "fs.append", do: func(s scene) error { return s.AppendFile(within+"/a.txt", []byte("x")) }},
	{method: "Effects.OpenWrite", kind: "fs.write", do: func(s scene) error { return second(s.OpenWrite(within + "/a.txt")) }},
	{method: "Effects.WriteFile", kind: "fs.write", do: func(s scene) error { return s.WriteFile(within+"/a.txt", []byte("x")) }},
	{method: "Effects.List", kind: "fs.list", do: func(s scene) error { return second(s.List(within)) }},
	{method: "Effects.Stat", kind: "fs.stat", quiet: true, do: func(s scene) error { return second(s.Stat(within + "/a.txt")) }},
	{method: "Effects.Mkdir", kind: "fs.write", do: func(s scene) error { return s.Mkdir(within + "/new") }},
	{method: "Effects.Remove", kind: "fs.remove", do: func(s scene) error { return s.Remove(within + "/a.txt") }},
	{method: "Effects.Rename", kind: "fs.write", do: func(s scene) error { return s.Rename(within+"/a.txt", within+"/b.txt") }, modes: "remove"},
	{method: "Effects.Rename", kind: "fs.remove", do: func(s scene) error { return s.Rename(within+"/a.txt", within+"/b.txt") }, modes: "write"},

	{method: "Folder.Open", kind: "fs.read", do: func(s scene) error { return second(s.folder.Open("a.txt", hostfx.OpenOptions{})) }},
	{method: "Folder.Open", kind: "fs.write", do: func(s scene) error { return second(s.folder.Open("a.txt", hostfx.OpenOptions{Write: true})) }},
	{method: "Folder.Next", kind: "fs.list", do: func(s scene) error { return second(s.folder.Next(1)) }},
	{method: "Folder.EntriesAt", kind: "fs.list", do: func(s scene) error { return second(s.folder.EntriesAt(0, 1)) }},
	{method: "Folder.StatAt", kind: "fs.stat", quiet: true, do: func(s scene) error { return second(s.folder.StatAt("a.txt")) }},
	{method: "Folder.LstatAt", kind: "fs.stat", quiet: true, do: func(s scene) error { return second(s.folder.LstatAt("a.txt")) }},
	{method: "Folder.Stat", kind: "fs.stat", quiet: true, modes: "append", do: func(s scene) error {
		h, err := s.folder.Open("sub", hostfx.OpenOptions{})
		if err != nil {
			return errors.New("the directory does not open")
		}
		return second(h.Stat())
	}},
	{method: "Folder.Readlink", kind: "fs.stat", quiet: true, do: func(s scene) error { return second(s.folder.Readlink("in")) }},
	{method: "Folder.Mkdir", kind: "fs.write", do: func(s scene) error { return s.folder.Mkdir("new") }},
	{method: "Folder.Remove", kind: "fs.remove", do: func(s scene) error { return s.folder.Remove("a.txt") }},
	{method: "Folder.RemoveDir", kind: "fs.remove", do: func(s scene) error { return s.folder.RemoveDir("empty") }},
	{method: "Folder.Symlink", kind: "fs.write", do: func(s scene) error { return s.folder.Symlink("a.txt", "new") }},
	{method: "Folder.Link", kind: "fs.write", do: func(s scene) error { return s.folder.Link("a.txt", s.folder, "new") }},
	{method: "Folder.Rename", kind: "fs.remove", do: func(s scene) error { return s.folder.Rename("a.txt", s.folder, "new") }, modes: "read list write"},
	{method: "Folder.SetTimes", kind: "fs.write", do: func(s scene) error { return s.folder.SetTimes("a.txt", hostfx.Times{ModifyNow: true}, true) }},

	// Opened to write they are a part of that effect.
	{method: "File.Truncate", kind: "fs.write", modes: "append", do: func(s scene) error {
		return inFile(s, hostfx.OpenOptions{Append: !s.granted, Write: s.granted}, func(f *hostfx.File) error { return f.Truncate(1) })
	}},
	{method: "File.Allocate", kind: "fs.write", modes: "append", do: func(s scene) error {
		return inFile(s, hostfx.OpenOptions{Append: !s.granted, Write: s.granted}, func(f *hostfx.File) error { return f.Allocate(0, 100) })
	}},
	{method: "File.SetTimes", kind: "fs.write", modes: "read", do: func(s scene) error {
		return inFile(s, hostfx.OpenOptions{}, func(f *hostfx.File) error { return f.SetTimes(hostfx.Times{ModifyNow: true}) })
	}},
	{method: "File.SetAppend", kind: "fs.write", modes: "append", do: func(s scene) error {
		return inFile(s, hostfx.OpenOptions{Append: true}, func(f *hostfx.File) error { return f.SetAppend(false) })
	}},

	{method: "Effects.HTTP", kind: "http.get", do: asked("GET"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.head", do: asked("HEAD"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.post", do: asked("POST"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.put", do: asked("PUT"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.patch", do: asked("PATCH"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.delete", do: asked("DELETE"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.options", do: asked("OPTIONS"), needs: "server"},
	{method: "Effects.HTTP", kind: "http.other", do: asked("REPORT"), needs: "server"},
	{method: "Effects.Log", kind: "log", do: func(s scene) error { return s.Log("line") }},
	{method: "Effects.LogAt", kind: "log", do: func(s scene) error { return s.LogAt(hostfx.Warn, "line") }},

	{method: "Effects.Run", kind: "exec", do: func(s scene) error { return second(s.Run(context.Background(), hostfx.Command{Path: "/bin/true"})) }},
	{method: "Effects.Start", kind: "exec.start", do: func(s scene) error { return second(s.Start(context.Background(), staying)) }},
	{method: "Effects.Output", kind: "exec.read", do: func(s scene) error { return second(s.Output(s.process)) }, needs: "process"},
	{method: "Effects.Kill", kind: "exec.kill", do: func(s scene) error { return s.Kill(s.process) }, needs: "process"},

	{method: "Effects.Workspace", kind: "workspace", quiet: true, change: withWorkspace, do: func(s scene) error { return second(s.Workspace()) }},
	{method: "Effects.Undo", kind: "workspace.undo", change: withWorkspace, do: func(s scene) error { return s.Undo(s.earlier) }, needs: "change"},
	{method: "Effects.Diff", kind: "workspace.diff", change: withWorkspace, do: func(s scene) error { return second(s.Diff(s.earlier)) }, needs: "change"},
	{method: "Workspace.RecordEdit", kind: "workspace.record", change: withWorkspace, modes: "read", do: inWorkspace(func(w *hostfx.Workspace) error { return w.RecordEdit(within + "/a.txt") })},
	{method: "Workspace.ResolvePath", kind: "fs.stat", quiet: true, change: withWorkspace, do: func(s scene) error {
		name := map[bool]string{true: "a.txt", false: "../secret.txt"}[s.granted]
		return inWorkspace(func(w *hostfx.Workspace) error { return second(w.ResolvePath(name)) })(s)
	}},

	{method: "Effects.Plan", kind: "plan.read", do: func(s scene) error { return second(s.Plan(context.Background())) }},
	{method: "Effects.RegisterTask", kind: "plan.register", do: func(s scene) error { return s.RegisterTask(context.Background(), call.Task{ID: "new"}) }},
	{method: "Effects.AdvanceTask", kind: "plan.advance", do: func(s scene) error { return s.AdvanceTask(context.Background(), "old", call.TaskActive) }},
	{method: "Effects.ReplanTask", kind: "plan.replan", do: func(s scene) error { return s.ReplanTask(context.Background(), "old") }},
}

// noDeeds are the methods that are no effects, and why.
var noDeeds = map[string]string{
	"Effects.Grant": "says what was granted", "Effects.Dirs": "says what was granted", "Effects.Limits": "says what was granted",
	"Effects.Processes": "says what of the session there is that was granted", "Effects.Close": "ends all",
	"Effects.Charge": "is the tool's word, and bounds nothing but what it pays", "Effects.Charged": "is for the engine", "Effects.Logged": "is for the engine",
	"Workspace.Dir": "says what was granted", "Folder.Dir": "says what was granted", "Folder.Rewind": "does nothing by itself", "Folder.Close": "gives something up", "Folder.Refuse": "records a refusal",
	"File.Read": "is of an effect that happened", "File.ReadAt": "is of an effect that happened", "File.Write": "is of an effect that happened", "File.WriteAt": "is of an effect that happened",
	"File.Seek": "does nothing by itself", "File.Stat": "describes what was opened", "File.Sync": "adds nothing", "File.DataSync": "adds nothing", "File.Close": "gives something up",
}

func second[T any](_ T, err error) error { return err }

func inFile(s scene, o hostfx.OpenOptions, do func(*hostfx.File) error) error {
	h, err := s.folder.Open("a.txt", o)
	if err != nil {
		return errors.New("the file does not open") // which is no refusal of what is asked here
	}
	return do(h.(*hostfx.File))
}

func inWorkspace(do func(*hostfx.Workspace) error) func(scene) error {
	return func(s scene) error {
		w, err := s.Workspace()
		if err != nil {
			return errors.New("there is no workspace")
		}
		return do(w)
	}
}

func asked(method string) func(scene) error {
	return func(s scene) error {
		return second(s.HTTP(context.Background(), hostfx.Request{Method: method, URL: v1}))
	}
}

func withWorkspace(c *call.Caps) { c.Workspace, c.Exec = true, nil }

// staying is a command that goes on.
var staying = hostfx.Command{Path: "/bin/sleep", Args: []string{"600"}}

// tasks is a plan that takes whatever is asked of it.
type tasks struct{}

func (tasks) Plan(context.Context) (call.Plan, error)   { return call.Plan{}, nil }
func (tasks) Replan(context.Context, call.PlanOp) error { return nil }

// Each effect goes well when it is granted, and is refused when it is not, and the record
// says which of the two.
func TestEveryEffect(t *testing.T) {
	kinds := map[bool]map[string]bool{true: {}, false: {}}
	for _, granted := range []bool{true, false} {
		for _, d := range deeds {
			name := d.method + " as " + d.kind
			s := newScene(t, d, granted)
			err := d.do(s)
			var codes []string
			for _, e := range s.Close() {
				if e.Kind == d.kind {
					codes = append(codes, e.Code)
				}
			}
			want := []string{"ok"}
			switch {
			case !granted:
				want = []string{"refused"}
			case d.quiet:
				want = nil
			}
			if granted && err != nil || !granted && !errors.Is(err, hostfx.ErrNotGranted) {
				t.Errorf("%s, granted %v: %v", name, granted, err)
			}
			if d.method == "Effects.Undo" && len(codes) > 1 {
				codes = codes[len(codes)-1:]
			}
			if !slices.Equal(codes, want) {
				t.Errorf("%s, granted %v: recorded as %v", name, granted, codes)
			}
			kinds[granted][d.kind] = true
		}
	}
	all := documentedKinds(t)
	for _, granted := range []bool{true, false} {
		for _, k := range all {
			if !kinds[granted][k] {
				t.Errorf("no effect of kind %s, granted %v", k, granted)
			}
		}
	}
}

func newScene(t *testing.T, d deed, granted bool) scene {
	t.Helper()
	dir := tree(t)
	must(t, os.Mkdir(filepath.Join(dir, "docs/reports/empty"), 0o755))
	var o hostfx.Options
	if d.needs == "server" {
		o = newWeb(t, hello).opts
	}
	o.Roots, o.Journal = []hostfx.Root{{Name: "docs", Path: filepath.Join(dir, "docs")}}, filepath.Join(dir, "journal")
	h, err := hostfx.New(o)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	caps := call.Caps{
		FS: []call.FS{{Root: "docs", Path: "reports", Modes: all}}, Log: true, Plan: true,
		Exec: []call.Exec{{Command: "/bin/true"}, {Command: staying.Path, Args: staying.Args}},
	}
	begin := func(id string, caps call.Caps) *hostfx.Effects {
		fx, err := h.OpenFor(t.Context(), mint(t, caps), hostfx.Session{Call: id, Owner: "o", ID: "s", Ends: time.Now().Add(time.Hour), Plan: tasks{}})
		must(t, err)
		t.Cleanup(func() { fx.Close() })
		return fx
	}
	s := scene{granted: granted}
	switch d.needs {
	case "change":
		s.earlier = "call-1"
		before := caps
		withWorkspace(&before)
		fx := begin(s.earlier, before)
		must(t, fx.WriteFile(within+"/sub/b.txt", []byte("changed")))
		fx.Close()
	case "process":
		fx := begin("call-1", caps)
		s.process, err = fx.Start(t.Context(), staying)
		must(t, err)
		fx.Close()
	case "server":
		caps.HTTP = []call.HTTP{entry(func(h *call.HTTP) {
			h.Methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"}
		})}
	}
	if d.change != nil {
		d.change(&caps)
	}
	if !granted { // a workspace there must be, or there is nothing to ask
		caps = call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: strings.Fields(d.modes)}}, Workspace: strings.HasPrefix(d.method, "Workspace.")}
	}
	s.Effects = begin("call-2", caps)
	s.folder = s.Dirs()[0].Folder()
	return s
}

// Every method has its row: one that is new fails here until it has one.
func TestEveryMethodIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, d := range deeds {
		listed[d.method] = true
	}
	have := map[string]bool{}
	for name, of := range map[string]reflect.Type{
		"Effects": reflect.TypeFor[*hostfx.Effects](), "Folder": reflect.TypeFor[*hostfx.Folder](), "File": reflect.TypeFor[*hostfx.File](),
		"Workspace": reflect.TypeFor[*hostfx.Workspace](),
	} {
		for m := range of.Methods() {
			method := name + "." + m.Name
			have[method] = true
			if listed[method] == (noDeeds[method] != "") {
				t.Errorf("%s has rows of a refusal and a positive case: %v; is said to be no effect: %q", method, listed[method], noDeeds[method])
			}
		}
	}
	for _, names := range []map[string]bool{listed, keys(noDeeds)} {
		for method := range names {
			if !have[method] {
				t.Errorf("there is no %s", method)
			}
		}
	}
}

func keys(m map[string]string) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

var (
	kindsInDocs = regexp.MustCompile("\n- `kind` \\(always\\): ([^;]*);")
	kindsInCode = regexp.MustCompile(`"((?:fs|http|exec|plan|workspace)\.[a-z]+)"`)
	inBackticks = regexp.MustCompile("`([a-z.]+)`")
)

// documentedKinds are those of docs/record-format.md, with the methods that it does not
// list. No other stands in the code.
func documentedKinds(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/record-format.md")
	must(t, err)
	_, effects, found := strings.Cut(string(text), "Each of `effects`")
	m := kindsInDocs.FindStringSubmatch(effects)
	if !found || m == nil {
		t.Fatal("docs/record-format.md does not list the kinds of effects")
	}
	kinds := []string{"http.head", "http.post", "http.put", "http.patch", "http.delete", "http.options", "http.other"}
	for _, k := range inBackticks.FindAllStringSubmatch(m[1], -1) {
		kinds = append(kinds, k[1])
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		must(t, err)
		for _, k := range kindsInCode.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(kinds, k[1]) {
				t.Errorf("%s has the kind %s, which docs/record-format.md does not list", f, k[1])
				kinds = append(kinds, k[1])
			}
		}
	}
	return kinds
}
