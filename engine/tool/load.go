package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Load reads the tool in dir: tool.yaml and, for a tool of kind wasm, the module
// beside it; for others the module is nil. Both are regular files, not links, and
// both are read from the directory that dir names when Load begins.
//
// # Errors
//
// Those of [Parse], a file that is missing, a link or too large, and a module
// whose SHA-256 is not the manifest's.
func Load(dir string) (*Manifest, []byte, error) { return loadFrom(dir, nil) }

// LoadWith is [Load] for a manifest that comes from elsewhere, such as a signed
// bundle: of dir only the module is read, and only if it is the one that the manifest
// names by its SHA-256. For other kinds dir need not be there.
func LoadWith(manifest []byte, dir string) (*Manifest, []byte, error) {
	m, err := Parse(manifest)
	if err != nil || m.Kind != "wasm" {
		return m, nil, err
	}
	return loadFrom(dir, manifest)
}

func loadFrom(dir string, manifest []byte) (*Manifest, []byte, error) {
	m, module, err := load(dir, manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("tool in %s: %w", dir, err)
	}
	return m, module, nil
}

func load(dir string, src []byte) (*Manifest, []byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = root.Close() }()

	if src == nil {
		if src, err = readFile(root, FileName, MaxManifestBytes); err != nil {
			return nil, nil, err
		}
	}
	m, err := Parse(src)
	if err != nil || m.Kind != "wasm" {
		return m, nil, err
	}
	module, err := readFile(root, m.Module, MaxModuleBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("module: %w", err)
	}
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, nil, fmt.Errorf("module: %s does not have the sha256 that %s states", m.Module, FileName)
	}
	return m, module, nil
}

// readFile reads a regular file. Looking before opening keeps a pipe from
// blocking us; looking again keeps a swapped file out.
func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, after) {
		return nil, fmt.Errorf("%s changed while it was opened", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > most:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	case len(b) == 0:
		return nil, errors.New(name + " is empty")
	}
	return b, nil
}
