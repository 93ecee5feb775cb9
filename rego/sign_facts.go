package rego

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// maxEpoch is the last whole number that every reader of JSON has exactly.
const maxEpoch = 1<<53 - 1

// Facts are what there is to know of a bundle without compiling it.
type Facts struct {
	Revision string   `json:"revision"`           // as the manifest has it
	Digest   string   `json:"digest"`             // of what decides, as records name it
	Content  string   `json:"content"`            // SHA-256 over all files but the signature
	Epoch    *int64   `json:"epoch,omitzero"`     // nil: the manifest has none
	Packages []string `json:"packages"`           // of the modules, without data.
	Data     []string `json:"data"`               // places of the files of data, such as "starter"; "" is the top
	Tools    []string `json:"tools,omitzero"`     // whose manifests are there
	Files    int      `json:"files"`              // without the signature
	Claims   *Claims  `json:"signature,omitzero"` // nil: it is not signed
}

// Claims is a signature that nobody has verified.
type Claims struct {
	Signature
	// Problem is why it is none, if it is none.
	Problem string `json:"problem,omitzero"`
}

// Inspect reads a bundle and looks at no signature but to tell what it says. A
// bundle may be inspected that [Open] refuses; it must parse.
func Inspect(fsys fs.FS) (*Facts, error) {
	c, err := collect(fsys)
	if err != nil {
		return nil, err
	}
	f := &Facts{Content: c.content(), Packages: []string{}, Data: []string{}}
	for _, x := range c.files {
		switch base := path.Base(x.name); {
		case x.name == signaturesFile:
			t, err := readToken(x.data)
			if err != nil {
				f.Claims = &Claims{Problem: err.Error()}
			} else {
				f.Claims = &Claims{Signature: t.Signature}
			}
			f.Files--
		case bundle.IsStructuredDoc(x.name) && base != manifestFile:
			f.Data = append(f.Data, strings.TrimPrefix(path.Dir(x.name), "."))
		case isManifest(x.name):
			f.Tools = append(f.Tools, path.Base(path.Dir(x.name)))
		}
	}
	f.Files += len(c.files)
	mem, err := c.fs()
	if err != nil {
		return nil, err
	}
	b, err := read(mem, Capabilities())
	if err != nil {
		return nil, err
	}
	if f.Digest, err = digest(b); err != nil {
		return nil, err
	}
	f.Revision, f.Epoch = b.Manifest.Revision, epochOf(b)
	for _, m := range b.Modules {
		f.Packages = append(f.Packages, strings.TrimPrefix(m.Parsed.Package.Path.String(), "data."))
	}
	slices.Sort(f.Packages)
	f.Packages = slices.Compact(f.Packages)
	slices.Sort(f.Data)
	slices.Sort(f.Tools)
	return f, nil
}

// content is a digest of every file but the signature: a bundle that is signed
// anew has the same.
func (c *collection) content() string {
	files := slices.Clone(c.files)
	slices.SortFunc(files, func(a, b memFile) int { return strings.Compare(a.name, b.name) })
	h := sha256.New()
	for _, f := range files {
		if f.name == signaturesFile {
			continue
		}
		fmt.Fprintf(h, "%d %d\n%s", len(f.name), len(f.data), f.name)
		_, _ = h.Write(f.data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// epochOf is metadata.callgate.epoch of the manifest, or nil.
func epochOf(b *bundle.Bundle) *int64 {
	ours, ok := b.Manifest.Metadata["callgate"].(map[string]any)
	if !ok {
		return nil
	}
	// A json.Number; 7.0 and 1e3 are not how anybody writes an epoch.
	number, ok := ours["epoch"].(fmt.Stringer)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || n < 0 || n > maxEpoch {
		return nil
	}
	return &n
}
