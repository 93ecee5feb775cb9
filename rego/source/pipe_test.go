//go:build unix

package source_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callgate/callgate/rego/source"
)

// Opening a pipe would wait for a writer, for ever, whoever is told to stop.
func TestPipesAreNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ours := newAuthority(t).known(t, source.Access{})
	for name, a := range map[string]source.Access{
		"ca":          {CA: pipe},
		"client_cert": {ClientCert: pipe, ClientKey: ours.ClientKey},
		"client_key":  {ClientCert: ours.ClientCert, ClientKey: pipe},
		"token":       {Secret: source.Secret{File: pipe}},
	} {
		s, err := source.At("https://a.example/b.tar.gz", a)
		if name == "token" {
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Fetch(t.Context(), "")
		}
		if err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
