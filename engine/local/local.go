// Package local opens an engine over one data directory: its log, its keys, its
// policy, its tools and its roots. It is what the callgate command uses and what
// most programs that embed an engine want.
//
//	g, err := local.Join(ctx, local.Config{Data: "data", Bundle: "bundle", Tools: "tools"})
//	if err != nil { ... }
//	defer g.Close()
//	res, err := g.Do(ctx, call.Call{...})
//
// # One owner
//
// One process owns a data directory at a time and answers, on callgate.sock in
// it, the processes that come later. [Open] makes an owner, [Dial] a client of
// one, and [Join] whichever is possible.
//
// The owner serves processes of its own user and of root, and believes them about
// who is calling: see [Asserted].
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/keyfile"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/rego"
	"github.com/callgate/callgate/rego/source"
)

// Errors of [Open].
var (
	// ErrOwned says that another process has the data directory open.
	ErrOwned = errors.New("another process owns the data directory")

	// ErrBaseChanged says that the base library in the bundle is not the one that
	// this version of Callgate was built and tested with.
	ErrBaseChanged = errors.New("the vendored base library differs from this version's")
)

// Config says where everything is. Data, and Bundle or Layers, are required.
type Config struct {
	Data   string  // directory of the log, keys and caches; made when missing
	Bundle string  // as in [Layer]; short for one unsigned permit layer named "policy"
	Layers []Layer // of a policy of several, in place of Bundle; their order does not matter
	Tools  string  // directory with one directory for each wasm tool, for its module alone where bundles carry the manifests; "" means none
	Roots  []hostfx.Root

	// What tools may be let to over HTTP, and with what.
	CA       string           // PEM file of authorities that are trusted beside the system's; "" means none
	Networks []hostfx.Network // that policies may grant, beside "public"
	Names    []hostfx.Name    // hosts whose addresses are fixed
	Secrets  []Secret         // credentials that policies may name

	// ExecEnforcement is the least that the kernel must do to confine the commands that
	// tools may run, as in [hostfx.Options].
	ExecEnforcement string

	// Processes bound the commands that tools leave running.
	Processes Processes

	// Journal is about what files were before calls changed them. With it come the tools
	// of [engine.WorkspaceTools].
	Journal Journal

	// HostTools are tools written in Go, and external ones, beside those in Tools.
	HostTools []engine.Tool

	// Guests bounds what wasm tools take of the machine together.
	Guests Guests

	// Ceiling is a YAML file of the capabilities that no tool may exceed; ""
	// means what the manifests say.
	Ceiling string

	// Grants of calls that are decided here and run elsewhere, or the other way round.
	Grants Grants

	// State is where the state is that other nodes have too. Nil: it is this node's
	// own, and folded from its log.
	State *Shared

	// Witnesses remember checkpoints of the log, outside of the reach of whoever can write
	// it, and Witnessing says how they are asked.
	Witnesses  []Witness
	Witnessing Witnessing

	Node          string           // names this process in records
	DecideTimeout time.Duration    // zero: the engine's default
	MaxGuests     int              // guests that may run at once; zero: the sandbox's default
	MaxRefusals   int              // of a principal in a minute, see engine.Options; zero: the engine's default
	Now           func() time.Time // nil: time.Now
	Logger        zerolog.Logger

	// Webhooks are told of new questions to people.
	Webhooks []Webhook

	// AssertedApprovers lets identities vote that nothing but a word vouches for.
	// For demonstrations alone.
	AssertedApprovers bool

	// Production refuses what is for trying things out: layers, in shadow too, without a
	// signature, manifests of tools outside of the signed bundles, AssertedApprovers.
	Production bool

	// Dev is for writing tools: those in Tools are as [engine.Edited] makes them. Not for
	// tools whose manifests are in bundles, and not in production.
	Dev bool

	// Watch is how often an owner looks whether the files of the policy changed.
	// It takes up those of a layer when all of them are well, and else goes on with
	// the layer's last good ones. Zero: every second; negative: never, and URLs are
	// not asked again either.
	Watch time.Duration

	// polls are in place of a ticker, for tests. Each is closed once it is over.
	polls <-chan chan struct{}
}

// Engine is an engine that owns its data directory until Close, and answers the
// clients who come to it.
type Engine struct {
	*engine.Engine
	server *server
	policy *live
	waived []string
	close  []func() error // in the order of opening
	once   sync.Once      // of Close
	err    error          // of Close
}

