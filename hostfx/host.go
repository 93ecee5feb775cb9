// Package hostfx performs the effects of a call: what a tool may do to the
// world, done by the host in its place, checked and recorded one by one.
//
// A [Host] holds what the operator configured. [Host.Open] spends a grant and
// gives an [Effects] with exactly the handles that the grant names: a directory
// that is not granted has no handle, so there is nothing to ask for it with. Go
// tools use Effects itself, with paths of the form /<root>/<granted path>/x;
// guests reach the same files through [Effects.Dirs].
//
// There are files ([Modes] says what each mode of the fs capability gives), requests
// ([Effects.HTTP]), commands ([Effects.Run]), which may go on for later calls of a
// session ([Effects.Start]), the plan of the session ([Effects.RegisterTask]), and lines
// for the caller ([Effects.Log]).
//
// A call that is granted a workspace leaves in a journal what it is about to change, so
// that [Effects.Undo] can put it back and [Effects.Diff] show it.
//
// A credential is read when the call opens, only when the grant names it, and is
// put on a request after all that the tool says about it. The tool never has it.
//
// # What hostfx does not protect
//
// It reads files of which the host made a second name inside a granted directory;
// it does not write to them. Only where Linux has openat2 does it keep out of what is
// mounted inside a granted directory. A tool written in Go can open files and connections without asking
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
	"path"
	"path/filepath"
	"regexp"
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
	// asked once for each name and call, and must be safe for concurrent use. Its
	// errors are told to nobody, since they may quote what it read; of a [*call.Error],
	// Where is told to the operator.
	Secrets func(name string) (Secret, error)

	// Now is the clock that a grant's expiry is held against, and that says how long
	// effects took. Zero means time.Now.
	Now func() time.Time

	// ExecEnforcement is the least that the kernel must do to confine commands, or
	// calls that were granted some do not start: [Enforced], [Partial], or
	// [Unavailable] for whatever there is. Zero means Enforced. Commands run on Linux
	// only.
	ExecEnforcement string

	// ProcessLife is how long a command may go on that [Effects.Start] started. Zero
	// means an hour.
	ProcessLife time.Duration

	// Processes is how many of them one session may have, and AllProcesses how many all
	// sessions together, those that ended and were not forgotten included. Zero means 8
	// and 64.
	Processes, AllProcesses int

	// Journal is the absolute path of a directory, of the operator's own user and closed
	// to all others, for what files were before calls changed them: see
	// [Effects.Workspace]. It is made if it is missing, and no other process may use it.
	// Zero means none, and no call for which a workspace is granted.
	Journal string

	// JournalBytes is how large the journal may become, and JournalAge how long what a
	// call changed is kept. The oldest calls go first; those under way stay. Zero means
	// 1 GiB and 30 days.
	JournalBytes int64
	JournalAge   time.Duration

	// Launcher is the path of a program that calls [Main] first in its main function,
	// for one that does not do so itself. Zero means the program that runs.
	Launcher string
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
	kernel   bool              // openat2 resolves names, and not os.Root
	roots    map[string]*place // name -> open directory
	networks map[string][]netip.Prefix
	names    map[string][]netip.AddrPort
	trust    *x509.CertPool // nil for the system's
	secrets  func(string) (Secret, error)
	exec     commands

	processes *processes
	journal   *journal // nil for none

	guardian *ssrf.Guardian
	resolver *net.Resolver
}

var rootName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// New opens every root. The error names each root, network and name that is
// malformed, repeated or cannot be opened; nothing stays open then.
func New(o Options) (*Host, error) { return newHost(o, kernelResolves()) }

