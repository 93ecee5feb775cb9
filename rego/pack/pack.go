// Package pack makes bundles: it builds an archive of a directory, and signs
// archives and directories. What it writes is OPA's form, by OPA's own code, so
// that `opa` reads and verifies it, as this module reads and verifies what `opa
// build` and `opa sign` write.
package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"

	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/internal/tarball"
)

// Options say what a built bundle is called.
type Options struct {
	// Revision goes into the manifest. Empty keeps what is there, which must be
	// something: it is the name by which people speak of a bundle.
	Revision string

	// Epoch goes into the manifest, as metadata.callgate.epoch. Nil keeps what is
	// there, if anything; [rego.Epochs] refuses bundles without one.
	Epoch *int64

	// Role and Entrypoint are those of the layer that the bundle is for, as in
	// [rego.Options].
	Role       rego.Role
	Entrypoint string

	// TestTimeout bounds each test, each time it is run. Zero means 5 s.
	TestTimeout time.Duration
}

// Built is an archive and what went into it.
type Built struct {
	Archive []byte
	Tests   int // that passed
}

// ErrNoRevision is a bundle of which neither the manifest nor [Options] say what it is
// called.
var ErrNoRevision = errors.New("the bundle has no revision")

// RefusedError is a bundle that [rego.Open] would refuse.
type RefusedError struct {
	Findings []rego.Finding // errors all of them
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("the bundle would not load")
	for _, f := range e.Findings {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// TestError is a bundle whose tests do not pass.
type TestError struct {
	Failed []string // file:line: package.test, and how it went
}

func (e *TestError) Error() string {
	return fmt.Sprintf("%d tests of the bundle do not pass", len(e.Failed))
}

// Build packs a bundle, usually one that [rego.Load] has read from a directory, as
// `opa build -b` does: modules formatted, and all data in one file. Files that are
// neither rules nor data nor manifests of tools are left out, and so is a signature,
// for it would no longer be right. The tests stay in: they are part of what is reviewed.
//
// What [rego.Open] would refuse is not built, for the archive would have lost what it
// is refused for, such as a file of denials with a name that OPA does not read. Only of
// a bundle with nothing in data.callgate, and without [Options].Entrypoint, it is not
// known what is asked of it; then its files are looked at, and whether it compiles.
//
// # Errors
//
// [ErrNoRevision]; [*RefusedError] and [*TestError], of [rego.Test]; OPA's own errors, if the bundle
// does not compile with the builtins of [rego.Capabilities].
func Build(ctx context.Context, fsys fs.FS, o Options) (*Built, error) {
	if err := check(ctx, fsys, o); err != nil {
		return nil, err
	}
	b, err := read(fsys)
	if err != nil {
		return nil, err
	}
	if o.Revision != "" {
		b.Manifest.Revision = o.Revision
	}
	if b.Manifest.Revision == "" {
		return nil, ErrNoRevision
	}
	if o.Epoch != nil {
		if err := setEpoch(&b.Manifest, *o.Epoch); err != nil {
			return nil, err
		}
	}
	passed, err := test(ctx, fsys, o.TestTimeout)
	if err != nil {
		return nil, err
	}
	b.SetRegoVersion(ast.RegoV1)
	var out bytes.Buffer
	err = compile.New().
		WithBundle(b).
		WithCapabilities(rego.Capabilities()).
		WithRegoVersion(ast.RegoV1).
		WithOutput(&out).
		Build(ctx)
	if err != nil {
		return nil, err
	}
	archive, err := withManifests(out.Bytes(), fsys)
	if err != nil {
		return nil, err
	}
	// Whatever was built must be what will be read.
	if err := same(archive, fsys); err != nil {
		return nil, fmt.Errorf("what was built is not the bundle: %w", err)
	}
	return &Built{archive, passed}, nil
}

// withManifests adds the manifests of tools, which OPA leaves out.
func withManifests(archive []byte, fsys fs.FS) ([]byte, error) {
	manifests, err := rego.Manifests(fsys)
	if err != nil || len(manifests) == 0 {
		return archive, err
	}
	files, err := untar(archive)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		files = append(files, tarball.File{Name: "tools/" + name + "/tool.yaml", Data: manifests[name]})
	}
	return tarball.Write(files)
}

func read(fsys fs.FS) (*bundle.Bundle, error) {
	b, err := bundle.NewCustomReader(bundle.NewFSLoaderWithRoot(fsys, ".").WithPathFormat(bundle.Passthrough)).
		WithSkipBundleVerification(true).
		WithProcessAnnotations(true).
		WithCapabilities(rego.Capabilities()).
		WithRegoVersion(ast.RegoV1).
		Read()
	if err != nil {
		return nil, err
	}
	if b.Type() != bundle.SnapshotBundleType {
		return nil, errors.New("a delta bundle is no whole one")
	}
	return &b, nil
}

func setEpoch(m *bundle.Manifest, epoch int64) error {
	if epoch < 0 {
		return errors.New("the epoch is below 0")
	}
	ours, ok := m.Metadata["callgate"].(map[string]any)
	if _, there := m.Metadata["callgate"]; there && !ok {
		return errors.New(".manifest: metadata.callgate is not an object")
	}
	ours, meta := maps.Clone(ours), maps.Clone(m.Metadata)
	if ours == nil {
		ours = map[string]any{}
	}
	if meta == nil {
		meta = map[string]any{}
	}
	ours["epoch"], meta["callgate"] = epoch, ours
	m.Metadata = meta
	return nil
}

// check refuses what would not load.
func check(ctx context.Context, fsys fs.FS, o Options) error {
	facts, err := rego.Inspect(fsys)
	if err == nil && o.Role == "" && o.Entrypoint == "" && !slices.ContainsFunc(facts.Packages, isOurs) {
		return nil
	}
	found, err := rego.Check(ctx, fsys, rego.CheckOptions{Role: o.Role, Entrypoint: o.Entrypoint})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(f rego.Finding) bool { return f.Severity != rego.SeverityError })
	if len(found) > 0 {
		return &RefusedError{found}
	}
	return nil
}

func isOurs(pkg string) bool { return pkg == "callgate" || strings.HasPrefix(pkg, "callgate.") }

// test runs the bundle's tests and counts those that passed.
func test(ctx context.Context, fsys fs.FS, timeout time.Duration) (passed int, err error) {
	r, err := rego.Test(ctx, fsys, rego.TestSettings{Timeout: timeout})
	if err != nil {
		return 0, err
	}
	var failed []string
	for _, t := range r.Tests {
		if t.Outcome == rego.TestPass || t.Outcome == rego.TestSkip {
			continue
		}
		line := fmt.Sprintf("%s: %s: %s", t.Where, t.Name, t.Outcome)
		if t.Detail != "" {
			line += ": " + t.Detail
		}
		failed = append(failed, line)
	}
	if len(failed) > 0 {
		return r.Passed, &TestError{failed}
	}
	return r.Passed, nil
}

// same says whether the archive can be read and has the packages of the files that it
// was built of. The digests differ if modules were not formatted.
func same(archive []byte, fsys fs.FS) error {
	read, err := rego.Archive(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	got, err := rego.Inspect(read)
	if err != nil {
		return err
	}
	want, err := rego.Inspect(fsys)
	if err != nil {
		return err
	}
	if !slices.Equal(got.Packages, want.Packages) {
		return errors.New("packages are missing")
	}
	return nil
}
