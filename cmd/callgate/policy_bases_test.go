package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/bundles"
)

// `callgate policy vendor` replaces only libraries that were shipped. A library that
// is changed and not noted here would be one that nobody shipped, for the version that
// comes after.
func TestShippedBases(t *testing.T) {
	now, err := bundles.Digest(bundles.Base())
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(shippedBases)
	if len(all) == 0 || all[len(all)-1] != now {
		t.Errorf("the base library has changed: add %s as the last line of policy_bases.txt, and leave those that were released", now)
	}
	for i, d := range all {
		if hex, ok := strings.CutPrefix(d, "sha256:"); !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" || slices.Contains(all[:i], d) {
			t.Errorf("%s is no digest, or stands there twice", d)
		}
	}
}
