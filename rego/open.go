package rego

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/callgate/callgate/engine/call"
)

// probeTimeout is for the one evaluation at load. It only keeps Open from
// hanging: a decision has far less.
const probeTimeout = 10 * time.Second

// Options configure a Policy.
type Options struct {
	// Name is the layer's name; records carry it. It is written like a reason's
	// code. Empty means [call.DefaultLayer].
	Name string

	// Role says what the layer is there for. Empty means [Permit].
	Role Role

	// Entrypoint is the rule that answers, for policies that were written for
	// something else: data.agent.tool.decision. Empty means the one of the role,
	// data.callgate.decision or data.callgate.restriction.
	Entrypoint string

	// Verification says whose signature the bundle must have. Nil means none, and
	// that a signature is not looked at.
	Verification *Verification

	// LoadTimeout is for all that [Open] does, and [OpenListing]. Zero means 30 s.
	LoadTimeout time.Duration
}

// Validate checks the name, the role and the entrypoint, and the keys.
func (o Options) Validate() error { return o.defaults() }

// defaults fills o in and checks it.
func (o *Options) defaults() error {
	if o.Name == "" {
		o.Name = call.DefaultLayer
	}
	if o.Role == "" {
		o.Role = Permit
	}
	if !isName(o.Name) {
		return fmt.Errorf("rego: %q is no name for a layer", o.Name)
	}
	own, ok := entrypoints[o.Role]
	if !ok {
		return fmt.Errorf("rego: layer %s: the role %q is not %s or %s", o.Name, o.Role, Permit, Restrict)
	}
	if o.Entrypoint == "" {
		o.Entrypoint = own
	}
	if !isEntrypoint(o.Entrypoint) {
		return fmt.Errorf("rego: layer %s: the entrypoint is not the path of a rule, such as %s", o.Name, own)
	}
	if o.Verification != nil {
		if err := o.Verification.Validate(); err != nil {
			return fmt.Errorf("rego: layer %s: %w", o.Name, err)
		}
	}
	return nil
}

// Open reads the bundle in fsys, which is usually what [Load] returns, and compiles
// it. With [Options].Verification it verifies the signature first, and compiles the
// very bytes that were verified. Whether a bundle is older than one before is for
// [Epochs].
//
// # Errors
//
// A [*BundleError] for a signature that will not do. Then Open reports what is wrong with file and line, and as much of it as it can
// find at once: syntax, types, fields that the input does not have, builtins
// outside [Capabilities], data under a rule, rules in the base library's packages
// that are not its own, rules and packages that nobody reads, names with nothing behind
// them and the rest of what [Check] finds, files that OPA would silently leave out, data.starter that
// does not fit rego/schema/data.json, and a missing entrypoint. Asked about a call
// by nobody of nothing, a permit layer must not say anything but no, and a restrict
// layer must say something. [Places] of the error are what to mend. A bundle that takes
// longer than [Options].LoadTimeout, or than ctx lasts, is given up with a [*call.Error]
// with [call.CodePolicyTimeout]; [StillRuns] in its chain says that work on it goes on.
func Open(ctx context.Context, fsys fs.FS, o Options) (*Policy, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	p, err := loading(ctx, o.LoadTimeout, func(ctx context.Context) (*Policy, error) {
		if o.Verification != nil {
			verified, _, err := Verify(fsys, o.Verification)
			if err != nil {
				return nil, err
			}
			fsys = verified
		}
		return open(ctx, fsys, o)
	})
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Name, err)
	}
	return p, nil
}

