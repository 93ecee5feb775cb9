package rego

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/tools/txtar"
)

// The most that a corpus may be.
const (
	maxCorpusFile  = 16 << 20 // bytes
	maxCorpusCases = 100_000
)

// ReadCorpus reads calls to compare policies by: each file NAME.json is one input, as
// [ParseInput] reads it, and each section NAME.json of a file NAME.txtar another.
//
// # Errors
//
// Whatever else is in fsys, but for files that begin with a dot and README.md, is an
// error: a call that nobody reads would be one that nobody compares.
func ReadCorpus(fsys fs.FS) ([]Case, error) {
	var out []Case
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") || d.Name() == "README.md" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxCorpusFile {
			return &fault{name, fmt.Errorf("is no regular file of at most %d bytes", maxCorpusFile)}
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		cases, err := corpusCases(name, b)
		if out = append(out, cases...); len(out) > maxCorpusCases {
			return fmt.Errorf("rego: more than %d calls", maxCorpusCases)
		}
		return err
	})
	return out, err
}

func corpusCases(name string, b []byte) ([]Case, error) {
	one := func(name string, b []byte) (Case, error) {
		in, err := ParseInput(b)
		if err != nil {
			return Case{}, fmt.Errorf("%s: %w", name, err)
		}
		return Case{name, in}, nil
	}
	switch path.Ext(name) {
	case ".json":
		c, err := one(name, b)
		return []Case{c}, err
	case ".txtar":
		var out []Case
		for _, f := range txtar.Parse(b).Files {
			if path.Ext(f.Name) != ".json" {
				return nil, &fault{name + "/" + f.Name, fmt.Errorf("is not a call NAME.json")}
			}
			c, err := one(name+"/"+f.Name, f.Data)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		if len(out) == 0 {
			return nil, &fault{name, fmt.Errorf("has no calls")}
		}
		return out, nil
	}
	return nil, &fault{name, fmt.Errorf("is neither a call NAME.json nor several NAME.txtar")}
}
