package hostfx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// errLink says that a component of a granted path is a link.
var errLink = errors.New("a link")

// steps opens the directory rel one component at a time.
func (p *place) steps(rel string) (*place, error) {
	at, err := p.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	if rel != "." {
		for name := range strings.SplitSeq(rel, "/") {
			below, err := step(at, name)
			at.Close()
			if err != nil {
				return nil, err
			}
			at = below
		}
	}
	return rooted(at)
}

// step opens the directory name in at, which must not be a link.
func step(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	if !seen.IsDir() {
		return nil, unix.ENOTDIR
	}
	// The dot makes name itself an inner component, which is opened as a
	// directory or not at all: a FIFO put in its place cannot make us wait.
	below, err := at.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	got, err := below.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		// OpenRoot follows links inside the root; only what we saw to be a
		// directory of this name may come out of it.
		err = fmt.Errorf("%w: it was replaced", errLink)
	}
	if err != nil {
		below.Close()
		return nil, err
	}
	return below, nil
}
