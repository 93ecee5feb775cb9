package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

// use is what a guest does with one import.
type use struct {
	name string                       // of the import
	kind string                       // of the effect
	with func(process string) program // for the guest poke, or
	step string                       // for the guest script

	quiet bool   // it is an effect only when it is refused
	modes string // of docs/reports when it is refused
	first string // a step of the script that goes well before, also then
}

const (
	inReports = "/docs/reports/a.txt"
	command   = `{"path":"/bin/sleep","args":["0"]}` + "\n"
)

func once(p program) func(string) program { return func(string) program { return p } }

// uses has a row for each function that does something outside of the guest.
var uses = map[string][]use{
	"callgate": {
		{name: "http", kind: "http.get", with: once(program{}.ask(callHTTP, get("/echo")))},
		{name: "fs_read", kind: "fs.read", with: once(program{}.ask(callRead, inReports))},
		{name: "fs_list", kind: "fs.list", with: once(program{}.ask(callList, "/docs/reports"))},
		{name: "fs_stat", kind: "fs.stat", quiet: true, with: once(program{}.ask(callStat, inReports))},
		{name: "fs_write", kind: "fs.write", with: once(program{}.tell(callWrite, inReports, "x"))},
		{name: "fs_append", kind: "fs.append", with: once(program{}.tell(callAppend, inReports, "x"))},
		{name: "fs_mkdir", kind: "fs.write", with: once(program{}.tell(callMkdir, "/docs/reports/new", ""))},
		{name: "fs_remove", kind: "fs.remove", with: once(program{}.tell(callRemove, inReports, ""))},
		{name: "fs_rename", kind: "fs.write", with: once(program{}.tell(callRename, inReports, "/docs/reports/new")), modes: "remove"},
		{name: "exec", kind: "exec", with: once(program{}.ask(callExec, command))},
		{name: "exec_start", kind: "exec.start", with: once(program{}.ask(callStart, command))},
		{name: "exec_output", kind: "exec.read", with: func(p string) program { return program{}.ask(callOutput, p) }},
		{name: "exec_kill", kind: "exec.kill", with: func(p string) program { return program{}.tell(callKill, p, "") }},
		{name: "plan", kind: "plan.read", with: once(program{}.step(callPlan, 0, 0, lengthAt))},
		{name: "task_register", kind: "plan.register", with: once(program{}.tell(callRegister, `{"id":"new"}`, ""))},
		{name: "task_advance", kind: "plan.advance", with: once(program{}.tell(callAdvance, "old", "active"))},
		{name: "task_replan", kind: "plan.replan", with: once(program{}.tell(callReplan, "old", "[]"))},
		{name: "log", kind: "log", with: once(program{}.put(0, "line").step(callLog, 0, 4))},
	},
	"wasi_snapshot_preview1": {
		{name: "path_open", kind: "fs.read", step: "o 3 a.txt r"},
		{name: "path_open", kind: "fs.write", step: "o 3 new wc", modes: "read list"},
		{name: "path_open", kind: "fs.append", step: "o 3 a.txt wa", modes: "read list"},
		{name: "path_create_directory", kind: "fs.write", step: "m 3 new", modes: "read list"},
		{name: "path_filestat_get", kind: "fs.stat", quiet: true, step: "S 3 a.txt", modes: "append"},
		{name: "path_filestat_set_times", kind: "fs.write", step: "i 3 a.txt", modes: "read"},
		{name: "path_link", kind: "fs.write", step: "h 3 a.txt 3 new", modes: "read"},
		{name: "path_readlink", kind: "fs.stat", quiet: true, step: "k 3 in", modes: "append"},
		{name: "path_remove_directory", kind: "fs.remove", step: "d 3 empty", modes: "read write"},
		{name: "path_rename", kind: "fs.write", step: "n 3 a.txt 3 new", modes: "read list remove"},
		{name: "path_symlink", kind: "fs.write", step: "s 3 new a.txt", modes: "read"},
		{name: "path_unlink_file", kind: "fs.remove", step: "u 3 a.txt", modes: "read write"},
		{name: "fd_readdir", kind: "fs.list", step: "l 3", modes: "read"},
		{name: "fd_filestat_set_size", kind: "fs.write", first: "o 3 a.txt wa;", step: "t 4 1", modes: "append"},
	},
}

