package rego

import (
	"fmt"
	"io/fs"
	"path"
)

// manifests is where a bundle has the manifests of tools. OPA leaves them alone, and
// so does the digest, for records name each tool by a digest of its own; a signature
// is over them as over every file.
const manifests = "tools/*/tool.yaml"

// isManifest reports whether a file is the manifest of a tool.
func isManifest(name string) bool {
	ok, err := path.Match(manifests, name)
	return ok && err == nil
}

// Manifests are the manifests of tools that a bundle carries: the text of
// tools/NAME/tool.yaml by NAME. Nothing of them is checked.
func Manifests(fsys fs.FS) (map[string][]byte, error) {
	names, err := fs.Glob(fsys, manifests)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(names))
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		out[path.Base(path.Dir(name))] = b
	}
	return out, nil
}
