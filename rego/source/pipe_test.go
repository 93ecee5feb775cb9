//go:build unix

package source_test

import (
	"errors"
	"os"
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
		if err == nil || !strings.Contains(err.Error(), "is not a ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever can write the file of authorities can be any server.
func TestAuthoritiesOfOthers(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := errors.Join(os.WriteFile(ca, nil, 0o600), os.Chmod(ca, 0o646)); err != nil {
		t.Fatal(err)
	}
	if _, err := source.At("https://a.example/b.tar.gz", source.Access{CA: ca}); err == nil || !strings.Contains(err.Error(), "others may have written it") {
		t.Errorf("At = %v", err)
	}
}
