// Package hostfx performs the effects of a call: what a tool may do to the
// world, done by the host in its place, checked and recorded one by one.
//
// A [Host] holds what the operator configured. [Host.Open] spends a grant and
// gives an [Effects] with exactly the handles that the grant names: a directory
// that is not granted has no handle, so there is nothing to ask for it with. Go
// tools use Effects itself, with paths of the form /<root>/<granted path>/x;
// guests reach the same files through [Effects.Dirs].
//
// There are files (the modes read and list of the fs capability), requests
// ([Effects.HTTP]) and lines for the caller ([Effects.Log]). An fs entry with
// other modes opens its directory and gives no handle for them, so such an attempt
// is a refused effect.
//
// A credential is read when the call opens, only when the grant names it, and is
// put on a request after all that the tool says about it. The tool never has it.
//
// # What hostfx does not protect
//
// It follows hard links and bind mounts that the host made inside a granted
// directory. A tool written in Go can open files and connections without asking
// it. A server that is granted can send a credential back in a form in which
// nobody recognises it, or use it as it likes; and it learns whatever the tool
// tells it.
package hostfx

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant"
)

// Options configure a Host. The zero value gives a Host without roots and
// secrets, that reaches only the network "public".
type Options struct {
	// Roots are the directories that grants may name.
	Roots []Root

	// Networks are the address ranges, besides "public", that grants may name.
	Networks []Network

	// Names are hosts with fixed addresses.
	Names []Name

	// CA holds PEM certificates of authorities to trust besides the system's.
	CA []byte

	// Secrets reads a credential by name. Nil means that there are none. It is
	// asked once for each name and call, and must be safe for concurrent use.
	Secrets func(name string) (Secret, error)

	// Now is the clock that a grant's expiry is held against. Zero means
	// time.Now.
	Now func() time.Time
}

// Root is one directory of the operator's, by name.
type Root struct {
	Name string // [a-z][a-z0-9_-]*
	Path string // absolute; links in it are the operator's own business
}

// Host is what the operator configured, opened once. A nil Host has no roots,
// secrets or networks, "public" included. It is safe for concurrent use.
type Host struct {
	now      func() time.Time
	roots    map[string]*os.Root // name -> open directory
	networks map[string][]netip.Prefix
	names    map[string][]netip.AddrPort
	trust    *x509.CertPool // nil for the system's
	secrets  func(string) (Secret, error)

	guardian *ssrf.Guardian
	resolver *net.Resolver
}

