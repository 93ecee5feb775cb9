// Package tool reads manifests: what a tool is, what its arguments look like, and
// the most it may ever do.
//
// A manifest is a file tool.yaml. It is read strictly, since whatever a reader
// skips would be a promise that nobody keeps: unknown keys, unknown schema
// keywords, open objects and open-ended capabilities are errors at load.
//
// Most callers want [Load] for a tool in a directory or [Parse] for a manifest
// that stands in Go code, then [Manifest.Check] for each call.
package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/callgate/callgate/engine/call"
)

// FileName is the name of a manifest in its directory.
const FileName = "tool.yaml"

// Limits of manifests.
const (
	MaxManifestBytes = 256 << 10
	MaxModuleBytes   = 64 << 20
	maxDescription   = 4096 // bytes
	maxTags          = 32
)

// Manifest describes one tool. Make one with [Parse] or [Load]; the zero value
// takes no arguments at all.
type Manifest struct {
	Name        string
	Description string   // for people and models
	Kind        string   // wasm or host
	Class       string   // read, write, destructive or unclassified
	Sensitivity []string // of what it returns: pii, pci, secret, memory
	Tags        []string
	Module      string    // of wasm: the file beside the manifest
	SHA256      string    // of wasm: the module's, 64 hexadecimal digits
	Caps        call.Caps // the most that any call of the tool may do, in normal form
	Facts       string    // "none", or "" where none are needed

	input  string // canonical JSON Schema
	digest string
	schema *jsonschema.Schema
	words  map[string]bool // property names that the schema knows
}

// document is tool.yaml as it stands.
type document struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Kind        string         `json:"kind"`
	Class       string         `json:"class"`
	Sensitivity []string       `json:"sensitivity"`
	Tags        []string       `json:"tags"`
	Module      string         `json:"module"`
	SHA256      string         `json:"sha256"`
	Input       jsontext.Value `json:"input"`
	Caps        call.Caps      `json:"caps"`
	Facts       jsontext.Value `json:"facts"`
}

// Parse reads the text of a tool.yaml.
//
// # Errors
//
// An error names the field, or the place in the schema, and what is wrong there.
// Problems of several fields come together.
func Parse(src []byte) (*Manifest, error) {
	m, err := parse(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	return m, nil
}

func parse(src []byte) (*Manifest, error) {
	if len(src) > MaxManifestBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxManifestBytes)
	}
	raw, err := toJSON(src)
	if err != nil {
		return nil, err
	}
	canonical, err := call.Canonical(raw)
	if err != nil {
		return nil, canonicalFault(err)
	}
	if at := nullOutsideInput(canonical.Bytes()); at != "" {
		return nil, fmt.Errorf("%s: is null; leave it out", at)
	}
	var d document
	if err := json.Unmarshal(canonical.Bytes(), &d, json.RejectUnknownMembers(true)); err != nil {
		return nil, decodeFault(err)
	}
	m := &Manifest{
		Name: d.Name, Description: d.Description, Kind: d.Kind, Class: d.Class,
		Sensitivity: d.Sensitivity, Tags: d.Tags, Module: d.Module, SHA256: d.SHA256,
		input: string(d.Input), digest: canonical.Digest(),
	}
	errs := m.checkFields()
	if err := m.setCaps(d); err != nil {
		errs = append(errs, err)
	}
	if err := m.setSchema(d.Input); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

func (m *Manifest) setCaps(d document) error {
	if err := d.Caps.Validate(); err != nil {
		return fmt.Errorf("caps: %s", detail(err))
	}
	caps, err := d.Caps.Normalise()
	if err != nil {
		return fmt.Errorf("caps: %s", detail(err))
	}
	m.Caps = caps
	if d.Facts == nil {
		if len(caps.FS)+len(caps.HTTP)+len(caps.Exec) > 0 {
			return errors.New("facts: is missing; a tool with fs, http or exec capabilities says which arguments are paths, urls or commands, or none")
		}
		return nil
	}
	if err := json.Unmarshal(d.Facts, &m.Facts); err != nil || m.Facts != "none" {
		return errors.New("facts: none is the only value that this version understands")
	}
	return nil
}

