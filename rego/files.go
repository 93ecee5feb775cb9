package rego

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// checkFiles refuses what OPA would leave out of the bundle without a word, or
// read in a way that its author cannot have meant. A list of denied hosts that
// is not read allows them.
func checkFiles(fsys fs.FS) error {
	var errs []error
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if err := checkFile(fsys, name, d); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

func checkFile(fsys fs.FS, name string, d fs.DirEntry) error {
	if !d.Type().IsRegular() {
		return errors.New("not a regular file, OPA would ignore it")
	}
	switch base := path.Base(name); {
	case base == "data.json":
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		// OPA keeps the last of two equal keys.
		if _, err := jsontext.AppendFormat(nil, b); err != nil {
			return err
		}
	case base == "data.yaml" || base == "data.yml" || base == ".signatures.json":
	case hasSuffix(base, ".json", ".yaml", ".yml"):
		return errors.New("OPA reads data only from files named data.json or data.yaml")
	case hasSuffix(base, ".wasm", ".pb"):
		return errors.New("compiled policies and manifests are not read")
	}
	return nil
}

func hasSuffix(s string, suffixes ...string) bool {
	for _, x := range suffixes {
		if strings.HasSuffix(strings.ToLower(s), x) {
			return true
		}
	}
	return false
}
