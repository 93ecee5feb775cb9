// Package story tells stories: calls that were made or tried somewhere, and what
// policies say to them. policytests/README.md explains how to write one.
package story

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	yaml "go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/rego"
)

// story is one archive: layers, tools, and scenes.
type story struct {
	name   string
	layers []layer
	tools  map[string]manifest
	scenes []*scene
	files  *txtar.Archive
	this   fs.FS // the policy that is tested; nil for none
}

// layer is one bundle. Files of the archive in a directory of its name are laid over
// the bundle's own.
type layer struct {
	Name       string    `yaml:"name"`
	Bundle     string    `yaml:"bundle"` // one that is shipped; base for none but the library, none for nothing
	Role       rego.Role `yaml:"role"`
	Entrypoint string    `yaml:"entrypoint"`
}

// head is story.yaml.
type head struct {
	Layers []layer `yaml:"layers"`
	Given  ask     `yaml:"given"` // what each call is, unless it says otherwise
}

// manifest is a tool.yaml with its text.
type manifest struct {
	*tool.Manifest
	text string
}

// scene is one case: a single call, or the steps of several through an engine.
type scene struct {
	name string
	want *want // nil when the archive does not say

	Why  string `yaml:"why"`
	Ref  string `yaml:"ref"`
	Kind string `yaml:"kind"` // attack or everyday
	Lets string `yaml:"lets"` // of an attack that gets through: why

	ask   `yaml:",inline"`
	Steps []step `yaml:"-"`
}

// The kinds of scenes.
const (
	attack   = "attack"
	everyday = "everyday"
)

// ask is one call as its caller makes it.
type ask struct {
	Tool      string    `yaml:"tool"`
	As        as        `yaml:"as"`
	Args      value     `yaml:"args"`
	Principal principal `yaml:"principal"`
	Session   session   `yaml:"session"`
	Asserted  asserted  `yaml:"asserted"`
	At        time.Time `yaml:"at"`
	Tries     []effort  `yaml:"tries"` // what the tool then does
}

// as is what a manifest cannot say of a tool: that it is another program's, and what
// was found in it.
type as struct {
	Name     string   `yaml:"name"`
	Kind     string   `yaml:"kind"`
	Server   string   `yaml:"server"`
	Tags     []string `yaml:"tags"`
	Findings []string `yaml:"findings"`
}

type principal struct {
	ID         string         `yaml:"id"`
	Kind       string         `yaml:"kind"`
	Roles      []string       `yaml:"roles"`
	Tenant     string         `yaml:"tenant"`
	Auth       string         `yaml:"auth"`
	Claims     map[string]any `yaml:"claims"`
	OnBehalfOf []principal    `yaml:"on_behalf_of"` // of steps only
}

type session struct {
	Labels []string `yaml:"labels"`
	Plan   []task   `yaml:"plan"`
	Calls  int64    `yaml:"calls"`
}

// task is one of the session's plan.
type task struct {
	ID     string   `yaml:"id"`
	Status string   `yaml:"status"`
	Tools  []string `yaml:"tools"`
	After  []string `yaml:"after"`
}

type asserted struct {
	Justification string         `yaml:"justification"`
	Context       map[string]any `yaml:"context"`
}

// effort is one thing that the tool tries with what it was granted.
type effort struct {
	Kind    string `yaml:"kind"` // http or fs
	Method  string `yaml:"method"`
	Host    string `yaml:"host"`
	Port    int    `yaml:"port"`
	Network string `yaml:"network"`
	Secret  string `yaml:"secret"`
	Root    string `yaml:"root"`
	Mode    string `yaml:"mode"`
	Path    string `yaml:"path"`
}

// value is arguments: a mapping, or a text that is sent as it stands.
type value string

func (v *value) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		var s string
		if err := n.Decode(&s); err != nil {
			return err
		}
		*v = value(s)
		return nil
	}
	var x any
	if err := n.Decode(&x); err != nil {
		return err
	}
	b, err := json.Marshal(x, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("line %d: arguments that are not JSON", n.Line)
	}
	*v = value(b)
	return nil
}

const (
	storySuffix = ".txtar"
	maxName     = 1024 // bytes of a file's name
)

var (
	sceneForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	layerForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
)

