package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// patience is how long a client waits for an owner that is opening, and [Join]
// for one at all.
const patience = 20 * time.Second

// Errors of a [Client]. Test for them with errors.Is.
var (
	// ErrNoOwner says that nobody answers for the data directory. Nothing was done.
	ErrNoOwner = errors.New("no owner of the data directory answers")

	// ErrConfigDiffers says that the owner was opened with another configuration,
	// or by another version of Callgate. Nothing was sent to it.
	ErrConfigDiffers error = &call.Error{
		Code: call.CodeOwnerConfigDiffers, Detail: "it has other settings, or other files of tools, ceiling or certificates; end it, or use its settings",
	}

	// ErrForeignOwner says that another user's process listens on the socket. Nothing
	// was sent to it.
	ErrForeignOwner = errors.New("not us and not root")

	// ErrUnknown says that the owner went away with the request: what was asked for
	// may or may not have happened. The log will tell, once it is opened again.
	ErrUnknown = errors.New("the owner went away before it answered; the call may or may not have run")
)

// Client is a [Gate] whose engine is in another process. It is safe for
// concurrent use. Whatever a principal's Auth says, the owner replaces it by what
// it knows itself: see [Asserted] and [User].
type Client struct {
	data   string
	digest string

	closing context.Context
	stop    context.CancelFunc

	mu   sync.Mutex // protects the fields below, and wg.Add against Close
	idle *net.UnixConn
	wg   sync.WaitGroup // requests under way
}

var _ Gate = (*Client)(nil)

