// Package pack makes bundles: it builds an archive of a directory, and signs
// archives and directories. What it writes is OPA's form, by OPA's own code, so
// that `opa` reads and verifies it, as this module reads and verifies what `opa
// build` and `opa sign` write.
package pack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

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

	// TestTimeout bounds each test. Zero means 5 s.
	TestTimeout time.Duration
}

// Built is an archive and what went into it.
type Built struct {
	Archive []byte
	Tests   int // that passed
}

// TestError is a bundle whose tests do not pass.
type TestError struct {
	Failed []string // file:line: package.test, and how it went
}

func (e *TestError) Error() string {
	return fmt.Sprintf("%d tests of the bundle do not pass", len(e.Failed))
}

// Build packs a bundle, usually one that [rego.Load] has read from a directory, as
// `opa build -b` does: modules formatted, all data in one file, and files that OPA
// does not read left out, but for the manifests of tools. A signature is left out too, for it would no longer be
// right. The tests stay in: they are part of what is reviewed.
//
// # Errors
//
// [*TestError], if tests fail; OPA's own errors, if the bundle does not compile with
// the builtins of [rego.Capabilities].
func Build(ctx context.Context, fsys fs.FS, o Options) (*Built, error) {
	b, err := read(fsys)
	if err != nil {
		return nil, err
	}
	if o.Revision != "" {
		b.Manifest.Revision = o.Revision
	}
	if b.Manifest.Revision == "" {
		return nil, errors.New("the bundle has no revision")
	}
	if o.Epoch != nil {
		if err := setEpoch(&b.Manifest, *o.Epoch); err != nil {
			return nil, err
		}
	}
	passed, err := test(ctx, b, cmp.Or(o.TestTimeout, 5*time.Second))
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
	if _, err := rego.Archive(bytes.NewReader(archive)); err != nil {
		return nil, fmt.Errorf("what was built is no bundle: %w", err)
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

// test runs the bundle's tests as `opa test` does, and counts those that passed.
func test(ctx context.Context, b *bundle.Bundle, timeout time.Duration) (passed int, err error) {
	store := inmem.NewWithOpts(inmem.OptRoundTripOnWrite(false))
	// The runner's compiler rewrites the modules that it is given, and OPA's
	// activation the data.
	own := b.Copy()
	err = storage.Txn(ctx, store, storage.WriteParams, func(txn storage.Transaction) error {
		results, err := tester.NewRunner().
			SetStore(store).
			SetDefaultRegoVersion(ast.RegoV1).
			SetBundles(map[string]*bundle.Bundle{"bundle": &own}).
			CapturePrintOutput(true).
			SetTimeout(timeout).
			RunTests(ctx, txn)
		if err != nil {
			return err
		}
		var failed []string
		for r := range results {
			switch {
			case r.Pass():
				passed++
			case !r.Skip:
				failed = append(failed, fmt.Sprintf("%s:%d: %s", r.Location.File, r.Location.Row, r))
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(failed) > 0 {
			slices.Sort(failed)
			return &TestError{failed}
		}
		return nil
	})
	return passed, err
}
