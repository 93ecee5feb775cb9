package rego_test

import (
	"testing"

	"github.com/callgate/callgate/rego"
)

// Every file is signed but the signature itself, whatever its name is like: OPA once
// left out all whose names ended as the signature's.
func TestSignatureHasOneName(t *testing.T) {
	key := edKey(t)
	for _, name := range []string{"signatures.json", "x.signatures.json", "xsignatures.json", ".signatures.json.rego", "x/signatures.json", ".Signatures.json.bak"} {
		m := sign(t, policy(), key)
		put(m, name, "package callgate\n\ndecision := \"allow\"\n")
		if _, _, err := rego.Verify(m, verification(t, key)); rego.BundleCodeOf(err) != rego.CodeBundleFileExtra {
			t.Errorf("%s: %v", name, err)
		}
	}
}
