// Package engine is the one gate that every tool call of an agent passes.
//
// Most programs want [New] with a policy, tools and a log, or package
// engine/local, which wires all of that for one data directory. Then:
//
//	res, err := e.Do(ctx, call.Call{Principal: who, Tool: "read-file", Args: args})
//
// A nil error means that the tool ran and succeeded. A [*Denial] means that
// nothing ran. A [*ToolError] means that the tool ran and failed.
//
// # What the engine promises
//
// [Engine.Do], [Engine.Authorize] where the caller runs the tool, and [Engine.Issue]
// with [Engine.Execute] where another engine does, are the only way from a call to an
// effect. Nothing runs before the
// decision to allow it is durable in the log. Whatever goes wrong on the way to
// that point is a refusal.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/hostfx"
)

// Policy decides. It MUST be safe for concurrent use and MUST NOT depend on
// anything but the input. An error is a refusal; [*call.Error] gives it a code.
type Policy interface {
	Decide(ctx context.Context, in *call.Input) (call.Decision, error)
}

// Snapshotter is a [Policy] that may become another one at any time. The engine
// decides a call, once for each principal of its chain, by one snapshot.
type Snapshotter interface{ Snapshot() Policy }

// Log keeps records for ever. Append MUST NOT return nil before rec is durable,
// and once a write or sync has failed every later Append MUST fail too. Replay
// yields every durable record in order.
type Log interface {
	Append(ctx context.Context, rec []byte) (index int64, err error)
	Replay(ctx context.Context, yield func(index int64, rec []byte) error) error
}

// Guests runs WebAssembly tools. Run MUST keep within the grant of fx and MUST
// NOT panic.
type Guests interface {
	Install(ctx context.Context, digest string, module []byte) error
	Run(ctx context.Context, digest string, args call.Args, fx *hostfx.Effects) ([]byte, call.Outcome)
}

// Salts gives the key under which digests in the records of one tenant and UTC
// day are made. Losing a key makes those digests meaningless, which is erasure.
type Salts interface {
	Key(tenant string, day time.Time) ([32]byte, error)
}

// Options configure an [Engine]. Policy, Log and at least one tool are required;
// every other field has a useful zero value.
type Options struct {
	Policy Policy
	Tools  []Tool
	Log    Log

	// State is the store of limits, approvals and sessions. Nil means local: in
	// memory, recovered from Log.
	State state.Store

	// Guests runs wasm tools. Nil means that they answer guest_unavailable.
	Guests Guests

	// Host holds the roots that tools may be given. Nil means none.
	Host *hostfx.Host

	// Ceiling is the most that any tool may be given. Nil means what the
	// manifests say.
	Ceiling *call.Caps

	// Grants lets calls be decided here and run elsewhere, or the other way round.
	// Nil does neither.
	Grants *Grants

	// Pending keeps the arguments of calls that wait for approval. Nil means that
	// approvers see everything but those.
	Pending Pending

	// AssertedApprovers lets identities vote that nothing but a word vouches for.
	// For demonstrations alone.
	AssertedApprovers bool

	// Announce is told of questions once their record is durable, with the class of
	// the tool and a way to ask whether people still have to answer; of one that
	// several calls ask at once perhaps more than once. It MUST NOT block. Nil means
	// that nobody is told.
	Announce func(a call.Approval, class string, open func(context.Context) bool)

	// LabelsLast is how long a label stays in a session after it was last added, and a
	// plan after it last changed. Zero means a day.
	LabelsLast time.Duration

	// Salts keys the digests in records. Nil means a key that is forgotten when
	// the process ends: digests are then good for nothing but telling calls apart,
	// and limits and approvals of before are not found again. A log that lasts
	// needs keys that do: see audit.OpenSalts.
	Salts Salts

	// StateSalts keys what is looked for in State: limits and approvals. Nodes that
	// share one need the same: see redis.NewSalts. Nil means Salts.
	StateSalts Salts

	// Node names this process in records and in input.env.node.
	Node string

	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	// DecideTimeout bounds all decisions of one call together. Zero means 50 ms.
	DecideTimeout time.Duration

	// ReportGrace is how long after the time of its grant a [Permit] can still be
	// finished. Zero means 5 s.
	ReportGrace time.Duration

	// MaxCalls bounds the calls under way, each of which holds a place for its
	// outcome in the log's queue. Zero means 1,024.
	MaxCalls int

	// MaxRefusals is how many calls of one principal may be refused in a minute of the
	// clock, or be found by Explain to be, before all that it asks for in that minute is
	// refused unseen, with refused_too_often: whoever asks for many things that they do
	// not get is probing. Refusals to wait do not count, nor those where nobody could
	// tell. The first refused_too_often in a minute is recorded; how many more there were,
	// Logger is told. Zero means 600; negative means any number.
	MaxRefusals int

	// MaxAbandoned is how many runs of one tool written in Go may go on after their
	// calls are over, because it ignores its context, before further calls of that tool
	// are refused, with tool_stuck, until one ends. What is under way by then may still
	// add to them. Zero means 16.
	MaxAbandoned int

	// Logger gets one line a call. The zero value writes nothing.
	Logger zerolog.Logger
}

// Engine is the gate. Make one with [New]; it is safe for concurrent use.
type Engine struct {
	o     Options
	tools map[string]*place
	log   zerolog.Logger

	sweeper sweeper
	slots   chan struct{} // one for each call under way
	asking  sync.RWMutex  // read: something happens to a question that is not recorded yet
	stop    context.CancelFunc
	stopped context.Context // done once Close wants running tools to end

	epochs   epochSeen
	refusals refusals

	mu     sync.Mutex // protects the two below, and wg.Add against Close
	closed bool
	failed error          // a record could not be written: nothing is accepted any more
	wg     sync.WaitGroup // calls and outcome records under way
}

