package local_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/sandbox"
)

// stepImports are the functions of the host that the steps of the guest call.
var stepImports = map[string][]string{
	"read": {"fs_read"}, "list": {"fs_list"}, "stat": {"fs_stat"}, "write": {"fs_write"}, "append": {"fs_append"}, "mkdir": {"fs_mkdir"},
	"remove": {"fs_remove"}, "rename": {"fs_rename"}, "http": {"http"}, "log": {"log"}, "charge": {"charge"},
	"exec": {"exec"}, "start": {"exec_start"}, "output": {"exec_output"}, "kill": {"exec_kill"}, "follow": {"exec_start", "exec_output", "exec_kill"},
	"plan": {"plan"}, "register": {"task_register"}, "advance": {"task_advance"}, "replan": {"task_replan"},
}

// Every function that guests can import is attacked, and used as it may be. The guest
// poke of package sandbox imports them all.
func TestEveryImportIsAttacked(t *testing.T) {
	module, err := os.ReadFile("../../sandbox/testdata/poke.wasm")
	mustDo(t, err)
	box, err := sandbox.New(t.Context(), sandbox.Options{})
	mustDo(t, err)
	t.Cleanup(func() { box.Close(context.Background()) })
	d, err := box.Describe(module)
	mustDo(t, err)
	var all []string
	for _, i := range d.Module.Imports {
		if i.Module == "callgate" && i.Name != "answer" { // which gives what others asked for
			all = append(all, i.Name)
		}
	}
	slices.Sort(all)
	refused, used := map[string]bool{}, map[string]bool{}
	a := &arena{}
	for _, tt := range slices.Concat(a.fileAttacks(), a.webAttacks(), a.otherAttacks()) {
		for _, s := range tt.refused.steps {
			for _, name := range stepImports[s.Do] {
				refused[name] = true
			}
		}
		for _, s := range tt.control.steps {
			for _, name := range stepImports[s.Do] {
				used[name] = true
			}
		}
	}
	for what, names := range map[string]map[string]bool{"refused": refused, "used": used} {
		if d := cmp.Diff(all, slices.Sorted(maps.Keys(names))); d != "" {
			t.Errorf("functions that are %s (-there are +tested):\n%s", what, d)
		}
	}
}
