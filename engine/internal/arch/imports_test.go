// Package arch holds the tests of the code's shape: who may import whom, what
// may be called where, and that the documents speak of tests that exist.
package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/callgate/callgate/"

// imports says which of our packages each of our packages may import. An arrow
// that is not here points up, and fails the test.
var imports = map[string][]string{
	"engine/call":                    {},
	"engine/internal/seal":           {"engine/call"},
	"engine/grant":                   {"engine/internal/seal"},
	"engine/grant/granttest":         {"engine/call", "engine/grant", "engine/internal/seal"},
	"engine/facts":                   {"engine/call"},
	"engine/tool":                    {"engine/call", "engine/facts"},
	"engine/state":                   {"engine/call", "engine/internal/durable", "engine/state/internal/question", "engine/keyfile"},
	"engine/state/internal/question": {"engine/call"},
	"engine/state/statetest":         {"engine/call", "engine/state"},
	"engine/state/redis":             {"engine/call", "engine/state", "engine/state/internal/question"},
	"engine/state/redis/redistest":   {},
	"engine/audit":                   {"engine/call", "engine/internal/durable", "engine/keyfile"},
	"engine/notify":                  {"engine/call"},
	"engine/token":                   {"engine/call", "engine/internal/durable", "engine/keyfile"},
	"engine/internal/durable":        {},
	"engine/keyfile":                 {},
	"rego":                           {"engine/call", "rego/internal/durable"},
	"rego/internal/durable":          {},
	"rego/internal/tarball":          {},
	"rego/pack":                      {"rego", "rego/internal/tarball"},
	"rego/source":                    {"engine/call", "rego", "rego/internal/durable", "rego/internal/tarball", "engine/keyfile"},
	"hostfx":                         {"engine/call", "engine/facts", "engine/grant"},
	"sandbox/meter":                  {},
	"sandbox/guest":                  {},
	"sandbox/guests":                 {},
	"sandbox/wasi":                   {"hostfx"},
	"sandbox":                        {"engine/call", "hostfx", "sandbox/meter", "sandbox/wasi"},
	"bundles":                        {},
	"engine":                         {"engine/call", "engine/tool", "engine/state", "engine/grant", "engine/internal/seal", "engine/token", "hostfx"},
	"engine/local/project":           {"bundles", "engine/call", "sandbox/guests"},
	"engine/local": {
		"bundles", "engine", "engine/audit", "engine/call", "engine/notify", "engine/state", "engine/state/redis", "engine/token", "engine/tool", "hostfx", "engine/keyfile", "rego", "rego/source", "sandbox",
	},
	"policytests/story": {"bundles", "engine", "engine/call", "engine/tool", "rego"},
	"cmd/callgate": {
		"bundles", "engine", "engine/audit", "engine/call", "engine/local", "engine/local/project", "engine/state", "engine/token", "engine/tool",
		"hostfx", "engine/keyfile", "policytests/story", "rego", "rego/pack", "rego/source", "sandbox", "sandbox/meter",
	},
}

// list returns the lines that go list prints for our packages.
func list(t *testing.T, format string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImportsPointDown(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range list(t, `{{if .GoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`) {
		if line == "" {
			continue
		}
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		seen[pkg] = true
		allowed, ok := imports[pkg]
		if !ok {
			t.Errorf("package %s has no place in the table of imports", pkg)
			continue
		}
		for _, imp := range words[1:] {
			if name, ours := strings.CutPrefix(imp, module); ours && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s: the arrow points up", pkg, name)
			}
		}
	}
	for pkg := range imports {
		if !seen[pkg] {
			t.Errorf("the table names %s, which is not there", pkg)
		}
	}
}

// Only the door to the policy knows OPA, only the sandbox knows wazero, only
// the command knows flags and configuration files.
func TestHeavyDependenciesStayInTheirRoom(t *testing.T) {
	rooms := map[string][]string{
		"github.com/open-policy-agent/opa": {"rego", "rego/pack"},
		"oras.land/oras-go":                {"rego/source"},
		"github.com/tetratelabs/wazero":    {"sandbox", "sandbox/wasi"},
		"github.com/spf13/":                {"cmd/callgate"},
		"mvdan.cc/sh":                      {"engine/facts"},
		"github.com/redis/rueidis":         {"engine/state/redis"},
		"github.com/go-jose/go-jose":       {"engine/token"},
	}
	for _, line := range list(t, `{{if .GoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`) {
		if line == "" {
			continue
		}
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		for _, imp := range words[1:] {
			for dep, allowed := range rooms {
				if strings.HasPrefix(imp, dep) && !slices.Contains(allowed, pkg) {
					t.Errorf("%s imports %s, which only %v may", pkg, imp, allowed)
				}
			}
		}
	}
}
