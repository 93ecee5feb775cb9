// Package project writes the small working project that `callgate init` gives a
// newcomer, the demo plays against and tests run on.
package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox/guests"
)

// ErrNotEmpty says that the directory already holds something.
var ErrNotEmpty = errors.New("directory is not empty")

//go:embed template
var template embed.FS

//go:embed production/callgate.yaml
var production embed.FS

// pinMark stands in a tool.yaml of the template for the digest of its module.
const pinMark = "@sha256@"

// standIns are tools of the template that stand for others: the guest that plays
// them.
var standIns = map[string]string{"refund": "echo", "publish": "echo"}

// Write writes the project into dir, which must be empty or not exist:
// callgate.yaml; bundle/ with policy, data, tests and the base library under
// bundle/callgate/; tools/ with manifests and modules; files/ with what they may
// read.
func Write(dir string) error { return write(dir, bundles.Project()) }

// WriteStarter is [Write] with the starter policy, which is data alone, for the same
// tools.
func WriteStarter(dir string) error { return write(dir, bundles.Starter()) }

// Produce turns a project that was just written into one of the production profile,
// whose bundle carries the manifests of its tools. It lacks what callgate.yaml names
// then: the signed policy.tar.gz and keys/release.pub.
func Produce(dir string) error {
	b, err := production.ReadFile("production/callgate.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "callgate.yaml"), b, 0o644); err != nil {
		return err
	}
	tools, err := os.ReadDir(filepath.Join(dir, "tools"))
	if err != nil {
		return err
	}
	for _, t := range tools {
		to := filepath.Join(dir, "bundle", "tools", t.Name())
		err := errors.Join(os.MkdirAll(to, 0o755), os.Rename(filepath.Join(dir, "tools", t.Name(), "tool.yaml"), filepath.Join(to, "tool.yaml")))
		if err != nil {
			return err
		}
	}
	return nil
}

func write(dir string, policy fs.FS) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own, err := fs.Sub(template, "template")
	if err != nil {
		return err
	}
	for _, part := range []struct {
		to   string
		from fs.FS
	}{{"", own}, {"bundle", policy}, {"bundle/callgate", bundles.Base()}} {
		if err := copyTree(filepath.Join(dir, part.to), part.from); err != nil {
			return err
		}
	}
	return pinModules(filepath.Join(dir, "tools"))
}

func copyTree(dir string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
}

// pinModules puts the module of each tool beside its manifest and its digest
// into it.
func pinModules(dir string) error {
	tools, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, t := range tools {
		guest := t.Name()
		if g, ok := standIns[guest]; ok {
			guest = g
		}
		module, err := guests.Module(guest)
		if err != nil {
			return err
		}
		manifest := filepath.Join(dir, t.Name(), "tool.yaml")
		text, err := os.ReadFile(manifest)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(pinMark), []byte(strings.TrimPrefix(call.Digest(module), "sha256:")))
		if err := os.WriteFile(manifest, text, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, t.Name(), t.Name()+".wasm"), module, 0o644); err != nil {
			return err
		}
	}
	return nil
}
