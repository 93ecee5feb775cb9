// Package tool reads manifests: what a tool is, what its arguments look like, and
// the most it may ever do.
//
// A manifest is a file tool.yaml. It is read strictly, since whatever a reader
// skips would be a promise that nobody keeps: unknown keys, unknown schema
// keywords, open objects and open-ended capabilities are errors at load.
//
// Most callers want [Load] for a tool in a directory or [Parse] for a manifest
// that stands in Go code, then [Manifest.Check] and [Manifest.Derive] for each call.
//
// # Facts
//
// A manifest says which arguments are URLs, paths and commands, or that there are
// none:
//
//	facts:
//	  urls:
//	    - {at: /url, method: GET}
//	    - {at: /hooks/*/url, method_at: /hooks/*/method}
//	  paths:
//	    - {at: /file, mode: read}
//	  commands:
//	    - {at: /command}
//	    - {argv: /argv}
//
// or facts: none. at, method_at, mode_at and argv are JSON pointers (RFC 6901) into
// the arguments, in which * stands for every item of an array. A command is a line
// for a shell, or under argv an array of strings that is run as it stands. A tool with
// http capabilities declares urls, one with fs capabilities paths and one with exec
// capabilities commands, unless it says none. Its declared methods and modes are ones
// that its capabilities have.
//
// A declared fact is never absent, since a rule such as "every u in
// input.facts.urls" is true of no URLs at all. So every property that a pointer
// names is in required, every array has minItems of at least 1, and what the
// pointer ends at is of type string (of argv an array of strings); what method_at and mode_at end at has an enum
// of methods or modes too. A URL that may be absent is not declared: make it the
// required argument of a tool of its own.
//
// # Preconditions
//
// A tool that changes something may depend on how it found things:
//
//	preconditions:
//	  - {file: /file}
//	  - {etag: /etag}
//
// file points to an argument that facts declare as a path, in a directory that the
// tool may read. What is in that file (or that there is none) when the call is decided
// is looked at again before its first effect that changes something; if it differs, no
// such effect happens. etag points to an argument that is a strong entity tag, which
// every request other than GET and HEAD then carries as If-Match. There are at most
// four, of files of at most 16 MiB each.
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
	"github.com/callgate/callgate/engine/facts"
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
	Kind        string   // wasm, host, or external: run by its caller
	Class       string   // read, write, destructive or unclassified
	Sensitivity []string // of what it returns: pii, pci, secret, memory
	Tags        []string
	Module      string            // of wasm: the file beside the manifest
	SHA256      string            // of wasm: the module's, 64 hexadecimal digits
	Caps        call.Caps         // the most that any call of the tool may do, in normal form
	Facts       facts.Declaration // the arguments that are URLs, paths and commands; zero for none

	// Preconditions are what a call depends on, beside its decision.
	Preconditions []Precondition

	input  string // canonical JSON Schema
	digest string
	text   []byte // canonical JSON of all of it
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

	Preconditions []Precondition `json:"preconditions"`
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
		input: string(d.Input), digest: canonical.Digest(), text: canonical.Bytes(),
	}
	capsErr := m.setCaps(d)
	schema, schemaErr := m.setSchema(d.Input)
	var factsErr error
	if capsErr == nil && schemaErr == nil {
		factsErr = m.setFacts(d.Facts, schema)
		if factsErr == nil {
			factsErr = m.setPreconditions(d.Preconditions, schema)
		}
	}
	errs := append(m.checkFields(), capsErr, schemaErr, factsErr)
	if err := errors.Join(errs...); err != nil {
		return nil, err
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
	return nil
}

// Digest is sha256:<hex> of the manifest's canonical JSON, which holds the
// module's own digest: the tool's pin. It is "" for the zero value.
func (m *Manifest) Digest() string { return m.digest }

// naming is the manifest with another module's SHA-256 in its place.
func (m *Manifest) naming(sha256 string) (*Manifest, error) {
	var d map[string]jsontext.Value
	if err := json.Unmarshal(m.text, &d); err != nil {
		return nil, err
	}
	d["sha256"] = jsontext.Value(`"` + sha256 + `"`)
	src, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return Parse(src)
}

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
		{"precise_clock", call.Caps{PreciseClock: m.Caps.PreciseClock}},
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
