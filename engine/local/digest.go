package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
)

// digest is sha256:<hex> over everything in c that makes one engine answer
// differently from another, so that a client can tell whether the owner is the
// engine that it would have opened itself: what the settings are and what stands
// in the files of the tools, the ceiling, the authorities and the keys that sign. Not part of it: the
// data directory, whose socket is how they meet; Dev, whose owner works this out for each client anew; the clock and the logger; what
// credentials are; and the code of host tools, of which only the number is known
// here.
//
// Of the policy it is where the files of each layer are, as it is spelt, for links to it may be
// made to lead elsewhere. The owner follows what stands in them and does not take
// up what is broken, so a client could only know better for a moment. An owner
// that does not follow them is told by their contents, but for those at a URL.
func (c Config) digest() (_ string, err error) {
	type root struct{ Name, Path string }
	d := struct {
		Layers                   []Layer
		Tools, Ceiling, Node, CA string
		Roots                    []root
		Networks                 []hostfx.Network
		Names                    []hostfx.Name
		Secrets                  []Secret
		Webhooks                 []Webhook
		HostTools, MaxGuests     int
		MaxMemory, CompileCPUNS  int64
		MaxRefusals              int
		DecideTimeoutNS          int64
		AssertedApprovers        bool
		Production               bool
		ExecEnforcement          string
		ProcessLifeNS            int64
		Processes, AllProcesses  int
		Journal                  Journal
		Grants                   Grants
		State                    Shared
		Witnesses                []Witness
		Witnessing               Witnessing
	}{
		Node: c.Node, HostTools: len(c.HostTools), MaxGuests: c.MaxGuests, MaxRefusals: c.MaxRefusals,
		MaxMemory: c.Guests.MaxMemory, CompileCPUNS: int64(c.Guests.CompileCPU),
		DecideTimeoutNS: int64(c.DecideTimeout), AssertedApprovers: c.AssertedApprovers, Production: c.Production, ExecEnforcement: c.ExecEnforcement, Journal: c.Journal,
		ProcessLifeNS: int64(c.Processes.Life), Processes: c.Processes.Session, AllProcesses: c.Processes.All,
		Networks: c.Networks, Names: c.Names, Secrets: slices.Clone(c.Secrets), Webhooks: c.Webhooks, Grants: c.Grants,
		Witnesses: slices.Clone(c.Witnesses), Witnessing: c.Witnessing,
	}
	d.Grants.Issuers = slices.Clone(c.Grants.Issuers)
	if c.State != nil {
		d.State = *c.State
	}
	for _, r := range c.Roots {
		d.Roots = append(d.Roots, root(r))
	}
	if d.Layers, err = c.layers(); err != nil {
		return "", err
	}
	slices.SortFunc(d.Layers, func(k, l Layer) int { return cmp.Or(cmp.Compare(k.Mode, l.Mode), cmp.Compare(k.Name, l.Name)) })
	d.Tools, d.Ceiling, d.CA = c.Tools, c.Ceiling, c.CA
	read := []*string{&d.Tools, &d.Ceiling, &d.CA, &d.State.CA} // whose contents count
	paths := append(slices.Clone(read), &d.State.KeyFile, &d.State.PasswordFile, &d.Journal.Dir)
	for i := range d.Layers {
		l := &d.Layers[i]
		if c.Watch < 0 && !l.remote() {
			paths = append(paths, &l.Bundle)
		} else if l.Bundle, err = l.place(); err != nil {
			return "", err
		}
		if paths = append(paths, &l.CA, &l.TokenFile, &l.ClientCert, &l.ClientKey); l.CA != "" {
			read = append(read, &l.CA)
		}
		if l.Signing == nil {
			continue
		}
		l.Signing = &Signing{l.Signing.Scope, slices.Clone(l.Signing.Keys)}
		for i := range l.Signing.Keys {
			paths = append(paths, &l.Signing.Keys[i].File)
			read = append(read, &l.Signing.Keys[i].File)
		}
	}
	for i := range d.Roots {
		paths = append(paths, &d.Roots[i].Path)
	}
	for i := range d.Secrets {
		paths = append(paths, &d.Secrets[i].File)
	}
	paths = append(paths, &d.Grants.Keys) // which rotate while the owner runs, as sets of keys do
	for i := range d.Grants.Issuers {
		if paths = append(paths, &d.Grants.Issuers[i].CA); !d.Grants.Issuers[i].remote() {
			paths = append(paths, &d.Grants.Issuers[i].JWKS)
		}
		if d.Grants.Issuers[i].CA != "" {
			read = append(read, &d.Grants.Issuers[i].CA)
		}
	}
	for i := range d.Witnesses {
		w := &d.Witnesses[i]
		if paths = append(paths, &w.Path, &w.CA); w.CA != "" {
			read = append(read, &w.CA)
		}
	}
	for _, p := range paths {
		var err error
		if *p, err = oneName(*p); err != nil {
			return "", err
		}
	}
	for _, p := range read {
		digest, err := contents(*p)
		if err != nil {
			return "", err
		}
		*p += " " + digest
	}
	for i := range d.Layers {
		if c.Watch >= 0 || d.Layers[i].remote() {
			continue
		}
		digest, err := bundleContents(d.Layers[i].Bundle)
		if err != nil {
			return "", err
		}
		d.Layers[i].Bundle += " " + digest
	}
	b, err := json.Marshal(d, json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.Int(int64(d)))
	})))
	if err != nil {
		return "", err
	}
	return call.Digest(b), nil
}

// bundleContents is a digest of what stands in a directory or an archive.
func bundleContents(path string) (string, error) {
	fsys, err := rego.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil // Open says so
	}
	if err != nil {
		return "", err
	}
	return bundles.Digest(fsys)
}

// contents is a digest of the file or of all files at path. What it cannot read is
// an error: two settings that are both unreadable are not the same.
func contents(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil // Open says so
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		digest, err := bundles.Digest(os.DirFS(path))
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return digest, nil
	}
	if !info.Mode().IsRegular() || info.Size() > tool.MaxManifestBytes {
		return "", fmt.Errorf("%s: is not a file of at most %d bytes", path, tool.MaxManifestBytes)
	}
	b, err := os.ReadFile(path)
	return call.Digest(b), err
}

// oneName is the same for all paths that lead to one file; "" stays "".
func oneName(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, nil // not there: Open will say so
}
