package tool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// maxPreconditions bounds what is read before each call.
const maxPreconditions = 4

// Precondition says which argument names what must not change between the decision
// and the first effect that changes something. Places are JSON pointers (RFC 6901)
// without *; exactly one of the two is set.
type Precondition struct {
	File string `json:"file"` // to a path, which facts declare too
	ETag string `json:"etag"` // to a strong entity tag (RFC 9110 section 8.8.3), in its quotes
}

// strongTag is an entity tag that If-Match can match, less the bytes beyond ASCII.
var strongTag = regexp.MustCompile(`^"[!#-~]{0,1000}"$`)

// setPreconditions reads what the tool depends on, after its facts.
func (m *Manifest) setPreconditions(list []Precondition, root map[string]any) error {
	if len(list) > maxPreconditions {
		return fmt.Errorf("preconditions: has %d, at most %d", len(list), maxPreconditions)
	}
	if len(list) > 0 && m.Kind != "wasm" && m.Kind != "host" {
		return errors.New("preconditions: only of a tool that runs here, of kind wasm or host, can they be checked")
	}
	var w way
	w.defs, _ = root["$defs"].(map[string]any)
	tags := 0
	for i, p := range list {
		if p.ETag != "" {
			tags++
		}
		err := m.checkPrecondition(w, root, p)
		switch {
		case err == nil && slices.Contains(list[:i], p):
			err = errors.New("stands there twice")
		case err == nil && tags > 1:
			err = errors.New("is a second etag; a request carries one")
		}
		if err != nil {
			return fmt.Errorf("preconditions[%d]: %w", i, err)
		}
	}
	m.Preconditions = list
	return nil
}

func (m *Manifest) checkPrecondition(w way, root map[string]any, p Precondition) error {
	at := p.File + p.ETag
	switch {
	case (p.File == "") == (p.ETag == ""):
		return errors.New("needs one of file and etag")
	case strings.Contains(at, "*"):
		return errors.New("names one argument, without *")
	case p.File != "" && !slices.ContainsFunc(m.Facts.Paths, func(f facts.PathAt) bool { return f.At == p.File }):
		return errors.New("file is not a path that facts declare")
	case p.File != "" && !slices.Contains(m.modes(), call.ModeRead):
		return errors.New("file needs fs capabilities to read it")
	case p.ETag != "" && len(m.Caps.HTTP) == 0:
		return errors.New("etag needs http capabilities")
	}
	s, err := w.to(root, at)
	if err == nil && !isType(s, "string") {
		err = fmt.Errorf("at %s: is not of type string", at)
	}
	return err
}

// DependsOn returns what a call with these arguments, as [Manifest.Derive] returned
// them, depends on: files without their digests, and entity tags.
//
// # Errors
//
// [*call.Error] with [call.CodeArgsSchema] for what is no strong entity tag.
func (m *Manifest) DependsOn(args call.Args) ([]call.Precondition, error) {
	if len(m.Preconditions) == 0 {
		return nil, nil
	}
	var decoded map[string]any
	if err := json.Unmarshal(args.Bytes(), &decoded); err != nil {
		return nil, &call.Error{Code: call.CodeArgsSchema}
	}
	var out []call.Precondition
	for _, p := range m.Preconditions {
		at := p.File + p.ETag
		text, ok := stringAt(decoded, at)
		switch {
		case !ok:
			return nil, &call.Error{Code: call.CodeArgsSchema, Detail: "at " + at + ": is missing, or is not a string"}
		case p.File != "":
			out = append(out, call.Precondition{File: text})
		case !strongTag.MatchString(text):
			return nil, &call.Error{Code: call.CodeArgsSchema, Detail: "at " + at + ": is not a strong entity tag, in its quotes"}
		default:
			out = append(out, call.Precondition{ETag: text})
		}
	}
	return out, nil
}

// stringAt is the string that a pointer without * leads to.
func stringAt(v any, at string) (string, bool) {
	tokens, ok := facts.ParsePointer(at)
	for _, token := range tokens {
		object, _ := v.(map[string]any)
		v = object[token]
	}
	s, isString := v.(string)
	return s, ok && isString
}
