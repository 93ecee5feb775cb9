package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/cpu"
)

// store is a directory that wazero reads compiled modules from. Only this
// process uses it, and a module lies in it only while wazero loads it, so that
// what was checked is what is loaded.
type store struct {
	dir     string
	inside  string // where wazero looks
	version string // of wazero, as it names its own
}

// magic is how every artefact of wazero's compiler begins.
const magic = "WAZEVO"

// maxArtefact bounds what compiling may give, by the size of the module: five
// times as much is usual.
func maxArtefact(wasm int) int64 { return 1<<20 + 32*int64(wasm) }

// openStore makes a store, and a cache of wazero's that reads from it.
func openStore(parent string) (*store, wazero.CompilationCache, error) {
	dir, err := os.MkdirTemp(parent, "callgate-")
	if err != nil {
		return nil, nil, err
	}
	s := &store{dir: dir}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err == nil {
		err = s.find()
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, cache, nil
}

// find learns where wazero looks. It says its version nowhere else.
func (s *store) find() error {
	found, err := os.ReadDir(s.dir)
	if err != nil || len(found) != 1 {
		return errors.Join(errOtherStore, err)
	}
	s.inside = filepath.Join(s.dir, found[0].Name())
	version, before := strings.CutPrefix(found[0].Name(), "wazero-")
	version, after := strings.CutSuffix(version, "-"+runtime.GOARCH+"-"+runtime.GOOS)
	if !before || !after || len(version) > 127 {
		return errOtherStore
	}
	s.version = version
	return nil
}

func (s *store) close() error { return os.RemoveAll(s.dir) }

var errOtherStore = errors.New("this version of wazero keeps compiled modules in another way than the one that Callgate knows")

// probe is a module with one function that does nothing.
const probe = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x0a\x04\x01\x02\x00\x0b"

// check compiles probe and looks whether it lies where wazero would look for it,
// and in the form that we know. If not, load would compile in this process.
func (s *store) check(ctx context.Context, rt wazero.Runtime) error {
	wasm := []byte(probe)
	m, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	artefact, err := s.take(wasm)
	if err != nil {
		return fmt.Errorf("%w: %w", errOtherStore, err)
	}
	if err := s.verify(artefact, wasm); err != nil {
		return fmt.Errorf("%w: %w", errOtherStore, err)
	}
	return nil
}

// take removes the artefact of wasm from the store and returns it.
func (s *store) take(wasm []byte) ([]byte, error) {
	name := filepath.Join(s.inside, artefactName(wasm))
	b, err := os.ReadFile(name)
	return b, errors.Join(err, os.Remove(name))
}

// load makes a compiled module of its artefact, which verify was content with.
func (s *store) load(ctx context.Context, rt wazero.Runtime, wasm, artefact []byte) (m wazero.CompiledModule, err error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	name := filepath.Join(s.inside, artefactName(wasm))
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	if err := os.WriteFile(name, artefact, 0o600); err != nil {
		return nil, err
	}
	return rt.CompileModule(ctx, wasm)
}

// artefactName is the name that wazero looks for: what the module is, the form,
// and what the processor can do. check knows when that is no longer so.
func artefactName(wasm []byte) string {
	h := sha256.New()
	h.Write(wasm)
	h.Write([]byte{0}) // without checks of the context in loops
	id := h.Sum(nil)
	h.Reset()
	h.Write(id)
	h.Write([]byte(magic))
	h.Write(binary.LittleEndian.AppendUint64(nil, processor()))
	return hex.EncodeToString(h.Sum(nil))
}

// processor is what wazero's compiler makes use of, if it is there.
func processor() (flags uint64) {
	for i, has := range map[string][]bool{
		"amd64": {cpu.X86.HasSSE41, cpu.X86.HasBMI1, cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT},
		"arm64": {cpu.ARM64.HasATOMICS},
	}[runtime.GOARCH] {
		if has {
			flags |= 1 << i
		}
	}
	return flags
}

var errNotArtefact = errors.New("what was compiled is not in the form that belongs to the module")

// verify refuses what wazero would stumble over, or allocate much for: it trusts
// every number in an artefact. The code in it is beyond checking.
func (s *store) verify(artefact, wasm []byte) error {
	head := magic + string(rune(len(s.version))) + s.version
	rest, ok := bytes.CutPrefix(artefact, []byte(head))
	if !ok {
		return fmt.Errorf("%w: it begins otherwise, or another version of wazero compiled it", errNotArtefact)
	}
	var functions uint32
	if functions, rest, ok = cut32(rest); !ok || functions != countFunctions(wasm) || uint64(len(rest)) < 8*uint64(functions)+8 {
		return fmt.Errorf("%w: number of functions", errNotArtefact)
	}
	offsets := rest[:8*functions]
	size := binary.LittleEndian.Uint64(rest[8*functions:])
	if rest = rest[8*functions+8:]; size == 0 || size > uint64(len(rest)) {
		return fmt.Errorf("%w: size of the code", errNotArtefact)
	}
	for ; len(offsets) > 0; offsets = offsets[8:] {
		if binary.LittleEndian.Uint64(offsets) >= size {
			return fmt.Errorf("%w: place of a function", errNotArtefact)
		}
	}
	code, rest := rest[:size], rest[size:]
	sum, rest, ok := cut32(rest)
	if !ok || sum != crc32.Checksum(code, crc32.MakeTable(crc32.Castagnoli)) {
		return fmt.Errorf("%w: checksum", errNotArtefact)
	}
	if string(rest) != "\x00\x00\x00\x00\x00" { // no map of the source, no exceptions
		return fmt.Errorf("%w: its end", errNotArtefact)
	}
	return nil
}

func cut32(b []byte) (uint32, []byte, bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint32(b), b[4:], true
}

// countFunctions is the number of functions in the module itself. The module is
// one that meter wrote.
func countFunctions(wasm []byte) uint32 {
	const header, codeSection = 8, 10
	for b := wasm[min(header, len(wasm)):]; len(b) > 0; {
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size > uint64(len(b)-1-n) {
			return 0
		}
		body := b[1+n : 1+n+int(size)]
		if b[0] == codeSection {
			count, _ := binary.Uvarint(body)
			return uint32(count)
		}
		b = b[1+n+int(size):]
	}
	return 0
}

// engineConfig is how modules are compiled, here and in the compile child.
//
// Not WithCloseOnContextDone: it misses recursion and slows loops tenfold.
// Guests are stopped by what meter injects.
func engineConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false).WithCompilationCache(cache)
}
