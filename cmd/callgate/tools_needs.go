package main

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/meter"
)

// wasiModes are the modes of directories without which functions of WASI do nothing.
// With path_open a guest may also write, which its imports do not tell.
var wasiModes = map[string][]string{
	"path_open":               {call.ModeRead},
	"path_filestat_get":       {call.ModeRead},
	"path_readlink":           {call.ModeRead},
	"fd_readdir":              {call.ModeList},
	"fd_pwrite":               {call.ModeWrite},
	"fd_allocate":             {call.ModeWrite},
	"fd_filestat_set_size":    {call.ModeWrite},
	"fd_filestat_set_times":   {call.ModeWrite},
	"path_create_directory":   {call.ModeWrite},
	"path_filestat_set_times": {call.ModeWrite},
	"path_link":               {call.ModeWrite},
	"path_symlink":            {call.ModeWrite},
	"path_rename":             {call.ModeWrite, call.ModeRemove},
	"path_unlink_file":        {call.ModeRemove},
	"path_remove_directory":   {call.ModeRemove},
}

const wasiModule = "wasi_snapshot_preview1"

// ownModes are the same of functions of the module callgate. Where there are two for
// one, the grant needs them both.
var ownModes = map[string][]string{
	"fs_read":   {call.ModeRead},
	"fs_list":   {call.ModeList},
	"fs_stat":   {call.ModeRead},
	"fs_write":  {call.ModeWrite},
	"fs_append": {call.ModeAppend},
	"fs_mkdir":  {call.ModeWrite},
	"fs_remove": {call.ModeRemove},
	"fs_rename": {call.ModeWrite, call.ModeRemove},
}

// modeEffects are what modes are good for.
var modeEffects = map[string]string{
	call.ModeRead: "reading files", call.ModeList: "listing directories", call.ModeAppend: "appending to files",
	call.ModeWrite: "writing files", call.ModeRemove: "removing files",
}

// needs fills in what the imports are good for.
func (in *inspection) needs() {
	own := func(name string) bool { return slices.Contains(in.Imports["callgate"], name) }
	modes := map[string]bool{}
	for module, of := range map[string]map[string][]string{"callgate": ownModes, wasiModule: wasiModes} {
		for _, name := range in.Imports[module] {
			for _, m := range of[name] {
				modes[m] = true
			}
		}
	}
	if len(modes) > 0 {
		fs := call.FS{Root: "root", Path: ".", Modes: slices.Sorted(maps.Keys(modes))}
		in.Grant.FS = []call.FS{fs}
		for _, m := range fs.Modes {
			in.Effects = append(in.Effects, modeEffects[m])
		}
		if slices.Contains(in.Imports[wasiModule], "path_open") && !modes[call.ModeWrite] {
			in.Effects = append(in.Effects, "perhaps writing files (then the grant needs write or append)")
		}
	}
	if own("http") {
		in.Effects = append(in.Effects, "requests over HTTP")
		in.Grant.HTTP = []call.HTTP{{
			Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/"}, Networks: []string{"public"},
		}}
	}
	if own("exec") || own("exec_start") || own("exec_output") || own("exec_kill") {
		in.Effects = append(in.Effects, "running commands")
		in.Grant.Exec = []call.Exec{{Command: "/usr/bin/command", Args: []string{}}}
	}
	if own("plan") || own("task_register") || own("task_advance") || own("task_replan") {
		in.Effects = append(in.Effects, "the plan of the session")
		in.Grant.Plan = true
	}
	if own("log") {
		in.Effects = append(in.Effects, "lines of log")
		in.Grant.Log = true
	}
	if own("charge") {
		in.Effects = append(in.Effects, "charges of limits (without a grant)")
	}
}

// sizes says how far the module is from the limits of modules: what can be read of one
// that nobody has checked.
func sizes(module []byte) []measure {
	l := meter.DefaultLimits()
	out := []measure{{"bytes", int64(len(module)), int64(l.Module)}}
	of := map[byte]*measure{
		1: {"types", 0, int64(l.Types)}, 2: {"imports", 0, int64(l.Imports)}, 3: {"functions", 0, int64(l.Functions)},
		4: {"tables", 0, int64(l.Tables)}, 6: {"globals", 0, int64(l.Globals)}, 7: {"exports", 0, int64(l.Exports)},
		9: {"element segments", 0, int64(l.Elements)}, 11: {"data segments", 0, int64(l.Data)},
	}
	body := measure{"bytes of the largest function", 0, int64(l.Body)}
	if len(module) < 8 || string(module[:8]) != "\x00asm\x01\x00\x00\x00" {
		return out
	}
	for rest := module[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			break
		}
		section := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		count, n := binary.Uvarint(section)
		if n <= 0 || count > 1<<32-1 {
			continue
		}
		if m := of[id]; m != nil {
			m.Value = int64(count)
		}
		if id == 10 {
			body.Value = largest(section[n:])
		}
	}
	for _, id := range []byte{1, 2, 3, 4, 6, 7, 9, 11} {
		if of[id].Value > 0 {
			out = append(out, *of[id])
		}
	}
	if body.Value > 0 {
		out = append(out, body)
	}
	return out
}

// largest is the size of the largest of the bodies that follow each other.
func largest(bodies []byte) (most int64) {
	for len(bodies) > 0 {
		size, n := binary.Uvarint(bodies)
		if n <= 0 || size > uint64(len(bodies)-n) {
			break
		}
		most = max(most, int64(size))
		bodies = bodies[n+int(size):]
	}
	return most
}
