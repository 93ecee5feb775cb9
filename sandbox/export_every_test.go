package sandbox

import (
	"maps"
	"slices"
)

// Imports are the names of the functions that guests can import, by module.
func (s *Sandbox) Imports() map[string][]string {
	out := map[string][]string{}
	for module, functions := range s.functions {
		out[module] = slices.Sorted(maps.Keys(functions))
	}
	return out
}