func open(ctx context.Context, fsys fs.FS, o Options) (*Policy, error) {
	caps := Capabilities()
	b, err := read(fsys, caps)
	if err != nil {
		return nil, err
	}
	if err := checkLibraryPlace(b); err != nil {
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
	c, err := compile(b, caps, storage.NonEmpty(ctx, store, txn), o.Entrypoint)
	if err := ctx.Err(); err != nil {
		return nil, err // nobody waits for more
	}
	if err := errors.Join(vet(b, c, o.Entrypoint), err); err != nil {
		return nil, err
	}
	query, err := oparego.New(
		oparego.Query(o.Entrypoint),
		oparego.Compiler(c),
		oparego.Store(store),
		oparego.Transaction(txn),
		oparego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, err
	}
	modules, err := modulesDigest(b)
	if err != nil {
		return nil, err
	}
	p := &Policy{
		query: query, store: store, txn: txn, patterns: newPatterns(), modules: modules, role: o.Role,
		revision: call.Revision{Name: o.Name, Revision: b.Manifest.Revision, Digest: digest},
	}
	if o.Role != Permit {
		p.revision.Role = string(o.Role)
	}
	if o.Entrypoint != entrypoints[o.Role] {
		p.revision.Entrypoint = o.Entrypoint
	}
	if err := p.probe(ctx, o.Entrypoint); err != nil {
		return nil, err
	}
	p.givenUp.idle = make(chan func())
	return p, nil
}

// read loads the bundle's files. Signatures are not looked at.
func read(fsys fs.FS, caps *ast.Capabilities) (*bundle.Bundle, error) {
	if err := checkFiles(fsys); err != nil {
		return nil, err
	}
	if err := checkBounds(fsys); err != nil {
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
		return nil, &fault{manifestFile, errors.New("says how modules are read; leave that out, and import rego.v2 in modules that need it")}
	}
	for _, m := range b.Modules {
		if v := m.Parsed.RegoVersionSpan().Min(); v != ast.RegoV1 && v != ast.RegoV2 {
			return nil, &fault{m.Path, errors.New("the manifest asks for an older Rego")}
		}
	}
	return &b, nil
}

// checkLibraryPlace keeps a bundle without the base library from having packages of
// it: that would be a library in another place, which nobody compares with ours.
func checkLibraryPlace(b *bundle.Bundle) error {
	var errs []error
	for _, m := range b.Modules {
		if strings.HasPrefix(strings.TrimPrefix(m.Path, "/"), vendored) {
			return nil // what else there may be is for vet to say
		}
		name := strings.TrimPrefix(m.Parsed.Package.Path.String(), "data.")
		if !inRoot(name) || name == ownRoot || name == ownRoot+".rules" || strings.HasSuffix(name, "_test") {
			continue
		}
		const stands = "belongs to the base library, which stands in callgate/; rules go into callgate.rules"
		errs = append(errs, &fault{m.Parsed.Package.Location.String(), &quoting{
			"the package " + stands, fmt.Errorf("package %s %s", name, stands),
		}})
	}
	return errors.Join(errs...)
}

func compile(b *bundle.Bundle, caps *ast.Capabilities, hasData func([]string) (bool, error), entrypoint string) (*ast.Compiler, error) {
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
	if rule, err := ast.ParseRef(entrypoint); err != nil || len(c.GetRules(rule)) == 0 && !c.Failed() {
		errs = append(errs, &fault{entrypoint, fmt.Errorf("there is no rule %s", entrypoint)})
	}
	return c, errors.Join(errs...)
}

// probe asks about a call by nobody of nothing. It also warms what OPA makes
// lazily.
func (p *Policy) probe(ctx context.Context, entrypoint string) error {
	args, err := call.Canonical([]byte("{}"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	d, err := p.Decide(ctx, &call.Input{Args: args})
	switch {
	case p.role == Permit && call.CodeOf(err, "") == call.CodePolicyUndefined:
		return nil // no answer is a no
	case call.CodeOf(err, "") == call.CodePolicyUndefined:
		return &fault{entrypoint, errors.New("asked about an empty call: gives no answer, and would refuse every call that it says nothing about; let it default to pass")}
	case err != nil:
		return fmt.Errorf("asked about an empty call: %w", err)
	case p.role == Permit && d.Verdict != call.Deny:
		return &fault{entrypoint, fmt.Errorf("asked about an empty call: answers %s, and must deny", d.Verdict)}
	}
	return nil
}
