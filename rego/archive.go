package rego

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Archive reads a bundle from a gzipped tar file, as `opa build -b DIR` writes it,
// into memory.
//
// Names may begin with "/" or "./". opa puts the modules below DIR, as it was
// spelt; DIR is dropped, so that the base library is at callgate/ again.
//
// # Errors
//
// Refused are archives of more than 64 MiB, or 128 MiB unpacked, or 10,000 files
// and directories; anything but those two; names with "..", twice or differing
// only in case; and whatever comes after the end of the archive, a second gzip
// member too: tools disagree about whether it counts.
func Archive(r io.Reader) (fs.FS, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxArchiveBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxArchiveBytes {
		return nil, fmt.Errorf("the archive is larger than %d bytes", int64(maxArchiveBytes))
	}
	in := bytes.NewReader(b) // read byte by byte where gzip needs it, so not beyond the end
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	c, err := unpack(&capped{z, maxBundleBytes})
	if err != nil {
		return nil, err
	}
	if in.Len() > 0 {
		return nil, errors.New("something follows the end of the archive")
	}
	if c, err = c.rebased(); err != nil {
		return nil, err
	}
	return c.fs()
}

func unpack(r io.Reader) (*collection, error) {
	c := newCollection()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return c, onlyZeros(r)
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(h.Name, "/")
		if name == h.Name {
			name = strings.TrimPrefix(h.Name, "./")
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = c.file(name, t)
		case tar.TypeDir:
			if name = strings.TrimSuffix(name, "/"); name != "" && name != "." {
				err = c.dir(name)
			}
		default:
			err = fmt.Errorf("%q: neither a file nor a directory", name)
		}
		if err != nil {
			return nil, err
		}
	}
}

// onlyZeros reads the padding after the end of a tar file.
func onlyZeros(r io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		if bytes.ContainsFunc(b[:n], func(r rune) bool { return r != 0 }) {
			return errors.New("something follows the end of the archive")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// rebased puts the base library at the top, where it is looked for: if all modules
// lie below one directory, with the library at callgate/ in it, their names lose
// that directory. OPA knows modules by the packages they name, so to it this
// changes nothing. Data has names that count, so next to modules it is refused.
func (c *collection) rebased() (*collection, error) {
	root := c.root()
	if root == "." {
		return c, nil
	}
	to := newCollection()
	for _, f := range c.files {
		name, below := strings.CutPrefix(f.name, root+"/")
		if below && !isModule(name) {
			return nil, &fault{f.name, fmt.Errorf("lies below %q, so OPA would read its data from there; pack what is in that directory, not the directory", root)}
		}
		if err := to.note(name, false); err != nil {
			return nil, err
		}
		to.files = append(to.files, memFile{name, f.data})
	}
	to.size = c.size
	return to, nil
}

// root is the directory that [collection.rebased] drops, or ".".
func (c *collection) root() string {
	root := ""
	for _, f := range c.files {
		if !isModule(f.name) {
			continue
		}
		if root == "" {
			root = path.Dir(f.name)
		}
		for root != "." && !strings.HasPrefix(f.name, root+"/") {
			root = path.Dir(root)
		}
	}
	library := strings.TrimSuffix(vendored, "/")
	switch {
	case slices.ContainsFunc(c.files, func(f memFile) bool { return isModule(f.name) && strings.HasPrefix(f.name, root+"/"+vendored) }):
		return root
	case path.Base(root) == library: // there are no rules beside it
		return path.Dir(root)
	}
	return "."
}

func isModule(name string) bool { return strings.HasSuffix(name, ".rego") }