var rootName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// New opens every root. The error names each root, network and name that is
// malformed, repeated or cannot be opened; nothing stays open then.
func New(o Options) (*Host, error) {
	h := &Host{
		now: o.Now, secrets: o.Secrets,
		roots: map[string]*os.Root{}, networks: map[string][]netip.Prefix{}, names: map[string][]netip.AddrPort{},
		guardian: ssrf.New(ssrf.WithAnyPort()), // which port is the grant's business
		// The C library reads 0x7f.1 and the like as addresses.
		resolver: &net.Resolver{PreferGo: true},
	}
	if h.now == nil {
		h.now = time.Now
	}
	var errs []error
	for _, r := range o.Roots {
		if err := h.add(r); err != nil {
			errs = append(errs, fmt.Errorf("hostfx: root %q: %w", r.Name, err))
		}
	}
	for _, n := range o.Networks {
		if err := h.addNetwork(n); err != nil {
			errs = append(errs, fmt.Errorf("hostfx: network %q: %w", n.Name, err))
		}
	}
	for _, n := range o.Names {
		if err := h.addName(n); err != nil {
			errs = append(errs, fmt.Errorf("hostfx: name %q: %w", n.Host, err))
		}
	}
	if err := h.trustAlso(o.CA); err != nil {
		errs = append(errs, fmt.Errorf("hostfx: CA: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Host) add(r Root) error {
	if !rootName.MatchString(r.Name) {
		return errors.New("the name is not [a-z][a-z0-9_-]*")
	}
	if h.roots[r.Name] != nil {
		return errors.New("the name is used twice")
	}
	if !filepath.IsAbs(r.Path) {
		return fmt.Errorf("the path %q is not absolute", r.Path)
	}
	opened, err := os.OpenRoot(r.Path)
	if err != nil {
		return err
	}
	h.roots[r.Name] = opened
	return nil
}

// Close closes the roots. Effects that are open stay usable until their own
// Close. Closing a nil Host does nothing.
func (h *Host) Close() error {
	if h == nil {
		return nil
	}
	var errs []error
	for _, r := range h.roots {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Open spends g, opens the directories that it names and reads the credentials
// that its http entries name, and no others. The caller must Close what it gets.
// Requests end with ctx, or after the grant's time (30 s unless it says, never
// more than a day), whichever is first.
//
// # Errors
//
// [*call.Error] with [call.CodeGrantMismatch] when g is zero, spent, dead or
// expired; [call.CodeRootUnavailable] when a root is unknown or a granted path
// is malformed, missing or no directory; [call.CodePathIsLink] when any
// component of a granted path is a link, wherever it leads;
// [call.CodeSecretUnavailable] when a credential is missing or cannot be used. A
// grant is spent even when Open fails after that.
func (h *Host) Open(ctx context.Context, g grant.Grant) (*Effects, error) {
	now := time.Now
	if h != nil {
		now = h.now
	}
	if !g.Spend(now()) {
		return nil, &call.Error{Code: call.CodeGrantMismatch}
	}
	caps := g.Caps()
	fx := newEffects(ctx, h, g, caps)
	for _, f := range caps.FS {
		if err := fx.open(h, f); err != nil {
			fx.Close()
			return nil, err
		}
	}
	if err := fx.readSecrets(); err != nil {
		fx.Close()
		return nil, err
	}
	return fx, nil
}

// open adds one entry of the grant. Entries for the same directory become one.
func (fx *Effects) open(h *Host, f call.FS) error {
	name := path.Join("/", f.Root, f.Path)
	d := fx.dir(name)
	if d == nil {
		root, err := h.descend(f)
		if err != nil {
			return err
		}
		d = &Dir{fx: fx, root: root, name: name}
		d.self = &Folder{d: d, rel: "."}
		fx.dirs = append(fx.dirs, d)
	}
	d.read = d.read || slices.Contains(f.Modes, "read")
	d.list = d.list || slices.Contains(f.Modes, "list")
	return nil
}

// descend opens the granted path below its root one component at a time. Meet
// compares paths as text, so a link among the components would let two
// different paths be one directory.
func (h *Host) descend(f call.FS) (*os.Root, error) {
	var top *os.Root
	if h != nil {
		top = h.roots[f.Root]
	}
	if top == nil {
		return nil, &call.Error{Code: call.CodeRootUnavailable, Err: fmt.Errorf("no root %q", f.Root)}
	}
	if !fs.ValidPath(f.Path) || len(f.Path) > maxPath || strings.ContainsRune(f.Path, 0) {
		return nil, unavailable(f, errors.New("the granted path is malformed"))
	}
	at, err := top.OpenRoot(".")
	if err != nil {
		return nil, unavailable(f, err)
	}
	if f.Path == "." {
		return at, nil
	}
	for name := range strings.SplitSeq(f.Path, "/") {
		below, err := step(at, name, f)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = below
	}
	return at, nil
}

// step opens the directory name in at, which must not be a link.
func step(at *os.Root, name string, f call.FS) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, unavailable(f, err)
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, &call.Error{Code: call.CodePathIsLink, Detail: "root " + f.Root, Err: fmt.Errorf("%q in %q", name, f.Path)}
	}
	if !seen.IsDir() {
		return nil, unavailable(f, fmt.Errorf("%q is not a directory", name))
	}
	// The dot makes name itself an inner component, which is opened as a
	// directory or not at all: a FIFO put in its place cannot make us wait.
	below, err := at.OpenRoot(name + "/.")
	if err != nil {
		return nil, unavailable(f, err)
	}
	got, err := below.Stat(".")
	if err == nil && !os.SameFile(seen, got) {
		// OpenRoot follows links inside the root; only what we saw to be a
		// directory of this name may come out of it.
		err = &call.Error{Code: call.CodePathIsLink, Detail: "root " + f.Root, Err: fmt.Errorf("%q in %q was replaced", name, f.Path)}
	}
	if err != nil {
		below.Close()
		if call.CodeOf(err, "") == "" {
			err = unavailable(f, err)
		}
		return nil, err
	}
	return below, nil
}

// unavailable names the root, which is the operator's word. The path may come
// from the arguments, so it stays in the private cause.
func unavailable(f call.FS, err error) error {
	return &call.Error{Code: call.CodeRootUnavailable, Detail: "root " + f.Root, Err: err}
}