// parseStory reads an archive. Whatever it does not understand is an error: a file
// that nobody reads would be a test that nobody runs.
func parseStory(name string, src []byte, this fs.FS) (*story, error) {
	s := &story{this: this, name: strings.TrimSuffix(path.Base(name), storySuffix), tools: map[string]manifest{}, files: txtar.Parse(src)}
	if len(bytes.TrimSpace(s.files.Comment)) == 0 {
		return nil, errors.New("no prose on top")
	}
	var h head
	seen := map[string]bool{}
	for i, f := range s.files.Files {
		if seen[f.Name] || !cleanName(f.Name) {
			return nil, fmt.Errorf("%s: stands there twice, or is no clean relative name", f.Name)
		}
		seen[f.Name] = true
		if (i == 0) != (f.Name == "story.yaml") {
			return nil, errors.New("story.yaml is not the first file")
		}
		if err := s.file(&h, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(s.scenes) == 0 {
		return nil, errors.New("no scenes")
	}
	return s, nil
}

func cleanName(name string) bool {
	return fs.ValidPath(name) && len(name) <= maxName && !strings.Contains(name, `\`)
}

func (s *story) file(h *head, f txtar.File) error {
	base, ext := strings.TrimSuffix(f.Name, path.Ext(f.Name)), path.Ext(f.Name)
	dir, _, nested := strings.Cut(f.Name, "/")
	switch {
	case f.Name == "story.yaml":
		return s.head(h, f.Data)
	case f.Name == "tools.yaml":
		return s.readTools(f.Data)
	case ext == ".call" || ext == ".road":
		return s.scene(h, base, ext, f.Data)
	case ext == ".want":
		if len(s.scenes) == 0 || s.scenes[len(s.scenes)-1].name != base {
			return errors.New("does not stand after its scene")
		}
		w := &want{}
		s.scenes[len(s.scenes)-1].want = w
		return strict(f.Data, w)
	case nested && slices.ContainsFunc(s.layers, func(l layer) bool { return l.Name == dir }):
		return nil
	}
	return errors.New("is none of story.yaml, tools.yaml, a scene, its want, and a file of a layer")
}

func (s *story) head(h *head, src []byte) error {
	if err := strict(src, h); err != nil {
		return err
	}
	if len(h.Layers) == 0 || len(h.Layers) > 8 {
		return errors.New("no layers, or more than 8")
	}
	for i := range h.Layers {
		l := &h.Layers[i]
		if l.Bundle == "" {
			l.Bundle = "base"
		}
		if l.Role == "" {
			if l.Role = rego.Permit; l.Bundle == "org-baseline" {
				l.Role = rego.Restrict
			}
		}
		if !layerForm.MatchString(l.Name) || slices.ContainsFunc(h.Layers[:i], func(o layer) bool { return o.Name == l.Name }) {
			return fmt.Errorf("layer %q: no name, or one that stands there twice", l.Name)
		}
		if shipped[l.Bundle] == nil && (l.Bundle != This || s.this == nil) {
			return fmt.Errorf("layer %s: there is no bundle %q", l.Name, l.Bundle)
		}
		if l.Role != rego.Permit && l.Role != rego.Restrict {
			return fmt.Errorf("layer %s: there is no role %q", l.Name, l.Role)
		}
	}
	s.layers = h.Layers
	return nil
}

func (s *story) readTools(src []byte) error {
	var list []yaml.Node
	if err := strict(src, &list); err != nil {
		return err
	}
	for i := range list {
		text, err := yaml.Marshal(&list[i])
		if err != nil {
			return err
		}
		m, err := tool.Parse(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", list[i].Line, err)
		}
		if s.tools[m.Name].Manifest != nil {
			return fmt.Errorf("line %d: %s stands there twice", list[i].Line, m.Name)
		}
		s.tools[m.Name] = manifest{m, string(text)}
	}
	return nil
}

func (s *story) scene(h *head, name, ext string, src []byte) error {
	c := &scene{name: name, ask: h.Given}
	if !sceneForm.MatchString(name) || slices.ContainsFunc(s.scenes, func(o *scene) bool { return o.name == name }) {
		return errors.New("is no name for a scene, or stands there twice")
	}
	s.scenes = append(s.scenes, c)
	if ext == ".road" {
		if err := c.road(src, h.Given); err != nil {
			return err
		}
	} else if err := strict(src, c); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(c.Why) == "":
		return errors.New("why is missing")
	case c.Kind != attack && c.Kind != everyday:
		return fmt.Errorf("kind is neither %s nor %s", attack, everyday)
	case c.Kind == everyday && c.Lets != "":
		return errors.New("lets is for attacks")
	case ext == ".call" && len(c.Principal.OnBehalfOf) > 0:
		return errors.New("on_behalf_of is for the steps of a road")
	}
	return nil
}

// strict decodes one YAML document and knows every key of it.
func strict(src []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(src))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("is empty")
		}
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	return nil
}
