package rego

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

var (
	errIrregular = errors.New("not a regular file, OPA would ignore it")
	errUnpacked  = fmt.Errorf("the bundle is larger than %d bytes", int64(maxBundleBytes))
)

// collection is the files of a bundle in memory.
type collection struct {
	files []memFile
	seen  map[string]entry // by folded name: files, directories and those above them
	size  int64

	parts, modules int // of data, and bytes of modules
}

type memFile struct {
	name string
	data []byte
}

type entry struct {
	name string // as it is written
	dir  bool
}

func newCollection() *collection { return &collection{seen: map[string]entry{}} }

// dir notes a directory.
func (c *collection) dir(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return c.note(name, true)
}

// file keeps what r holds.
func (c *collection) file(name string, r io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := c.note(name, false); err != nil {
		return err
	}
	b, err := io.ReadAll(&capped{r, maxBundleBytes - c.size})
	if err != nil {
		return &fault{name, err}
	}
	c.size += int64(len(b))
	if err := c.weigh(name, b); err != nil {
		return &fault{name, err}
	}
	c.files = append(c.files, memFile{name, b})
	return nil
}

// weigh bounds what OPA would make of a file before anybody parses it.
func (c *collection) weigh(name string, b []byte) error {
	switch base := path.Base(name); {
	case isModule(name):
		if c.modules += len(b); c.modules > maxModuleBytes {
			return fmt.Errorf("the modules are larger than %d bytes", maxModuleBytes)
		}
	case base == "data.yaml" || base == "data.yml":
		if len(b) > maxYAMLBytes {
			return fmt.Errorf("is larger than %d bytes, the most for YAML; write it as data.json", maxYAMLBytes)
		}
	case base == "data.json" || base == manifestFile:
		// Whatever stands in texts is counted as well: rather too many than parsed.
		for _, mark := range []string{",", ":", "[", "{"} {
			c.parts += bytes.Count(b, []byte(mark))
		}
		if c.parts > maxDataParts {
			return fmt.Errorf("the data has more than %d keys, values and elements", maxDataParts)
		}
	}
	return nil
}

// note makes sure that a name means one thing, also where case does not count.
func (c *collection) note(name string, dir bool) error {
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if err := c.noteOne(above, true); err != nil {
			return err
		}
	}
	return c.noteOne(name, dir)
}

func (c *collection) noteOne(name string, dir bool) error {
	key := cases.Fold().String(name)
	before, ok := c.seen[key]
	switch {
	case ok && (before.name != name || !before.dir || !dir):
		return &fault{name, errors.New("occurs twice, or differs from another name only in case")}
	case !ok && len(c.seen) >= maxBundleFiles:
		return fmt.Errorf("the bundle has more than %d files and directories", maxBundleFiles)
	}
	c.seen[key] = entry{name, dir}
	return nil
}

// checkName takes clean relative names of one meaning on every system.
func checkName(name string) error {
	switch {
	case len(name) > maxFileName:
		return fmt.Errorf("a file's name is longer than %d bytes", maxFileName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || !unicode.IsPrint(r) }):
		return fmt.Errorf("%q: a file's name has characters that names do not have", name)
	case !fs.ValidPath(name) || name == ".":
		return fmt.Errorf("%q: a file's name is not clean and relative", name)
	}
	return nil
}

// fs gives the files as a file system: an uncompressed archive of the kind that
// the standard library reads as one.
func (c *collection) fs() (fs.FS, error) {
	var b bytes.Buffer
	b.Grow(int(c.size) + len(c.files)*256)
	w := zip.NewWriter(&b)
	for i := range c.files {
		f := &c.files[i]
		out, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(f.data); err != nil {
			return nil, err
		}
		f.data = nil
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}
