// Package guests holds small WebAssembly tools, with their sources in src: a
// few that do something useful, and a few that misbehave. The demo and the
// tests of the sandbox run them; src/build.sh builds them again.
//
//	read-file  command: {"path"} -> {"text"}, a file in a granted directory
//	list-dir   command: {"path"} -> {"entries"}, needs the mode list
//	fetch      command: {"url", "secret"?} -> {"status", "text"}, a GET through the host
//	echo       reactor: returns its arguments
//	spin       loops for ever
//	recurse    calls itself for ever
//	fib        recurses without depth or loops, for centuries
//	hog        takes memory until it gets no more, then says so and fails
//	grow       asks for more memory for ever
//	chatter    prints for ever
package guests

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.wasm
var files embed.FS

// Module returns the binary of the guest with this name. The error names a
// guest that does not exist.
func Module(name string) ([]byte, error) {
	b, err := files.ReadFile(name + ".wasm")
	if err != nil {
		return nil, fmt.Errorf("guests: no guest %q", name)
	}
	return b, nil
}

// Names are the guests there are, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("guests: the embedded files have no directory") // cannot happen
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".wasm"))
	}
	slices.Sort(names)
	return names
}
