package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
)

// digest is sha256:<hex> over everything in c that makes one engine answer
// differently from another, so that a client can tell whether the owner is the
// engine that it would have opened itself: what the settings are and what stands
// in the files of the tools, the ceiling and the authorities. Not part of it: the
// data directory, whose socket is how they meet; the clock and the logger; what
// credentials are; and the code of host tools, of which only the number is known
// here.
//
// Of the policy it is where the files are, as it is spelt, for links to it may be
// made to lead elsewhere. The owner follows what stands in them and does not take
// up what is broken, so a client could only know better for a moment. An owner
// that does not follow them is told by their contents.
func (c Config) digest() (_ string, err error) {
	type root struct{ Name, Path string }
	d := struct {
		Bundle, Tools, Ceiling, Node, CA string
		Roots                            []root
		Networks                         []hostfx.Network
		Names                            []hostfx.Name
		Secrets                          []Secret
		HostTools, MaxGuests             int
		DecideTimeoutNS                  int64
		AssertedApprovers                bool
	}{
		Node: c.Node, HostTools: len(c.HostTools), MaxGuests: c.MaxGuests,
		DecideTimeoutNS: int64(c.DecideTimeout), AssertedApprovers: c.AssertedApprovers,
		Networks: c.Networks, Names: c.Names, Secrets: slices.Clone(c.Secrets),
	}
	for _, r := range c.Roots {
		d.Roots = append(d.Roots, root(r))
	}
	d.Bundle, d.Tools, d.Ceiling, d.CA = c.Bundle, c.Tools, c.Ceiling, c.CA
	paths := []*string{&d.Tools, &d.Ceiling, &d.CA}
	if c.Watch < 0 {
		paths = append(paths, &d.Bundle)
	} else if d.Bundle, err = filepath.Abs(d.Bundle); err != nil {
		return "", err
	}
	for i := range d.Roots {
		paths = append(paths, &d.Roots[i].Path)
	}
	for i := range d.Secrets {
		paths = append(paths, &d.Secrets[i].File)
	}
	for _, p := range paths {
		var err error
		if *p, err = oneName(*p); err != nil {
			return "", err
		}
	}
	for _, p := range []*string{&d.Tools, &d.Ceiling, &d.CA} {
		digest, err := contents(*p)
		if err != nil {
			return "", err
		}
		*p += " " + digest
	}
	if c.Watch < 0 {
		digest, err := bundleContents(d.Bundle)
		if err != nil {
			return "", err
		}
		d.Bundle += " " + digest
	}
	b, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return call.Digest(b), nil
}

// bundleContents is a digest of what stands in a directory or an archive.
func bundleContents(path string) (string, error) {
	fsys, err := rego.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil // Open says so
	}
	if err != nil {
		return "", err
	}
	return bundles.Digest(fsys)
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