// Dial returns a client of the process that owns c.Data. It waits while that one
// is still opening.
//
// # Errors
//
// [ErrNoOwner], [ErrConfigDiffers], the context's error, or what keeps this
// process from the socket, such as that it belongs to another user.
func Dial(ctx context.Context, c Config) (*Client, error) {
	info, err := os.Stat(c.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", c.Data, ErrNoOwner)
	}
	if err == nil {
		err = ownDir(c.Data, info)
	}
	if err != nil {
		return nil, err
	}
	digest, err := c.digest()
	if err != nil {
		return nil, err
	}
	k := &Client{data: c.Data, digest: digest}
	if k.idle, err = k.connect(ctx); err != nil {
		return nil, err
	}
	k.closing, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// connect returns a connection on which the owner has said hello.
func (k *Client) connect(ctx context.Context) (_ *net.UnixConn, err error) {
	addr, done, err := socketAddr(k.data)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	n, err := d.DialContext(ctx, "unix", addr)
	if err != nil {
		// EAGAIN is a full queue.
		for _, e := range []error{syscall.ENOENT, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EAGAIN} {
			if errors.Is(err, e) {
				return nil, k.nobody(e)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Not with addr, which may be gone.
		return nil, fmt.Errorf("%s: %w", filepath.Join(k.data, socketName), errnoOf(err))
	}
	c := n.(*net.UnixConn)
	// Whoever listens will be told arguments, and believed.
	if uid, err := peerUID(c); err != nil || !mayConnect(uid, os.Geteuid()) {
		return nil, errors.Join(fmt.Errorf("%s: the owner is user %d: %w", k.data, uid, ErrForeignOwner), err, c.Close())
	}
	if err := k.meet(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// errnoOf is what the system said, without the names that it said it about.
func errnoOf(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

func (k *Client) nobody(cause error) error {
	return fmt.Errorf("%s: %w (%v)", k.data, ErrNoOwner, cause)
}

// meet waits for hello and checks that the owner is the one we would be.
func (k *Client) meet(ctx context.Context, c *net.UnixConn) error {
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(late, func() { _ = c.SetReadDeadline(past) })
	line, err := readLine(c, maxHello)
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	var h hello
	if coded, _ := errors.AsType[*call.Error](err); err != nil && coded == nil {
		return k.nobody(err)
	} else if coded != nil || decode(line, &h) != nil || h.Callgate != protocol {
		return fmt.Errorf("%s: %w: it is another version of Callgate", k.data, ErrConfigDiffers)
	}
	if h.Config != k.digest {
		return fmt.Errorf("%s: %w", k.data, ErrConfigDiffers)
	}
	return c.SetReadDeadline(time.Time{})
}

// Do implements [Gate].
func (k *Client) Do(ctx context.Context, c call.Call) (*engine.Result, error) {
	a, err := k.ask(ctx, request{Op: opDo, Call: wireCallOf(c)})
	return a.ran(err)
}

// Issue implements [Gate].
func (k *Client) Issue(ctx context.Context, c call.Call, aud string) (string, error) {
	a, err := k.ask(ctx, request{Op: opIssue, Call: wireCallOf(c), Audience: aud})
	if err == nil {
		err = a.err()
	}
	if err == nil && a.Token == "" {
		err = fmt.Errorf("%w: an answer without a grant", ErrUnknown)
	}
	return a.Token, err
}

// Execute implements [Gate].
func (k *Client) Execute(ctx context.Context, token string, args jsontext.Value) (*engine.Result, error) {
	a, err := k.ask(ctx, request{Op: opExecute, Grant: wireGrantOf(token, args)})
	return a.ran(err)
}

// Revoke implements [Gate].
func (k *Client) Revoke(ctx context.Context, r call.Revocation) error {
	a, err := k.ask(ctx, request{Op: opRevoke, Revoke: &r})
	if err != nil {
		return err
	}
	return a.err()
}

func (a *answer) ran(err error) (*engine.Result, error) {
	if err != nil {
		return nil, err
	}
	if err := a.err(); err != nil {
		return nil, err
	}
	if a.Result == nil {
		return nil, fmt.Errorf("%w: an answer without a result", ErrUnknown)
	}
	return a.Result.result(), nil
}

// Explain implements [Gate].
func (k *Client) Explain(ctx context.Context, c call.Call) (*engine.Explanation, error) {
	a, err := k.ask(ctx, request{Op: opExplain, Call: wireCallOf(c)})
	if err == nil {
		err = a.err()
	}
	if err == nil && a.Explanation == nil {
		err = fmt.Errorf("%s: the owner's answer holds no explanation", k.data)
	}
	if err != nil {
		return nil, err
	}
	return a.Explanation, nil
}

// Vote implements [Gate].
func (k *Client) Vote(ctx context.Context, v engine.Vote) (state.Approval, error) {
	by := principalOf(v.By)
	a, err := k.ask(ctx, request{Op: opVote, By: &by, Deny: v.Deny, Reason: v.Reason, Approval: v.Approval})
	return a.one(err)
}

// Approvals implements [Gate].
func (k *Client) Approvals(ctx context.Context) ([]state.Approval, error) {
	a, err := k.ask(ctx, request{Op: opApprovals})
	if err == nil {
		err = a.err()
	}
	var out []state.Approval
	for i := range a.Approvals {
		out = append(out, a.Approvals[i].approval())
	}
	return out, err
}

// Approval implements [Gate].
func (k *Client) Approval(ctx context.Context, id string) (engine.Question, error) {
	a, err := k.ask(ctx, request{Op: opApproval, Approval: id})
	return a.question(err)
}

// Reveal implements [Gate].
func (k *Client) Reveal(ctx context.Context, id string, who call.Principal) (engine.Question, error) {
	by := principalOf(who)
	a, err := k.ask(ctx, request{Op: opReveal, By: &by, Approval: id})
	return a.question(err)
}

// Wait implements [Gate].
func (k *Client) Wait(ctx context.Context, id string) (state.Approval, error) {
	a, err := k.ask(ctx, request{Op: opWait, Approval: id})
	return a.one(err)
}

func (a *answer) question(err error) (engine.Question, error) {
	v, err := a.one(err)
	return engine.Question{Approval: v, Args: a.Args, Masked: a.Masked}, err
}

func (a *answer) one(err error) (state.Approval, error) {
	if err == nil {
		err = a.err()
	}
	return a.Approval.approval(), err
}

// Close cancels what is under way and waits for its end. It is idempotent. What
// is asked for afterwards gets a [*engine.Denial] with engine_closed.
func (k *Client) Close() error {
	k.stop()
	k.mu.Lock()
	idle := k.idle
	k.idle = nil
	k.mu.Unlock()
	k.wg.Wait()
	if idle != nil {
		return idle.Close()
	}
	return nil
}

// errAgain says that the owner did not take the request, and never will.
var errAgain = errors.New("not taken")

// ask sends the request to whoever owns the directory by then. It asks again
// only when the owner before did not take the request.
func (k *Client) ask(ctx context.Context, q request) (answer, error) {
	line, err := encode(q)
	if err != nil || len(line) > maxRequest {
		return answer{}, unsendable(q)
	}
	k.mu.Lock()
	if k.closing.Err() != nil {
		k.mu.Unlock()
		return answer{}, &engine.Denial{Tool: string(q.Op), Code: call.CodeEngineClosed, Receipt: engine.Receipt{Index: -1}}
	}
	k.wg.Add(1)
	c := k.idle
	k.idle = nil
	k.mu.Unlock()
	defer k.wg.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.closing, func() { cancel(context.Canceled) })()

	for {
		if c == nil {
			if c, err = k.connect(ctx); err != nil {
				return answer{}, err
			}
		}
		a, err := round(ctx, c, line)
		c = nil
		switch {
		case errors.Is(err, errAgain) && ctx.Err() != nil:
			return answer{}, ctx.Err()
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, ErrUnknown) && q.harmless():
			return answer{}, k.nobody(err)
		case err == nil && a.Error != nil && a.Error.Kind != "" && ctx.Err() != nil:
			a.Error = &wireError{Kind: a.Error.Kind, Text: ctx.Err().Error()}
		}
		return a, err
	}
}

// round is one exchange. The context's end calls the run off; its answer is
// still waited for, since it says how the run ended.
func round(ctx context.Context, c *net.UnixConn, line []byte) (a answer, err error) {
	defer c.Close()
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		_ = c.CloseWrite()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = c.SetReadDeadline(past)
		}
	})()
	// A request that went out in part is none: its last byte is what ends it.
	_, writeErr := c.Write(line)
	got, err := readLine(c, maxAnswer)
	if err == nil {
		err = decode(got, &a)
	}
	switch {
	case err == nil && a.Bye, err != nil && writeErr != nil:
		return answer{}, errAgain
	case errors.Is(err, os.ErrDeadlineExceeded):
		return answer{}, fmt.Errorf("%w: it did not say how the run ended", ErrUnknown)
	case err != nil:
		return answer{}, fmt.Errorf("%w (%w)", ErrUnknown, err)
	}
	return a, nil
}

// unsendable is the refusal of what no owner could read: names that are not UTF-8,
// claims that are not JSON, or too much of them.
func unsendable(q request) error {
	d := &engine.Denial{Tool: string(q.Op), Code: call.CodeRequestInvalid, Receipt: engine.Receipt{Index: -1}}
	if q.Call != nil {
		d.Tool = "unknown tool" // never a name that the caller made up
	}
	return d
}
