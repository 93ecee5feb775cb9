package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`)
	fileForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

	kinds         = []string{"wasm", "component", "host", "mcp", "external"}
	loaded        = []string{"wasm", "host", "external"}
	classes       = []string{"read", "write", "destructive", "unclassified"}
	sensitivities = []string{"pii", "pci", "secret", "memory"}
)

// checkFields checks all but capabilities, schema and facts.
func (m *Manifest) checkFields() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if !nameForm.MatchString(m.Name) {
		bad("name: is missing, or is not of a-z, 0-9, dot, - and _, at most 64, a letter first")
	}
	switch {
	case strings.TrimSpace(m.Description) == "":
		bad("description: is missing")
	case len(m.Description) > maxDescription:
		bad("description: is longer than %d bytes", maxDescription)
	case strings.ContainsFunc(m.Description, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
		bad("description: has a control character")
	}
	switch {
	case !slices.Contains(kinds, m.Kind):
		bad("kind: is missing, or is not one of %s", strings.Join(kinds, ", "))
	case !slices.Contains(loaded, m.Kind):
		bad("kind: this version loads %s only", strings.Join(loaded, ", "))
	}
	if !slices.Contains(classes, m.Class) {
		bad("class: is missing, or is not one of %s", strings.Join(classes, ", "))
	}
	for i, s := range m.Sensitivity {
		if !slices.Contains(sensitivities, s) || slices.Contains(m.Sensitivity[:i], s) {
			bad("sensitivity[%d]: stands there twice, or is not one of %s", i, strings.Join(sensitivities, ", "))
		}
	}
	if len(m.Tags) > maxTags {
		bad("tags: has %d, at most %d", len(m.Tags), maxTags)
	}
	for i, t := range m.Tags {
		if !nameForm.MatchString(t) || slices.Contains(m.Tags[:i], t) {
			bad("tags[%d]: stands there twice, or is not formed as a name", i)
		}
	}
	for i, x := range m.Caps.Exec {
		// A policy may grant these within a manifest that says more.
		if slices.Contains(x.Args, "*") || slices.Contains(x.Args, "-*") {
			bad("caps: exec[%d]: args: a bare * is an open end", i)
		}
	}
	if m.Kind != "wasm" {
		if m.Module != "" || m.SHA256 != "" {
			bad("module, sha256: only a tool of kind wasm has a module")
		}
		return errs
	}
	if !fileForm.MatchString(m.Module) {
		bad("module: is missing, or is not the plain name of a file beside %s", FileName)
	}
	if !sha256Form.MatchString(m.SHA256) {
		bad("sha256: is missing, or is not 64 lower-case hexadecimal digits")
	}
	return errs
}
