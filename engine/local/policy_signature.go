package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxWatched is how many files a poll looks at: more than a bundle may have.
const maxWatched = 20_000

// signature is another one when the files of a bundle are: their names, sizes,
// modes, and times of change. That costs no reading, and holds for renames, links
// that lead elsewhere, and mounts that tell nobody of changes. What cannot be
// looked at is part of it, so that it is seen when that ends.
func signature(bundle string) string {
	h := sha256.New()
	info, err := os.Stat(bundle)
	stamp(h, "", info, err)
	if err == nil && info.IsDir() {
		n := 0
		err := fs.WalkDir(os.DirFS(bundle), ".", func(name string, d fs.DirEntry, err error) error {
			if n++; n > maxWatched {
				return fs.SkipAll
			}
			if err != nil {
				stamp(h, name, nil, err)
				return nil
			}
			info, err := d.Info()
			stamp(h, name, info, err)
			return nil
		})
		stamp(h, "", nil, err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func stamp(h io.Writer, name string, info fs.FileInfo, err error) {
	switch {
	case err != nil:
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		fmt.Fprintf(h, "%q %v\n", name, err)
	case info == nil:
	case info.IsDir():
		fmt.Fprintf(h, "%q %v\n", name, info.Mode()) // its times and size say what the names do
	default:
		fmt.Fprintf(h, "%q %v %d %d %d\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano(), changed(info))
	}
}