// Open opens the data directory and everything it needs, or nothing. From its
// start on clients can connect; they are answered once everything is open.
//
// # Errors
//
// [ErrOwned], [ErrBaseChanged], a [*audit.TamperError] for a log that is not
// what its checkpoints say, or an error that names the file to mend.
func Open(ctx context.Context, c Config) (_ *Engine, err error) {
	if c.Production && c.AssertedApprovers {
		return nil, errors.New("local: in production nobody approves by their word alone")
	}
	if c.Production && c.Dev {
		return nil, errors.New("local: in production no tool is worked on")
	}
	e := &Engine{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeAll())
		}
	}()
	if err := e.lock(c.Data); err != nil {
		return nil, err
	}
	if e.server, err = newServer(c, os.Geteuid()); err != nil {
		return nil, err
	}
	e.close = append(e.close, e.server.close)
	o := engine.Options{
		Tools: slices.Clone(c.HostTools), Node: c.Node, Now: c.Now, DecideTimeout: c.DecideTimeout, Logger: c.Logger,
		AssertedApprovers: c.AssertedApprovers, MaxRefusals: c.MaxRefusals,
	}
	policy, err := openLive(ctx, c)
	if err != nil {
		return nil, err
	}
	e.policy = policy
	e.close = append(e.close, policy.close)
	o.Policy = policy
	if c.Ceiling != "" {
		if o.Ceiling, err = tool.LoadCeiling(c.Ceiling); err != nil {
			return nil, err
		}
	}
	tools, err := c.tools(policy)
	if err != nil {
		return nil, err
	}
	o.Tools = append(o.Tools, tools...)
	if c.Watch >= 0 { // from here on, what the layers hold is theirs
		e.close = append(e.close, policy.watch(c))
	}
	if err := e.wire(ctx, c, &o); err != nil {
		return nil, err
	}
	if e.Engine, err = engine.New(o); err != nil {
		return nil, err
	}
	e.server.open(e.Engine)
	return e, nil
}

// Shadow says what was found about the layers that are in shadow, by bundle: where
// the answers would have been others with them.
func (e *Engine) Shadow() []rego.ShadowReport { return e.policy.reports() }

// Layers says how each layer is kept up to date.
func (e *Engine) Layers() (out []source.Status) {
	for _, f := range e.policy.layers {
		out = append(out, f.Status())
	}
	return out
}

// wire opens what has to be closed again.
func (e *Engine) wire(ctx context.Context, c Config, o *engine.Options) error {
	if slices.ContainsFunc(o.Tools, engine.Tool.IsWasm) {
		guests, err := c.guests(ctx)
		if err != nil {
			return err
		}
		e.close = append(e.close, func() error { return guests.Close(context.WithoutCancel(ctx)) })
		o.Guests = guests
	}

	if c.Journal.Dir == "" {
		c.Journal.Dir = filepath.Join(c.Data, "journal")
	}
	commands := c.commands()
	host, err := c.host(commands)
	if err != nil {
		return err
	}
	e.close = append(e.close, host.Close)
	o.Host = host
	o.Tools = append(o.Tools, engine.WorkspaceTools(host, o.Ceiling)...)

	salts, err := audit.OpenSalts(c.Data)
	if err != nil {
		return err
	}
	o.Salts = salts

	if o.Pending, err = state.OpenPending(c.Data); err != nil {
		return err
	}
	if err := e.share(ctx, c, o); err != nil {
		return err
	}
	told, err := c.announcer(commands)
	if err != nil {
		return err
	}
	if told != nil {
		// Last of all, for it may take seconds in which others need the directory.
		e.close = slices.Insert(e.close, 0, told.Close)
		o.Announce = told.Asked
	}
	// Even later, for announcing may need a credential. None was read before.
	e.close = slices.Insert(e.close, 0, func() error { commands.close(); return nil })

	log, err := c.log()
	if err != nil {
		return err
	}
	e.close = append(e.close, log.Close)
	o.Log = log
	o.Grants, err = c.grants(log.Origin())
	return err
}

// host is what effects are made of, with a journal if it says where.
func (c Config) host(commands *commands) (*hostfx.Host, error) {
	o := hostfx.Options{Roots: c.Roots, Networks: c.Networks, Names: c.Names, Now: c.Now, ExecEnforcement: c.ExecEnforcement}
	c.Processes.into(&o)
	if err := c.Journal.into(&o); err != nil {
		return nil, err
	}
	read, err := secrets(c.Secrets, commands)
	if err != nil {
		return nil, err
	}
	o.Secrets = func(name string) (hostfx.Secret, error) {
		s, err := read(name)
		if err != nil { // the operator is told why, and nobody else
			err = &call.Error{Code: call.CodeSecretUnavailable, Where: err.Error(), Err: err}
		}
		return s, err
	}
	if c.CA != "" {
		if o.CA, err = keyfile.ReadTrusted(c.CA, maxKey); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	return hostfx.New(o)
}

// Close answers the clients who are being served, records every outcome that is
// still due, then closes the log and gives the data directory up. A client's call
// is given 30 seconds, then its tool is stopped. Webhooks that have not taken a question
// yet are tried for 5 seconds more, without the data directory. It is idempotent.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.server.drain()
		e.err = errors.Join(e.Engine.Close(), e.closeAll())
	})
	return e.err
}

func (e *Engine) closeAll() error {
	var errs []error
	for _, f := range slices.Backward(e.close) {
		errs = append(errs, f())
	}
	e.close = nil
	return errors.Join(errs...)
}

// toolDirs lists the directories below dir that hold a tool.yaml.
func toolDirs(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	var out []string
	for _, d := range entries {
		p := filepath.Join(dir, d.Name())
		if _, err := os.Stat(filepath.Join(p, "tool.yaml")); err == nil {
			out = append(out, p)
		} else if d.IsDir() && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("tools: %w", err)
		}
	}
	return out, nil
}