// New returns an engine whose state is what the log says. Decisions that an
// earlier process left without an outcome get one that says unfinished.
//
// # Errors
//
// An error names every missing or broken part of o at once.
func New(o Options) (*Engine, error) {
	ctx := context.Background()
	e := &Engine{o: o, tools: map[string]*place{}, log: o.Logger}
	e.stopped, e.stop = context.WithCancel(ctx)
	if err := errors.Join(e.defaults(), e.install(ctx)); err != nil {
		return nil, err
	}
	if err := e.reopen(ctx); err != nil {
		return nil, err
	}
	if err := e.recordPins(); err != nil {
		return nil, err
	}
	e.sweepNext(ctx)
	return e, nil
}

func (e *Engine) defaults() error {
	var errs []error
	if e.o.Policy == nil {
		errs = append(errs, errors.New("engine: Options.Policy is nil"))
	}
	if e.o.Log == nil {
		errs = append(errs, errors.New("engine: Options.Log is nil"))
	}
	if len(e.o.Tools) == 0 {
		errs = append(errs, errors.New("engine: Options.Tools is empty"))
	}
	if e.o.Ceiling != nil {
		if err := e.o.Ceiling.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("engine: Options.Ceiling: %w", err))
		}
	}
	if e.o.Now == nil {
		e.o.Now = time.Now
	}
	if e.o.DecideTimeout == 0 {
		e.o.DecideTimeout = 50 * time.Millisecond
	}
	if e.o.MaxCalls == 0 {
		e.o.MaxCalls = 1024
	}
	if e.o.MaxRefusals == 0 {
		e.o.MaxRefusals = defaultRefusals
	}
	if e.o.MaxAbandoned == 0 {
		e.o.MaxAbandoned = defaultAbandoned
	}
	e.refusals.most, e.refusals.log = e.o.MaxRefusals, e.o.Logger
	if e.o.LabelsLast == 0 {
		e.o.LabelsLast = 24 * time.Hour
	}
	if e.o.ReportGrace == 0 {
		e.o.ReportGrace = 5 * time.Second
	}
	if e.o.MaxCalls < 0 || e.o.MaxAbandoned < 0 || e.o.DecideTimeout < 0 || e.o.LabelsLast < 0 || e.o.ReportGrace < 0 {
		errs = append(errs, errors.New("engine: Options.MaxCalls, MaxAbandoned, DecideTimeout, LabelsLast or ReportGrace is negative"))
		e.o.MaxCalls = 0
	}
	errs = append(errs, e.o.Grants.check())
	if !printable(e.o.Node) {
		errs = append(errs, errors.New("engine: Options.Node is not plain text of at most 256 bytes"))
	}
	if e.o.Salts == nil {
		e.o.Salts = newProcessSalts()
	}
	if e.o.StateSalts == nil {
		e.o.StateSalts = e.o.Salts
	}
	if e.o.Host == nil {
		host, err := hostfx.New(hostfx.Options{Now: e.o.Now}) // no roots, and our clock
		e.o.Host = host
		errs = append(errs, err)
	}
	e.slots = make(chan struct{}, e.o.MaxCalls)
	return errors.Join(errs...)
}

// install checks every tool against the ceiling and hands modules to the
// sandbox, so that what cannot work is known now and not at the first call.
func (e *Engine) install(ctx context.Context) error {
	var errs []error
	for i := range e.o.Tools {
		t := &e.o.Tools[i]
		if t.manifest == nil && t.err == nil {
			t.err = errors.New("engine: a tool that none of Host, Wasm and External made")
		}
		if t.err != nil {
			errs = append(errs, t.err)
			continue
		}
		name := t.manifest.Name
		if e.tools[name] != nil {
			errs = append(errs, fmt.Errorf("engine: two tools are named %s", name))
			continue
		}
		if err := t.manifest.Within(e.o.Ceiling); err != nil {
			errs = append(errs, fmt.Errorf("engine: tool %s: %w", name, err))
		}
		if t.module != nil && e.o.Guests != nil {
			if err := e.o.Guests.Install(ctx, t.pin, t.module); err != nil {
				errs = append(errs, fmt.Errorf("engine: tool %s: %w", name, err))
			}
		}
		e.tools[name] = &place{}
		e.tools[name].tool.Store(t)
	}
	return errors.Join(errs...)
}

// Close takes no more calls, stops tools that still run, waits until every
// outcome is recorded, and leaves the log to its owner. It is idempotent. The
// error says which records could not be written.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.sweeper.stop()
	e.stop()
	e.wg.Wait()
	e.refusals.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// slotWait is how long a call waits for a place: as a rule a place becomes free
// with the next outcome that is written.
const slotWait = time.Second

// enter takes a place for one call, or says why there is none.
func (e *Engine) enter(ctx context.Context) (leave func(), code call.Code) {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	select {
	case e.slots <- struct{}{}:
	default:
		select {
		case e.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, call.CodeOverloaded
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		code = call.CodeEngineClosed
	case e.failed != nil:
		code = call.CodeLogUnavailable
	default:
		e.wg.Add(1)
		return func() { <-e.slots; e.wg.Done() }, ""
	}
	<-e.slots
	return nil, code
}