func newHost(o Options, kernel bool) (*Host, error) {
	h := &Host{
		kernel: kernel, now: o.Now, secrets: o.Secrets,
		roots: map[string]*place{}, networks: map[string][]netip.Prefix{}, names: map[string][]netip.AddrPort{},
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
	var err error
	if h.exec, err = newCommands(o); err != nil {
		errs = append(errs, err)
	}
	if h.processes, err = newProcesses(o, h.now); err != nil {
		errs = append(errs, err)
	}
	if o.Journal != "" && len(errs) == 0 {
		if h.journal, err = openJournal(o, h.roots, h.now); err != nil {
			errs = append(errs, fmt.Errorf("hostfx: journal %s: %w", o.Journal, err))
		}
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
	opened, err := openPlace(r.Path, h.kernel)
	if err != nil {
		return err
	}
	h.roots[r.Name] = opened
	return nil
}

// Close ends all commands that go on, and closes the roots and the journal. Effects
// that are open stay usable until their own Close, but change nothing more that would
// have to be in the journal. Closing a nil Host does nothing.
func (h *Host) Close() error {
	if h == nil {
		return nil
	}
	h.processes.close()
	errs := []error{h.journal.close()}
	for _, r := range h.roots {
		errs = append(errs, r.close())
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
// [call.CodeSecretUnavailable] when a credential is missing or cannot be used;
// [call.CodeExecUnconfined] when commands are granted and cannot be confined as the
// operator demands; [call.CodeWorkspaceUnavailable] when a workspace is granted and the
// host has no journal, or the call is in nobody's session, which only [Host.OpenFor]
// says. A grant is spent even when Open fails after that.
func (h *Host) Open(ctx context.Context, g grant.Grant) (*Effects, error) {
	return h.OpenFor(ctx, g, Session{})
}

// begin opens all that is of the call alone.
func (h *Host) begin(ctx context.Context, g grant.Grant, s Session) (*Effects, error) {
	if !g.Spend(h.clock()()) {
		return nil, &call.Error{Code: call.CodeGrantMismatch}
	}
	caps := g.Caps()
	fx := newEffects(ctx, h, g, caps)
	fx.session = s
	for _, f := range caps.FS {
		if err := fx.open(h, f); err != nil {
			fx.Close()
			return nil, err
		}
	}
	err := fx.readSecrets()
	for _, e := range caps.Exec {
		if err == nil {
			err = h.commands().ready(e)
		}
	}
	if err == nil && caps.Workspace {
		fx.edits, err = h.edits(s, fx.dirs, fx.ctx.Done())
	}
	if err != nil {
		fx.Close()
		return nil, err
	}
	return fx, nil
}

// clock is the host's.
func (h *Host) clock() func() time.Time {
	if h == nil {
		return time.Now
	}
	return h.now
}

// open adds one entry of the grant. Entries for the same directory become one.
func (fx *Effects) open(h *Host, f call.FS) error {
	name := path.Join("/", f.Root, f.Path)
	d := fx.dir(name)
	if d == nil {
		at, err := h.descend(f)
		if err != nil {
			return err
		}
		d = &Dir{fx: fx, name: name}
		d.self = &Folder{d: d, name: name, at: at}
		fx.dirs = append(fx.dirs, d)
	}
	d.modes = d.modes.union(modesOf(f.Modes))
	return nil
}

// descend opens the granted path below its root. Meet compares paths as text, so a
// link among the components would let two different paths be one directory.
func (h *Host) descend(f call.FS) (*place, error) {
	var top *place
	if h != nil {
		top = h.roots[f.Root]
	}
	if top == nil {
		return nil, &call.Error{Code: call.CodeRootUnavailable, Err: fmt.Errorf("no root %q", f.Root)}
	}
	if !fs.ValidPath(f.Path) || len(f.Path) > maxPath || strings.ContainsRune(f.Path, 0) {
		return nil, unavailable(f, errors.New("the granted path is malformed"))
	}
	at, err := top.granted(f.Path)
	switch {
	case errors.Is(err, errLink):
		return nil, &call.Error{Code: call.CodePathIsLink, Detail: "root " + f.Root, Err: fmt.Errorf("in %q: %w", f.Path, err)}
	case err != nil:
		return nil, unavailable(f, err)
	}
	return at, nil
}

// unavailable names the root, which is the operator's word. The path may come
// from the arguments, so it stays in the private cause.
func unavailable(f call.FS, err error) error {
	return &call.Error{Code: call.CodeRootUnavailable, Detail: "root " + f.Root, Err: fmt.Errorf("in %q: %w", f.Path, err)}
}
