package rego_test

import (
	"os/exec"
	"strings"
	"testing"
)

// OPA's plugins bring a decision log that drops, masks that miss, and bundles that are
// parsed before they are checked. Ours is the log, and the one that fetches; what is not
// in the program cannot be switched on.
func TestNoPluginsAreLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/callgate/callgate/cmd/callgate").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	for _, pkg := range linked {
		rest, ours := strings.CutPrefix(pkg, "github.com/open-policy-agent/opa/v1/")
		for _, not := range []string{"plugins", "sdk", "server", "runtime", "download"} {
			if ours && (rest == not || strings.HasPrefix(rest, not+"/")) {
				t.Errorf("%s is linked", pkg)
			}
		}
	}
	if len(linked) < 100 {
		t.Errorf("only %d packages", len(linked))
	}
}
