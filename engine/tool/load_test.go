package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLoad(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00")
	sum := sha256.Sum256(module)
	manifest := wasm("m.wasm", hex.EncodeToString(sum[:]))
	write := func(t *testing.T, path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, to, path string) {
		t.Helper()
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
		want string // of the error; "" for none
	}{
		{"wasm", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest))
			write(t, filepath.Join(dir, "m.wasm"), module)
		}, ""},
		{"no manifest", func(*testing.T, string) {}, "tool.yaml"},
		{"bad manifest", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(without("class")))
		}, "tool.yaml: class: is missing"},
		{"empty manifest", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "tool.yaml"), nil) }, "tool.yaml is empty"},
		{"large manifest", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), make([]byte, MaxManifestBytes+1))
		}, "tool.yaml is larger than"},
		{"no module", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest)) }, "module: "},
		{"other module", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest))
			write(t, filepath.Join(dir, "m.wasm"), append(module, 0))
		}, "module: m.wasm does not have the sha256 that tool.yaml states"},
		{"empty module", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest))
			write(t, filepath.Join(dir, "m.wasm"), nil)
		}, "module: m.wasm is empty"},
		{"large module", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest))
			write(t, filepath.Join(dir, "m.wasm"), nil)
			if err := os.Truncate(filepath.Join(dir, "m.wasm"), MaxModuleBytes+1); err != nil {
				t.Fatal(err)
			}
		}, "module: m.wasm is larger than"},
		{"module is a link", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "tool.yaml"), []byte(manifest))
			write(t, filepath.Join(dir, "real.wasm"), module)
			link(t, "real.wasm", filepath.Join(dir, "m.wasm"))
		}, "module: m.wasm is not a regular file"},
		{"manifest is a link", func(t *testing.T, dir string) {
			other := filepath.Join(t.TempDir(), "tool.yaml")
			write(t, other, []byte(hostTool))
			link(t, other, filepath.Join(dir, "tool.yaml"))
		}, "tool.yaml is not a regular file"},
		{"manifest is a pipe", func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(filepath.Join(dir, "tool.yaml"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "tool.yaml is not a regular file"},
		{"manifest is a directory", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "tool.yaml"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "tool.yaml is not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			m, b, err := Load(dir)
			if tt.want == "" {
				if err != nil || m.Module != "m.wasm" || string(b) != string(module) {
					t.Fatalf("%+v, %q, %v", m, b, err)
				}
				return
			}
			if err == nil || m != nil || b != nil {
				t.Fatalf("accepted: %+v, %d bytes", m, len(b))
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want %s and the directory", err, tt.want)
			}
		})
	}

	dir := t.TempDir()
	write(t, filepath.Join(dir, "tool.yaml"), []byte(hostTool))
	if m, b, err := Load(dir); err != nil || b != nil || m.Kind != "host" {
		t.Errorf("host tool: %+v, %q, %v", m, b, err)
	}
	if _, _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that does not exist loads")
	}
}
