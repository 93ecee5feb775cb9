package rego

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

// digest names what decides: SHA-256 over the modules, sorted by package and
// source, and the merged data in canonical form. The names of files do not
// matter, so a directory and an archive of it have the same digest.
func digest(b *bundle.Bundle) (string, error) {
	type module struct{ pkg, src string }
	modules := make([]module, 0, len(b.Modules))
	for _, m := range b.Modules {
		modules = append(modules, module{m.Parsed.Package.Path.String(), string(m.Raw)})
	}
	slices.SortFunc(modules, func(x, y module) int {
		return cmp.Or(cmp.Compare(x.pkg, y.pkg), cmp.Compare(x.src, y.src))
	})
	data, err := ast.InterfaceToValue(b.Data)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, m := range modules {
		// Lengths keep the end of one part from being read as the start of the next.
		fmt.Fprintf(h, "module %d %d\n", len(m.pkg), len(m.src))
		_, _ = io.WriteString(h, m.pkg)
		_, _ = io.WriteString(h, m.src)
	}
	fmt.Fprintln(h, "data")
	if err := writeValue(jsontext.NewEncoder(h), data, true); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
