package rego

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/callgate/callgate/engine/call"
)

// entrypoint is the decision of a permit layer.
const entrypoint = "data.callgate.decision"

// probeTimeout is for the one evaluation at load. It only keeps Open from
// hanging: a decision has far less.
const probeTimeout = 10 * time.Second

// Options configure a Policy.
type Options struct {
	// Name is the layer's name; records carry it. It is written like a reason's
	// code. Empty means "policy".
	Name string
}

// Open reads the bundle in fsys, which is usually what [Load] returns, and compiles
// it.
//
// # Errors
//
// Open reports what is wrong with file and line, and as much of it as it can
// find at once: syntax, types, fields that the input does not have, builtins
// outside [Capabilities], data under a rule, rules in the base library's packages
// that are not its own, files that OPA would silently leave out, data.starter that
// does not fit rego/schema/data.json, a missing entrypoint, and an answer other
// than no to a call by nobody of nothing. [Places] of the error are what to mend.
func Open(ctx context.Context, fsys fs.FS, o Options) (*Policy, error) {
	if o.Name == "" {
		o.Name = "policy"
	}
	if !isName(o.Name) {
		return nil, fmt.Errorf("rego: %q is no name for a layer", o.Name)
	}
	p, err := open(ctx, fsys, o.Name)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Name, err)
	}
	return p, nil
}

func open(ctx context.Context, fsys fs.FS, name string) (*Policy, error) {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return nil, err
	}
	if err := checkPackages(b); err != nil {
		return nil, err
	}
	if err := checkStarter(b); err != nil {
		return nil, err
	}
	digest, err := digest(b)
	if err != nil {
		return nil, err
	}
	// Values on read: decisions look at data in OPA's own form, and copying
	// large documents into it for each of them costs more than keeping it.
	store := inmem.NewFromObjectWithOpts(b.Data, inmem.OptReturnASTValuesOnRead(true))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	c, err := compile(b, caps, storage.NonEmpty(ctx, store, txn))
	if err != nil {
		return nil, err
	}
	query, err := oparego.New(
		oparego.Query(entrypoint),
		oparego.Compiler(c),
		oparego.Store(store),
		oparego.Transaction(txn),
		oparego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	p := &Policy{query, txn, call.Revision{Name: name, Revision: b.Manifest.Revision, Digest: digest}}
	if err := p.probe(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// read loads the bundle's files. Signatures are not looked at.
func read(fsys fs.FS, caps *ast.Capabilities) (*bundle.Bundle, error) {
	if err := checkFiles(fsys); err != nil {
		return nil, err
	}
	l := bundle.NewFSLoaderWithRoot(fsys, ".").WithPathFormat(bundle.Passthrough)
	b, err := bundle.NewCustomReader(l).
		WithSkipBundleVerification(true).
		WithProcessAnnotations(true).
		WithCapabilities(caps).
		WithRegoVersion(ast.RegoV1).
		Read()
	if err != nil {
		return nil, err
	}
	// A manifest that says how modules are read changes what they mean, in another
	// way for each spelling of their paths, and is not part of the digest.
	if v := b.Manifest.RegoVersion; len(b.Manifest.FileRegoVersions) > 0 || v != nil && *v != ast.RegoV1.Int() {
		return nil, &fault{bundle.ManifestExt, errors.New("says how modules are read; leave that out, and import rego.v2 in modules that need it")}
	}
	for _, m := range b.Modules {
		if v := m.Parsed.RegoVersionSpan().Min(); v != ast.RegoV1 && v != ast.RegoV2 {
			return nil, &fault{m.Path, errors.New("the manifest asks for an older Rego")}
		}
	}
	return &b, nil
}

func compile(b *bundle.Bundle, caps *ast.Capabilities, hasData func([]string) (bool, error)) (*ast.Compiler, error) {
	schema, err := inputSchema()
	if err != nil {
		return nil, err
	}
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, schema)
	// Schemas in annotations stay without effect: one could open what ours closes.
	c := ast.NewCompiler().
		WithCapabilities(caps).
		WithStrict(true).
		WithSchemas(schemas).
		WithEnablePrintStatements(false).
		WithPathConflictsCheck(hasData)

	modules := make(map[string]*ast.Module, len(b.Modules))
	var errs []error
	for _, m := range b.Modules {
		modules[m.Path] = m.Parsed
		errs = append(errs, checkZones(m.Parsed)...)
	}
	if c.Compile(modules); c.Failed() {
		errs = append(errs, c.Errors)
	}
	if len(c.GetRules(ast.MustParseRef(entrypoint))) == 0 && !c.Failed() {
		errs = append(errs, &fault{entrypoint, errors.New("there is no rule data.callgate.decision")})
	}
	return c, errors.Join(errs...)
}

// probe asks about a call by nobody of nothing. It also warms what OPA makes
// lazily.
func (p *Policy) probe(ctx context.Context) error {
	args, err := call.Canonical([]byte("{}"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	d, err := p.Decide(ctx, &call.Input{Args: args})
	switch {
	case err != nil && call.CodeOf(err, "") == call.CodePolicyUndefined:
		return nil // no answer is a no
	case err != nil:
		return fmt.Errorf("asked about an empty call: %w", err)
	case d.Verdict != call.Deny:
		return &fault{entrypoint, fmt.Errorf("asked about an empty call: answers %s, and must deny", d.Verdict)}
	}
	return nil
}