// Digest is sha256:<hex> of the manifest's canonical JSON, which holds the
// module's own digest: the tool's pin. It is "" for the zero value.
func (m *Manifest) Digest() string { return m.digest }

// Input is the JSON Schema of the arguments, canonical.
func (m *Manifest) Input() jsontext.Value { return jsontext.Value(m.input) }

// Tool is what policy sees of the tool, every field filled.
func (m *Manifest) Tool() call.Tool {
	return call.Tool{
		Name: m.Name, Kind: m.Kind, Class: m.Class, Digest: m.digest,
		Sensitivity: append([]string{}, m.Sensitivity...),
		Tags:        append([]string{}, m.Tags...),
		Findings:    []string{},
	}
}

// Within checks that the tool's maxima lie within the operator's ceiling; nil is
// no ceiling. The error names the families that do not.
//
// A bound that the manifest does not state is no opinion: the ceiling's holds.
func (m *Manifest) Within(ceiling *call.Caps) error {
	if ceiling == nil {
		return nil
	}
	families := []struct {
		name string
		caps call.Caps
	}{
		{"fs", call.Caps{FS: m.Caps.FS}},
		{"http", call.Caps{HTTP: m.Caps.HTTP}},
		{"exec", call.Caps{Exec: m.Caps.Exec}},
		{"secrets", call.Caps{Secrets: m.Caps.Secrets}},
		{"workspace", call.Caps{Workspace: m.Caps.Workspace}},
		{"plan", call.Caps{Plan: m.Caps.Plan}},
		{"log", call.Caps{Log: m.Caps.Log}},
	}
	var over []string
	for _, f := range families {
		f.caps.Bounds = ceiling.Bounds
		if !ceiling.Covers(f.caps) {
			over = append(over, f.name)
		}
	}
	if overBounds(m.Caps.Bounds, ceiling.Bounds) {
		over = append(over, "bounds")
	}
	if len(over) > 0 {
		return fmt.Errorf("tool %s: caps: over the operator's ceiling: %s", m.Name, strings.Join(over, ", "))
	}
	return nil
}

// overBounds reports whether b states a bound larger than most does.
func overBounds(b, most call.Bounds) bool {
	both, err := call.Caps{Bounds: b}.Meet(call.Caps{Bounds: most})
	if err != nil {
		return true
	}
	larger, err := call.Join(call.Caps{Bounds: b}, both)
	return err != nil || larger.Bounds != both.Bounds
}

// nullOutsideInput returns the place of a null that is not part of the schema,
// "" when there is none. Decoding would take null for absent.
func nullOutsideInput(canonical []byte) string {
	d := jsontext.NewDecoder(strings.NewReader(string(canonical)))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return ""
		}
		if t.Kind() == 'n' {
			if at := slices.Collect(d.StackPointer().Tokens()); at[0] != "input" {
				return strings.Join(at, ".")
			}
		}
	}
}

func canonicalFault(err error) error {
	switch call.CodeOf(err, "") {
	case call.CodeArgsInexact:
		return errors.New("a number cannot be represented exactly")
	case call.CodeArgsTooLarge:
		return errors.New("is too large")
	}
	return errors.New("is not a mapping, or is nested too deep")
}

func decodeFault(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		at := strings.Join(slices.Collect(e.JSONPointer.Tokens()), ".")
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("%s: unknown key", at)
		}
		if e.Err != nil {
			return fmt.Errorf("%s: %w", at, e.Err)
		}
		return fmt.Errorf("%s: has the wrong type", at)
	}
	return err
}

// detail is the part of an error of package call that says what is wrong.
func detail(err error) string {
	if e, ok := errors.AsType[*call.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}
