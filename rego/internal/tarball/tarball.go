// Package tarball writes the archives in which bundles travel.
package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
)

// File is one file of an archive.
type File struct {
	Name string
	Data []byte
}

// Of reads the files of a file system, sorted by name.
func Of(fsys fs.FS) (files []File, err error) {
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		files = append(files, File{name, b})
		return err
	})
	return files, err
}

// Write gives a gzipped tar file without times or owners, so that the same files
// are the same bytes. Names begin with a slash, as in OPA's archives.
func Write(files []File) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: "/" + f.Name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(f.Data))}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.Close(), z.Close())
	return out.Bytes(), err
}
