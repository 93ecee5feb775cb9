package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/callgate/callgate/bundles"
)

// library is where a bundle has the base library.
const library = "callgate"

// baseError says where a base library is that is not ours, or not in its place.
type baseError struct{ at, advice string }

func (e *baseError) Error() string { return e.at + ": " + ErrBaseChanged.Error() + "; " + e.advice }

// Places is for [rego.Places].
func (e *baseError) Places() []string { return []string{e.Error()} }

func (e *baseError) Unwrap() error { return ErrBaseChanged }

// checkBase compares the base library that the bundle vendors with ours: a rule
// slipped into it could allow anything. It compares bytes. Those of an archive are
// what `opa build` made of the files, which it formats; the library is formatted,
// and so stays as it is.
func checkBase(bundle string, fsys fs.FS) error {
	want, err := bundles.Digest(bundles.Base())
	if err != nil {
		return err
	}
	at := filepath.Join(bundle, library)
	vendored, err := fs.Sub(fsys, library)
	if err != nil {
		return err
	}
	got, err := bundles.Digest(vendored)
	if errors.Is(err, fs.ErrNotExist) {
		return checkNested(bundle, fsys)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if got != want {
		return &baseError{at, "copy it anew from `callgate init` into an empty directory"}
	}
	return nil
}

// checkNested is for a policy of its own making. Where a directory has the
// library's name, it must not be one that nobody compares.
func checkNested(bundle string, fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".rego") {
			return err
		}
		if dir := path.Dir(name); dir == library || strings.HasSuffix(dir, "/"+library) {
			return &baseError{filepath.Join(bundle, dir), "it belongs at the top of the bundle"}
		}
		return nil
	})
}