// noUses are the functions that do nothing outside of the guest, and why.
var noUses = map[string]string{
	"answer": "takes what another left", "charge": "is the tool's word, and bounds nothing but what it pays",

	"args_get": "has none", "args_sizes_get": "has none", "environ_get": "has none", "environ_sizes_get": "has none",
	"clock_res_get": "the run's clock", "clock_time_get": "the run's clock", "random_get": "random bytes", "poll_oneoff": "waits", "sched_yield": "waits",
	"proc_exit": "ends the run", "proc_raise": "is refused always",
	"sock_accept": "is refused always", "sock_recv": "is refused always", "sock_send": "is refused always", "sock_shutdown": "is refused always",
	"fd_advise": "does nothing", "fd_close": "gives something up", "fd_renumber": "gives something up", "fd_fdstat_get": "describes what was opened", "fd_filestat_get": "describes what was opened",
	"fd_prestat_get": "says what was granted", "fd_prestat_dir_name": "says what was granted", "fd_seek": "does nothing by itself", "fd_tell": "does nothing by itself",
	"fd_read": "is of an effect that happened", "fd_pread": "is of an effect that happened", "fd_write": "is of an effect that happened", "fd_pwrite": "is of an effect that happened",
	"fd_datasync": "adds nothing", "fd_sync": "adds nothing", "fd_fdstat_set_rights": "takes rights away",

	// As fd_filestat_set_size and path_filestat_set_times, and hostfx tests them.
	"fd_allocate": "the same as another", "fd_filestat_set_times": "the same as another", "fd_fdstat_set_flags": "the same as another",
}

// What a guest does with each import goes well when it is granted, and is refused when
// it is not, and the record says which of the two.
func TestEveryImport(t *testing.T) {
	w := online(t, handler())
	more := w.more.Clone()
	more.Log, more.Plan = true, true
	more.Exec = []call.Exec{{Command: "/bin/sleep", Args: []string{"*"}}}
	s := hostfx.Session{Call: "c", Owner: "alice", ID: "s", Ends: time.Now().Add(time.Hour)}
	run := func(t *testing.T, u use, process string, granted bool) (string, []call.Effect) {
		w.more = call.Caps{}
		modes := append([]string{}, strings.Fields(u.modes)...)
		guest, in := "poke", u.first+u.step
		if granted { // what is opened to write is one effect with what is done to it
			w.more, modes, in = more, everyMode, strings.Replace(in, "wa;", "w;", 1)
		}
		if u.with != nil {
			in = u.with(process).args()
		} else {
			guest, in = "script", `{"s":"`+in+`"}`
		}
		fx := w.inSession(t, s, modes...)
		out, o := w.box.Run(t.Context(), w.install(t, guest), args(t, in), fx)
		if o.Code != call.CodeOK {
			t.Errorf("ended %s: %s", o.Code, o.Stderr)
		}
		return string(out), fx.Close()
	}
	for module, list := range uses {
		for _, u := range list {
			t.Run(module+" "+u.name+" "+u.kind, func(t *testing.T) {
				for _, granted := range []bool{true, false} {
					fresh(t, w)
					must(t, os.MkdirAll(filepath.Join(w.dir, "docs/reports/empty"), 0o755))
					plan := &planner{}
					must(t, plan.Replan(t.Context(), call.PlanOp{By: []call.Task{{ID: "old"}}}))
					s.Plan = plan
					process := ""
					if u.kind == "exec.read" || u.kind == "exec.kill" {
						w.more = more
						fx := w.inSession(t, s)
						var err error
						process, err = fx.Start(t.Context(), hostfx.Command{Path: "/bin/sleep", Args: []string{"86400"}})
						must(t, err)
						fx.Close()
					}
					out, effects := run(t, u, process, granted)
					var codes []string
					for _, e := range effects {
						if e.Kind == u.kind {
							codes = append(codes, e.Code)
						}
					}
					want := []string{"ok"}
					switch {
					case !granted:
						want = []string{"refused"}
					case u.quiet:
						want = nil
					}
					if !slices.Equal(codes, want) {
						t.Errorf("granted %v: recorded as %v, want %v", granted, codes, want)
					}
					number := map[bool]string{true: "0", false: "3"}[granted] // not granted
					if u.step != "" {
						number = map[bool]string{true: "0", false: "2"}[granted] // EACCES
						if u.first != "" {
							_, out, _ = strings.Cut(out, ";")
						}
					}
					if !strings.HasPrefix(out, number) {
						t.Errorf("granted %v: the guest got %.20q, want %s", granted, out, number)
					}
				}
			})
		}
	}
}

// Every function that can be imported has its row: one that is new fails here until it
// has one.
func TestEveryImportIsListed(t *testing.T) {
	w := open(t, sandbox.Options{})
	have := map[string]bool{}
	for module, names := range w.box.Imports() {
		for _, name := range names {
			have[name] = true
			listed := slices.ContainsFunc(uses[module], func(u use) bool { return u.name == name })
			if listed == (noUses[name] != "") {
				t.Errorf("%s.%s has a row of a refusal and a positive case: %v; is said to do nothing: %q", module, name, listed, noUses[name])
			}
		}
	}
	for module, list := range uses {
		for _, u := range list {
			if !slices.Contains(w.box.Imports()[module], u.name) {
				t.Errorf("there is no %s.%s", module, u.name)
			}
		}
	}
	for name := range noUses {
		if !have[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
