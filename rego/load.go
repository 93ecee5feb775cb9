package rego

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// The most that a bundle may be, as an archive and unpacked.
const (
	maxArchiveBytes = 64 << 20
	maxBundleBytes  = 128 << 20
	maxBundleFiles  = 10_000 // with directories
	maxFileName     = 1024   // bytes, with directories

	// OPA makes many times the bytes of these: a hundred of the two in [].
	maxDataParts   = 4_000_000 // keys, values and elements in the JSON of data and manifest
	maxYAMLBytes   = 8 << 20   // of one file
	maxModuleBytes = 16 << 20
)

// ArchiveSuffix is how the names of archives end.
const ArchiveSuffix = ".tar.gz"

// Load reads all of a bundle into memory, once: what is checked there is what
// decides, whatever happens to the files meanwhile. The bundle is a directory or,
// if path ends in [ArchiveSuffix], an archive as `opa build -b` writes it.
//
// # Errors
//
// Load says what [Archive] says, and refuses the same of a directory.
//
// Both refuse data of more than 4,000,000 keys, values and elements, YAML of more than
// 8 MiB in a file, and modules of more than 16 MiB, for these take many times as much
// in memory.
func Load(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return loadDir(path)
	case !info.Mode().IsRegular() || !strings.HasSuffix(path, ArchiveSuffix):
		return nil, &fault{path, fmt.Errorf("is neither a directory nor a file NAME%s", ArchiveSuffix)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fsys, err := Archive(f)
	if err != nil {
		return nil, &fault{path, err}
	}
	return fsys, nil
}

func loadDir(path string) (fs.FS, error) {
	// One directory from the first file to the last, even if another takes its name.
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c := newCollection()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return c.dir(name)
		}
		if !d.Type().IsRegular() {
			return &fault{name, errIrregular}
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		// What stands there now: a pipe would block, and anything may grow.
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return &fault{name, errIrregular}
		}
		return c.file(name, f)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c.fs()
}

// capped reads at most left bytes and fails on the next one.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errUnpacked
	}
	return n, err
}
