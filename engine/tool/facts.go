package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// Derive returns the facts that the manifest declares and the arguments with each
// URL and path in its canonical text, checked against the schema once more. args are
// arguments that [Manifest.Check] took.
//
// # Errors
//
// Those of [facts.Declaration.Derive], and [*call.Error] with
// [call.CodeArgsSchema] when the canonical text is one that the schema does not
// take.
func (m *Manifest) Derive(args call.Args) (call.Facts, call.Args, error) {
	f, out, err := m.Facts.Derive(args)
	if err != nil {
		return call.Facts{}, call.Args{}, err
	}
	if out == args {
		return f, out, nil
	}
	if err := m.Check(out); err != nil {
		return call.Facts{}, call.Args{}, &call.Error{Code: call.CodeArgsSchema, Detail: "with canonical URLs and paths: " + detail(err)}
	}
	return f, out, nil
}

// setFacts reads what the manifest says about facts, after its capabilities and
// schema are known to be right.
func (m *Manifest) setFacts(src jsontext.Value, root map[string]any) error {
	if src == nil {
		if len(m.Caps.FS)+len(m.Caps.HTTP)+len(m.Caps.Exec) > 0 {
			return errors.New("facts: is missing; a tool with fs, http or exec capabilities says which arguments are paths, urls or commands, or none")
		}
		return nil
	}
	if src.Kind() == '"' {
		if string(src) != `"none"` {
			return errors.New("facts: is neither none nor a mapping of urls, paths and commands")
		}
		return nil
	}
	var d facts.Declaration
	if err := json.Unmarshal(src, &d, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("facts: %w", decodeFault(err))
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	if err := m.familiesDeclared(d); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	var w way
	w.defs, _ = root["$defs"].(map[string]any)
	for i, u := range d.URLs {
		words, err := w.declared(root, u.At, u.Method, u.MethodAt, facts.IsMethod)
		if err == nil && len(m.Caps.HTTP) > 0 {
			err = beyond(words, m.methods())
		}
		if err != nil {
			return fmt.Errorf("facts: urls[%d]: %w", i, err)
		}
	}
	for i, p := range d.Paths {
		words, err := w.declared(root, p.At, p.Mode, p.ModeAt, facts.IsMode)
		if err == nil && len(m.Caps.FS) > 0 {
			err = beyond(words, m.modes())
		}
		if err != nil {
			return fmt.Errorf("facts: paths[%d]: %w", i, err)
		}
	}
	for i, c := range d.Commands {
		if err := w.command(root, c); err != nil {
			return fmt.Errorf("facts: commands[%d]: %w", i, err)
		}
	}
	m.Facts = d
	return nil
}

// familiesDeclared checks that no family which the tool reaches is left out.
func (m *Manifest) familiesDeclared(d facts.Declaration) error {
	switch {
	case d.IsZero():
		return errors.New("declares nothing; say none")
	case len(m.Caps.Exec) > 0 && len(d.Commands) == 0:
		return errors.New("a tool with exec capabilities declares commands, or says none")
	case len(m.Caps.HTTP) > 0 && len(d.URLs) == 0:
		return errors.New("a tool with http capabilities declares urls, or says none")
	case len(m.Caps.FS) > 0 && len(d.Paths) == 0:
		return errors.New("a tool with fs capabilities declares paths, or says none")
	}
	return nil
}

func (m *Manifest) methods() (all []string) {
	for _, h := range m.Caps.HTTP {
		all = append(all, h.Methods...)
	}
	return all
}

func (m *Manifest) modes() (all []string) {
	for _, f := range m.Caps.FS {
		all = append(all, f.Modes...)
	}
	return all
}

// beyond refuses a word that no entry of the capabilities has: the tool would
// declare what it may never do.
func beyond(words, allowed []string) error {
	for _, word := range words {
		if !slices.Contains(allowed, word) {
			return fmt.Errorf("%s is in none of the tool's own capabilities, which have %s", word, strings.Join(allowed, ", "))
		}
	}
	return nil
}
