// Package wasi is the host's side of wasi_snapshot_preview1.
//
// A [State] is everything that one call of a guest sees through it: descriptors
// with their rights, standard input and output, the granted directories, clocks
// and randomness. [Functions] are what a module may import; each works on a State
// and the guest's memory, and on nothing else.
//
// # Bounds
//
// Every pointer and length is checked before anything is done. What a function
// does for one call is bounded: 1,024 buffers that together are no larger than
// the memory, paths of 4,096 bytes, 1,024 subscriptions, 1 MiB of directory
// entries, 16 MiB of randomness for the whole State; and where that takes long it
// looks at the clock in between, by [Run].
package wasi

import (
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
)

// ModuleName is what guests import the functions from.
const ModuleName = "wasi_snapshot_preview1"

// Limits of one call of a function.
const (
	maxVectors = 1024 // as IOV_MAX
	maxPath    = 4096 // bytes, as PATH_MAX
	maxPolled  = 1024 // subscriptions
	maxDirents = 1 << 20
	chunk      = 256 << 10 // bytes moved between two looks at the clock
)

// Function is one function that guests may import.
type Function struct {
	Name            string
	Params, Results []api.ValueType

	do func(*State) errno
}

// Call runs the function on a State for a guest with this memory. args are the
// parameters; the error number, if it has one, goes to args[0]. It panics only
// where a method of [Run] does.
func (f *Function) Call(s *State, mem api.Memory, args []uint64) {
	s.mem, s.args = mem, args
	n := f.do(s)
	s.mem, s.args = nil, nil
	if len(f.Results) > 0 {
		args[0] = uint64(n)
	}
}

// Functions are all functions of wasi_snapshot_preview1.
var Functions = []Function{
	function("args_get", "ii", (*State).argsGet),
	function("args_sizes_get", "ii", (*State).argsSizesGet),
	function("clock_res_get", "ii", (*State).clockResGet),
	function("clock_time_get", "iIi", (*State).clockTimeGet),
	function("environ_get", "ii", (*State).environGet),
	function("environ_sizes_get", "ii", (*State).environSizesGet),
	function("fd_advise", "iIIi", (*State).fdAdvise),
	function("fd_allocate", "iII", (*State).fdAllocate),
	function("fd_close", "i", (*State).fdClose),
	function("fd_datasync", "i", (*State).fdDatasync),
	function("fd_fdstat_get", "ii", (*State).fdFdstatGet),
	function("fd_fdstat_set_flags", "ii", (*State).fdFdstatSetFlags),
	function("fd_fdstat_set_rights", "iII", (*State).fdFdstatSetRights),
	function("fd_filestat_get", "ii", (*State).fdFilestatGet),
	function("fd_filestat_set_size", "iI", (*State).fdFilestatSetSize),
	function("fd_filestat_set_times", "iIIi", (*State).fdFilestatSetTimes),
	function("fd_pread", "iiiIi", (*State).fdPread),
	function("fd_prestat_dir_name", "iii", (*State).fdPrestatDirName),
	function("fd_prestat_get", "ii", (*State).fdPrestatGet),
	function("fd_pwrite", "iiiIi", (*State).fdPwrite),
	function("fd_read", "iiii", (*State).fdRead),
	function("fd_readdir", "iiiIi", (*State).fdReaddir),
	function("fd_renumber", "ii", (*State).fdRenumber),
	function("fd_seek", "iIii", (*State).fdSeek),
	function("fd_sync", "i", (*State).fdSync),
	function("fd_tell", "ii", (*State).fdTell),
	function("fd_write", "iiii", (*State).fdWrite),
	function("path_create_directory", "iii", (*State).pathCreateDirectory),
	function("path_filestat_get", "iiiii", (*State).pathFilestatGet),
	function("path_filestat_set_times", "iiiiIIi", (*State).pathFilestatSetTimes),
	function("path_link", "iiiiiii", (*State).pathLink),
	function("path_open", "iiiiiIIii", (*State).pathOpen),
	function("path_readlink", "iiiiii", (*State).pathReadlink),
	function("path_remove_directory", "iii", (*State).pathRemoveDirectory),
	function("path_rename", "iiiiii", (*State).pathRename),
	function("path_symlink", "iiiii", (*State).pathSymlink),
	function("path_unlink_file", "iii", (*State).pathUnlinkFile),
	function("poll_oneoff", "iiii", (*State).pollOneoff),
	{Name: "proc_exit", Params: types("i"), do: (*State).procExit},
	function("proc_raise", "i", func(*State) errno { return nosys }),
	function("random_get", "ii", (*State).randomGet),
	function("sched_yield", "", (*State).schedYield),
	function("sock_accept", "iii", (*State).noSocket),
	function("sock_recv", "iiiiii", (*State).noSocket),
	function("sock_send", "iiiii", (*State).noSocket),
	function("sock_shutdown", "ii", (*State).noSocket),
}

func function(name, params string, do func(*State) errno) Function {
	return Function{Name: name, Params: types(params), Results: types("i"), do: do}
}

// types spells a list of parameters: i for 32 bits, I for 64.
func types(s string) []api.ValueType {
	list := []api.ValueType{}
	for _, c := range s {
		if c == 'I' {
			list = append(list, api.ValueTypeI64)
		} else {
			list = append(list, api.ValueTypeI32)
		}
	}
	return list
}

// u32 and u64 are parameters.
func (s *State) u32(i int) uint32 { return uint32(s.args[i]) }
func (s *State) u64(i int) uint64 { return s.args[i] }

// bytes are a piece of the guest's memory, or nil if it does not lie in there.
// An empty piece must lie in there, too, and is not nil.
func (s *State) bytes(at, n uint32) []byte {
	b, ok := s.mem.Read(at, n)
	if !ok {
		return nil
	}
	if b == nil {
		return []byte{}
	}
	return b
}

// param is the piece of memory of n bytes whose address is a parameter.
func (s *State) param(i int, n uint32) []byte { return s.bytes(s.u32(i), n) }

func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }
