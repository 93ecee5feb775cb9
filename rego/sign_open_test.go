package rego_test

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/rego"
)

// Open with keys compiles what was signed by them, and nothing else.
func TestOpenVerifies(t *testing.T) {
	key := edKey(t)
	_, public := pair(t, key)
	good := sign(t, policy(), key)
	open := func(fsys fs.FS, public string) error {
		v := verification(t, key)
		v.Keys["k"] = rego.Key{PEM: public}
		_, err := rego.Open(t.Context(), fsys, rego.Options{Verification: v})
		return err
	}
	_, other := pair(t, edKey(t))
	changed := maps.Clone(good)
	changed["hosts/data.json"] = &fstest.MapFile{Data: []byte(`{"allowed": ["b.example"], "max": 3}`)}
	for _, tt := range []struct {
		name   string
		give   fs.FS
		public string
		want   rego.BundleCode
	}{
		{"unsigned", policy(), public, rego.CodeBundleUnsigned},
		{"another key", good, other, rego.CodeSignatureInvalid},
		{"changed", changed, public, rego.CodeBundleTampered},
	} {
		if err := open(tt.give, tt.public); rego.BundleCodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if err := open(good, "x"); err == nil || rego.BundleCodeOf(err) != "" {
		t.Errorf("no key: %v", err)
	}
	if err := open(good, public); err != nil {
		t.Error(err)
	}
}
