package tool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadCeiling(t *testing.T) {
	tests := []struct {
		name, give, want string // "" for accepted
	}{
		{"some", "fs: [{root: w, path: ., modes: [read]}]\nbounds: {timeout_ms: 1000}\n", ""},
		{"none", "{}", ""},
		{"empty", "", "is empty"},
		{"unknown key", "files: []", "files"},
		{"key twice", "log: true\nlog: false\n", "stands there twice"},
		{"two documents", "log: true\n---\nlog: true\n", "more than one document"},
		{"malformed", "fs: [{root: w, path: /, modes: [read]}]", "fs[0].path is absolute"},
		{"bound of zero", "bounds: {fuel: 0}", "bounds.fuel"},
		{"large", strings.Repeat("#", MaxManifestBytes+1), "is larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "ceiling.yaml")
			if err := os.WriteFile(name, []byte(tt.give), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := LoadCeiling(name)
			if tt.want == "" {
				if err != nil || c == nil {
					t.Fatalf("%+v, %v", c, err)
				}
				return
			}
			if err == nil || c != nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%+v, %v, want %q and the file", c, err, tt.want)
			}
		})
	}
	if c, err := LoadCeiling(filepath.Join(t.TempDir(), "none")); err == nil || c != nil {
		t.Errorf("a file that does not exist: %+v, %v", c, err)
	}
}
