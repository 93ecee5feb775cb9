package rego

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
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
			errs = append(errs, &fault{name, err})
		}
		return nil
	})
	return errors.Join(append(errs, err, checkStarterFiles(fsys))...)
}

func checkFile(fsys fs.FS, name string, d fs.DirEntry) error {
	if !d.Type().IsRegular() {
		return errIrregular
	}
	switch base := path.Base(name); {
	case base == "data.json":
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		// OPA keeps the last of two equal keys.
		if _, err := jsontext.AppendFormat(nil, b); err != nil {
			return &quoting{"is not JSON", err}
		}
	case base == "data.yaml" || base == "data.yml":
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		return wholeYAML(b)
	case base == ".signatures.json":
	case isManifest(name):
	case strings.HasSuffix(base, ".manifest") && name != manifestFile:
		return errors.New("OPA would read it as the bundle's manifest, which is .manifest at the top")
	case hasSuffix(base, ".rego") && !strings.HasSuffix(base, ".rego"):
		return errors.New("OPA reads rules only from files that end in .rego")
	case hasSuffix(base, ".json", ".yaml", ".yml"):
		return errors.New("OPA reads data only from files named data.json or data.yaml")
	case hasSuffix(base, ".wasm", ".pb"):
		return errors.New("compiled policies and manifests are not read")
	}
	return nil
}

// wholeYAML refuses YAML of which OPA would leave something out: the first of two
// equal keys, or all documents but one.
func wholeYAML(b []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(b))
	var v any
	if err := d.Decode(&v); err != nil {
		return &quoting{"is not YAML", err}
	}
	if err := d.Decode(&v); !errors.Is(err, io.EOF) {
		return errors.New("holds more than one document")
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
