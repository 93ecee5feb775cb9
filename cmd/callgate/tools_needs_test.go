package main

import (
	"os"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
)

// importing is a command that imports one function of the module callgate, with i32
// parameters and then an i64 if long.
func importing(name string, params int, long bool) []byte {
	types := append([]byte{2, 0x60, 0, 0, 0x60, byte(params)}, slices.Repeat([]byte{0x7f}, params)...)
	if long {
		types[len(types)-1] = 0x7e
	}
	types = append(types, 1, 0x7f)
	imports := append([]byte{1, 8}, "callgate"...)
	imports = append(append(append(imports, byte(len(name))), name...), 0, 1)
	start := append(append([]byte{1, 6}, "_start"...), 0, 1)
	module := sectioned(1, types...)
	for _, s := range [][]byte{sectioned(2, imports...), sectioned(3, 1, 0), sectioned(5, 1, 0, 1), sectioned(7, start...), sectioned(10, 1, 2, 0, 0x0b)} {
		module = append(module, s[8:]...)
	}
	return module
}

// What each function of the host needs is said, and nothing besides.
func TestNeedsOfFunctions(t *testing.T) {
	const (
		exec = `{"exec":[{"command":"/usr/bin/command","args":[]}]}`
		web  = `{"http":[{"hosts":["api.example.com"],"ports":[443],"methods":["GET"],"paths":["/"],"networks":["public"]}]}`
		plan = `{"plan":true}`
	)
	files := func(modes string) string { return `{"fs":[{"root":"root","path":".","modes":[` + modes + `]}]}` }
	tests := map[string]struct {
		params  int
		grant   string // without bounds
		effects []string
	}{
		"http":          {3, web, []string{"requests over HTTP"}},
		"fs_read":       {3, files(`"read"`), []string{"reading files"}},
		"fs_list":       {3, files(`"list"`), []string{"listing directories"}},
		"fs_stat":       {3, files(`"read"`), []string{"reading files"}},
		"fs_write":      {4, files(`"write"`), []string{"writing files"}},
		"fs_append":     {4, files(`"append"`), []string{"appending to files"}},
		"fs_mkdir":      {2, files(`"write"`), []string{"writing files"}},
		"fs_remove":     {2, files(`"remove"`), []string{"removing files"}},
		"fs_rename":     {4, files(`"remove","write"`), []string{"removing files", "writing files"}},
		"exec":          {3, exec, []string{"running commands"}},
		"exec_start":    {3, exec, []string{"running commands"}},
		"exec_output":   {3, exec, []string{"running commands"}},
		"exec_kill":     {2, exec, []string{"running commands"}},
		"plan":          {1, plan, []string{"the plan of the session"}},
		"task_register": {2, plan, []string{"the plan of the session"}},
		"task_advance":  {4, plan, []string{"the plan of the session"}},
		"task_replan":   {4, plan, []string{"the plan of the session"}},
		"charge":        {3, `{}`, []string{"charges of limits (without a grant)"}},
		"answer":        {2, `{}`, []string{}},
		"log":           {2, `{"log":true}`, []string{"lines of log"}},
	}
	box := newBox(t)
	module, err := os.ReadFile("../../sandbox/testdata/poke.wasm") // which imports all that there are
	mustDo(t, err)
	for _, name := range inspectModule(box, module).Imports["callgate"] {
		if _, ok := tests[name]; !ok {
			t.Errorf("nothing says what %s needs", name)
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := inspectModule(box, importing(name, tt.params, name == "charge"))
			in.Grant.Bounds = call.Bounds{}
			grant, err := json.Marshal(in.Grant)
			mustDo(t, err)
			if in.Refused != "" || string(grant) != tt.grant {
				t.Errorf("refused %q, %s, want %s", in.Refused, grant, tt.grant)
			}
			if d := cmp.Diff(tt.effects, in.Effects); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
			checkInspection(t, in)
		})
	}
}
