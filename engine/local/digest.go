package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
)

// digest is sha256:<hex> over everything in c that makes one engine answer
// differently from another, so that a client can tell whether the owner is the
// engine that it would have opened itself: what the settings are and what stands
// in the files of the policy, the tools and the ceiling. Not part of it: the data
// directory, whose socket is how they meet; the clock and the logger; and the code
// of host tools, of which only the number is known here.
func (c Config) digest() (string, error) {
	type root struct{ Name, Path string }
	d := struct {
		Bundle, Tools, Ceiling, Node string
		Roots                        []root
		HostTools, MaxGuests         int
		DecideTimeoutNS              int64
		AssertedApprovers            bool
	}{
		Node: c.Node, HostTools: len(c.HostTools), MaxGuests: c.MaxGuests,
		DecideTimeoutNS: int64(c.DecideTimeout), AssertedApprovers: c.AssertedApprovers,
	}
	for _, r := range c.Roots {
		d.Roots = append(d.Roots, root(r))
	}
	d.Bundle, d.Tools, d.Ceiling = c.Bundle, c.Tools, c.Ceiling
	paths := []*string{&d.Bundle, &d.Tools, &d.Ceiling}
	for i := range d.Roots {
		paths = append(paths, &d.Roots[i].Path)
	}
	for _, p := range paths {
		var err error
		if *p, err = oneName(*p); err != nil {
			return "", err
		}
	}
	for _, p := range []*string{&d.Bundle, &d.Tools, &d.Ceiling} {
		digest, err := contents(*p)
		if err != nil {
			return "", err
		}
		*p += " " + digest
	}
	b, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return call.Digest(b), nil
}

// contents is a digest of the file or of all files at path. What it cannot read is
// an error: two settings that are both unreadable are not the same.
func contents(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil // Open says so
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		digest, err := bundles.Digest(os.DirFS(path))
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return digest, nil
	}
	if !info.Mode().IsRegular() || info.Size() > tool.MaxManifestBytes {
		return "", fmt.Errorf("%s: is not a file of at most %d bytes", path, tool.MaxManifestBytes)
	}
	b, err := os.ReadFile(path)
	return call.Digest(b), err
}

// oneName is the same for all paths that lead to one file; "" stays "".
func oneName(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, nil // not there: Open will say so
}
