package rego

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// vendored is the directory of the base library in a bundle that uses it.
const vendored = "callgate/"

// checkPackages keeps the base library's packages its own. OPA joins files of one
// package wherever they are, so a file elsewhere could add a rule to the decision
// or to a helper that every rule trusts. Rules go into callgate.rules; tests may
// be beside anything. A bundle without the library may define the package callgate,
// for its decision, and none below it: a library in another place is one that nobody
// compares.
func checkPackages(b *bundle.Bundle) error {
	inside := func(m bundle.ModuleFile) bool {
		return strings.HasPrefix(strings.TrimPrefix(m.Path, "/"), vendored)
	}
	uses := false
	for _, m := range b.Modules {
		uses = uses || inside(m)
	}
	var errs []error
	for _, m := range b.Modules {
		name := strings.TrimPrefix(m.Parsed.Package.Path.String(), "data.")
		ours := name == "callgate" && uses || strings.HasPrefix(name, "callgate.") || strings.HasPrefix(name, "callgate[")
		if inside(m) || !ours || name == "callgate.rules" || strings.HasSuffix(name, "_test") {
			continue
		}
		errs = append(errs, &fault{m.Parsed.Package.Location.String(), &quoting{
			"the package belongs to the base library, which stands in callgate/; rules go into callgate.rules",
			fmt.Errorf("package %s belongs to the base library, which stands in callgate/; rules go into callgate.rules", name),
		}})
	}
	if _, ok := b.Data["callgate"]; ok && uses {
		errs = append(errs, &fault{"data.callgate", errors.New("data under callgate belongs to the base library")})
	}
	return errors.Join(errs...)
}
