package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
)

// opened is a store, a runtime that reads it, and the artefact of probe.
func opened(t testing.TB) (*store, wazero.Runtime, []byte) {
	t.Helper()
	s, cache, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rt := wazero.NewRuntimeWithConfig(t.Context(), engineConfig(cache))
	t.Cleanup(func() { rt.Close(context.Background()); cache.Close(context.Background()) })
	if _, err := rt.CompileModule(t.Context(), []byte(probe)); err != nil {
		t.Fatal(err)
	}
	artefact, err := s.take([]byte(probe))
	if err != nil {
		t.Fatal(err)
	}
	return s, rt, artefact
}

// What wazero would believe is refused where it cannot be.
func TestVerifyArtefact(t *testing.T) {
	s, _, good := opened(t)
	wasm := []byte(probe)
	if err := s.verify(good, wasm); err != nil {
		t.Fatalf("verify() = %v of what wazero wrote", err)
	}
	functions := len(magic) + 1 + len(s.version)
	offset, size := functions+4, functions+12
	edit := func(at int, v uint64) []byte {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	flipped := slices.Clone(good)
	flipped[size+8] ^= 1
	mapped := slices.Clone(good)
	mapped[len(mapped)-5] = 1
	for name, b := range map[string][]byte{
		"nothing":             nil,
		"a word":              []byte(magic),
		"cut":                 good[:len(good)-1],
		"cut in the code":     good[:size+9],
		"more":                append(slices.Clone(good), 0),
		"another beginning":   append([]byte("w"), good[1:]...),
		"another version":     bytes.Replace(good, []byte(s.version), bytes.Repeat([]byte("9"), len(s.version)), 1),
		"too many functions":  edit(functions, 1<<32-1),
		"no function":         edit(functions, 0),
		"a function outside":  edit(offset, 1<<40),
		"a negative function": edit(offset, 1<<63),
		"much code":           edit(size, 1<<62),
		"no code":             edit(size, 0),
		"other code":          flipped,
		"a map of the source": mapped,
	} {
		if err := s.verify(b, wasm); !errors.Is(err, errNotArtefact) {
			t.Errorf("%s: verify() = %v", name, err)
		}
	}
	if err := s.verify(good, []byte("\x00asm\x01\x00\x00\x00")); !errors.Is(err, errNotArtefact) {
		t.Errorf("verify() = %v of a module without functions", err)
	}
}

// What verify lets pass wazero loads without a fault, and finds.
func FuzzVerifyArtefact(f *testing.F) {
	s, rt, good := opened(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(magic + "\x07v1.12.0\x01\x00\x00\x00"))
	wasm := []byte(probe)
	f.Fuzz(func(t *testing.T, b []byte) {
		if s.verify(b, wasm) != nil {
			return
		}
		m, err := s.load(t.Context(), rt, wasm, b)
		if err != nil {
			t.Fatalf("verify is content and load says %v", err)
		}
		m.Close(t.Context())
	})
}

// A store that was cleaned away is made again, and one that may be somebody else's
// by now is not used.
func TestStoreIsOurs(t *testing.T) {
	s, rt, artefact := opened(t)
	load := func() error {
		m, err := s.load(t.Context(), rt, []byte(probe), artefact)
		if err == nil {
			m.Close(t.Context())
		}
		return err
	}
	other := t.TempDir()
	for _, tt := range []struct {
		name string
		make func() error
		ok   bool
	}{
		{"removed", func() error { return nil }, true},
		{"open to others", func() error { return errors.Join(os.Mkdir(s.dir, 0o700), os.Chmod(s.dir, 0o755)) }, false},
		{"a link", func() error { return os.Symlink(other, s.dir) }, false},
		{"a link within", func() error { return errors.Join(os.Mkdir(s.dir, 0o700), os.Symlink(other, s.inside)) }, false},
	} {
		if err := errors.Join(os.RemoveAll(s.dir), tt.make()); err != nil {
			t.Fatal(err)
		}
		if err := load(); (err == nil) != tt.ok {
			t.Errorf("%s: load() = %v", tt.name, err)
		}
	}
}
