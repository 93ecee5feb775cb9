package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callgate/callgate/engine/call"
)

// Load reads the tool in dir: tool.yaml and, for a tool of kind wasm, the module
// beside it; for others the module is nil. Both are regular files, not links, and
// both are read from the directory that dir names when Load begins.
//
// # Errors
//
// Those of [Parse], a file that is missing, a link or too large, and, with
// [call.CodeToolChanged], a module whose SHA-256 is not the manifest's.
func Load(dir string) (*Manifest, []byte, error) {
	f, err := Read(Source{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	return f.Manifest, f.Module, nil
}

// Source says where the files of a tool are, and how they are read.
type Source struct {
	Dir string

	// Manifest is the text of the tool.yaml when that comes from elsewhere, such as a
	// signed bundle: of Dir only the module is read, and only if it is the one that
	// the manifest names by its SHA-256. For kinds without a module Dir need not be
	// there. Nil means the one in Dir.
	Manifest []byte

	// Edited is for a tool that is being worked on: whatever module is there is the
	// one that the manifest means.
	Edited bool
}

// Files are the files of a tool as they were read.
type Files struct {
	Manifest *Manifest // that names Module
	Module   []byte    // nil for kinds without one

	// Stated is the digest of the manifest as it stands, where that names another
	// module than the one that is there.
	Stated string

	dir  string
	seen map[string]fs.FileInfo // by name
}

// Read is [Load] for all sources.
func Read(s Source) (*Files, error) {
	f, err := read(s)
	if err != nil {
		return nil, fmt.Errorf("tool in %s: %w", s.Dir, err)
	}
	return f, nil
}

func read(s Source) (*Files, error) {
	f := &Files{dir: s.Dir, seen: map[string]fs.FileInfo{}}
	var err error
	if s.Manifest != nil {
		if f.Manifest, err = Parse(s.Manifest); err != nil || f.Manifest.Kind != "wasm" {
			return f, err
		}
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if s.Manifest == nil {
		src, err := f.file(root, FileName, MaxManifestBytes)
		if err != nil {
			return nil, err
		}
		if f.Manifest, err = Parse(src); err != nil {
			return nil, err
		}
	}
	if f.Manifest.Kind != "wasm" {
		return f, nil
	}
	if f.Module, err = f.file(root, f.Manifest.Module, MaxModuleBytes); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	sum := sha256.Sum256(f.Module)
	is := hex.EncodeToString(sum[:])
	if is == f.Manifest.SHA256 {
		return f, nil
	}
	if !s.Edited {
		return nil, &call.Error{
			Code:   call.CodeToolChanged,
			Detail: fmt.Sprintf("module: %s does not have the sha256 that %s states", f.Manifest.Module, FileName),
		}
	}
	f.Stated = f.Manifest.Digest()
	f.Manifest, err = f.Manifest.naming(is)
	return f, err
}

// Changed reports whether the files may be others than those that were read. It
// looks at their sizes and times alone.
func (f *Files) Changed() bool {
	for name, was := range f.seen {
		is, err := os.Lstat(filepath.Join(f.dir, name))
		if err != nil || !os.SameFile(was, is) || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime()) || !is.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func (f *Files) file(root *os.Root, name string, most int64) ([]byte, error) {
	b, info, err := readFile(root, name, most)
	f.seen[name] = info
	return b, err
}

// readFile reads a regular file. Looking before opening keeps a pipe from
// blocking us; looking again keeps a swapped file out.
func readFile(root *os.Root, name string, most int64) ([]byte, fs.FileInfo, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !os.SameFile(before, after) {
		return nil, nil, fmt.Errorf("%s changed while it was opened", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, nil, err
	case int64(len(b)) > most:
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	case len(b) == 0:
		return nil, nil, errors.New(name + " is empty")
	}
	return b, after, nil
}
