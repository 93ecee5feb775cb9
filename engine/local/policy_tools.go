package local

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/tool"
)

// toolsError is a bundle whose manifests cannot be taken up.
type toolsError struct{ error }

// Places is for [rego.Places].
func (e toolsError) Places() []string { return []string{e.Error()} }

// errToolsChanged: what a tool is stays the same while an engine is open.
var errToolsChanged error = toolsError{errors.New("tools: the bundle's manifests have changed; it is taken up when the engine is opened anew")}

func sameManifests(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// manifests are those that the layers that decide carry in their bundles.
func (l *live) manifests() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, f := range l.layers {
		if f.Mode != Enforce {
			continue // and whoever follows it may write to it now
		}
		for name, text := range f.tools {
			if _, twice := all[name]; twice {
				return nil, fmt.Errorf("tools: the bundles of two layers have a manifest of %s", name)
			}
			all[name] = text
		}
	}
	return all, nil
}

// tools are the tools of c. Where bundles carry manifests, those are the tools, and
// the directory only holds the modules that they name by their digests; in production
// there is no other way.
func (c Config) tools(policy *live) ([]engine.Tool, error) {
	signed, err := policy.manifests()
	if err != nil {
		return nil, err
	}
	dirs, err := toolDirs(c.Tools)
	if err != nil {
		return nil, err
	}
	var out []engine.Tool
	if len(signed) == 0 && !c.Production {
		load := engine.Wasm
		if c.Dev {
			load = engine.Edited
		}
		for _, d := range dirs {
			out = append(out, load(d))
		}
		return out, nil
	}
	for _, d := range dirs {
		if _, ok := signed[filepath.Base(d)]; !ok {
			return nil, fmt.Errorf("%s: stands outside of the bundles, and tools come from their manifests; put it in a bundle as tools/%s/%s, or remove it",
				filepath.Join(d, tool.FileName), filepath.Base(d), tool.FileName)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		m, err := tool.Parse(signed[name])
		if err != nil {
			return nil, fmt.Errorf("tools/%s of the bundle: %w", name, err)
		}
		if m.Name != name {
			return nil, fmt.Errorf("tools/%s of the bundle: is called %s", name, m.Name)
		}
		if m.Kind == "wasm" && c.Tools == "" {
			return nil, fmt.Errorf("tools/%s of the bundle: there is no directory of modules", name)
		}
		out = append(out, engine.Manifested(string(signed[name]), filepath.Join(c.Tools, name)))
	}
	return out, nil
}
