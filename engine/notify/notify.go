// Package notify tells web servers that somebody must answer a question, so that
// people need not look for it. It sends Standard Webhooks
// (https://github.com/standard-webhooks/standard-webhooks, spec version 1.0.0): signed,
// with a timestamp, and without the arguments of the call.
//
//	n, err := notify.New(notify.Options{Hooks: []notify.Hook{{Name: "chat", URL: "https://hooks.example/x", Secret: secret}}})
//	if err != nil { ... }
//	defer n.Close()
//	n.Asked(approval, "destructive", open)
//
// Nothing waits for it. What cannot be delivered is logged and counted, and is in the
// list of approvals all the same, which is the truth. A question is told of by the
// process that asked it, as long as that lives.
package notify

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/call"
)

const (
	// maxWaiting is how many messages of one hook may wait for their turn, or for
	// another try. Further ones are dropped.
	maxWaiting = 256

	// maxSeen is from how many questions on those that expired are forgotten.
	maxSeen = 1024

	// atOnce is how many requests to one hook are under way at a time.
	atOnce = 4

	// attemptTime is how long one attempt may take, as the specification recommends.
	attemptTime = 15 * time.Second
)

// Hook is one receiver.
type Hook struct {
	Name string // for the log
	URL  string // https, or http to an address of this machine; never logged, since some hold a credential

	// Secret gives the keys that sign, whsec_ and base64 of 24 to 64 bytes each, with
	// spaces between several: a receiver that knows one of them is content, so keys
	// can be changed without a gap. It is asked for every attempt.
	Secret func() (string, error)
}

// Options configure a [Notifier].
type Options struct {
	Hooks  []Hook
	Roots  *x509.CertPool // authorities that are trusted; nil means the system's
	Logger zerolog.Logger
	Now    func() time.Time // nil means time.Now

	// Retry is the time before the second attempt, about doubled each time up to
	// MaxRetry. Zero means 2 seconds, and 5 minutes.
	Retry, MaxRetry time.Duration

	// Linger is how long Close goes on trying what is not delivered yet. Zero means 5
	// seconds.
	Linger time.Duration
}

// Counts say what became of messages.
type Counts struct {
	Delivered int64
	Dropped   int64 // too many waited
	GivenUp   int64 // refused for good, ended by Close, or the question was over
}

// Notifier sends messages. It is safe for concurrent use.
type Notifier struct {
	o     Options
	hooks []*receiver

	delivered, dropped, givenUp atomic.Int64

	closing chan struct{}   // closed when what waits is tried for the last few times
	working context.Context // done when attempts have to end
	stop    context.CancelFunc

	mu     sync.Mutex           // protects the fields below, and wg.Add against Close
	seen   map[string]time.Time // questions that were told of -> when they expire
	closed bool
	wg     sync.WaitGroup // messages under way
}

// New checks the options, and that every secret can sign as it is now: that one cannot
// is known before a question needs it.
//
// # Errors
//
// An error names the hook and what is wrong with it, and quotes no URL. It is a
// [*call.Error] with [call.CodeSecretUnavailable] if that is the secret.
func New(o Options) (*Notifier, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retry <= 0 {
		o.Retry = 2 * time.Second
	}
	if o.MaxRetry <= 0 {
		o.MaxRetry = 5 * time.Minute
	}
	if o.Linger <= 0 {
		o.Linger = 5 * time.Second
	}
	n := &Notifier{o: o, closing: make(chan struct{}), seen: map[string]time.Time{}}
	n.working, n.stop = context.WithCancel(context.Background())
	var errs []error
	names := map[string]bool{}
	for i, h := range o.Hooks {
		r, err := newReceiver(h, o.Roots)
		if err == nil && names[h.Name] {
			err = errors.New("two have this name")
		}
		if err == nil {
			err = r.usable()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("webhook %d, %q: %w", i+1, h.Name, err))
			continue
		}
		names[h.Name] = true
		n.hooks = append(n.hooks, r)
	}
	return n, errors.Join(errs...)
}

// Asked tells every hook of a new question, once however often it is called. Attempts
// go on until one is answered with 2xx, or open says that nobody has to answer any
// more. It does not block.
func (n *Notifier) Asked(a call.Approval, class string, open func(context.Context) bool) {
	if len(n.hooks) == 0 || !n.first(a) {
		return
	}
	body, err := payload(a, class)
	if err != nil {
		n.o.Logger.Error().Str("approval", a.ID).Msg("approval not announced: it has no JSON form")
		return
	}
	for _, h := range n.hooks {
		m := &message{id: a.ID, body: body, expires: a.Expires, open: open}
		select {
		case h.waiting <- struct{}{}:
		default:
			n.dropped.Add(1)
			n.o.Logger.Error().Str("webhook", h.Name).Str("approval", m.id).Msg("approval not announced: too many wait")
			continue
		}
		started := n.start(func() {
			defer func() { <-h.waiting }()
			n.deliver(h, m)
		})
		if !started {
			<-h.waiting
		}
	}
}

// start runs f unless it is too late.
func (n *Notifier) start(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.wg.Go(f)
	return true
}

// first reports whether the question is new here.
func (n *Notifier) first(a call.Approval) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.seen[a.ID].IsZero() {
		return false
	}
	if now := n.o.Now(); len(n.seen) >= maxSeen {
		for id, expires := range n.seen {
			if now.After(expires) {
				delete(n.seen, id)
			}
		}
	}
	n.seen[a.ID] = a.Expires
	return true
}

// message is one question for one hook.
type message struct {
	id      string // of the approval, and of the message
	body    []byte
	expires time.Time
	open    func(context.Context) bool
}

// deliver attempts it until it is done. A process that ends must not take with it what
// the next attempt would have delivered, nor wait for ever.
func (n *Notifier) deliver(h *receiver, m *message) {
	log := n.o.Logger.With().Str("webhook", h.Name).Str("approval", m.id).Logger()
	pause, closing, last := n.o.Retry, n.closing, errNoTime
	for {
		why := n.attempt(h, m)
		switch {
		case why == nil:
			n.delivered.Add(1)
			return
		case errors.Is(why, errOver):
			n.givenUp.Add(1)
			return
		case errors.Is(why, errFinal):
			n.givenUp.Add(1)
			log.Error().AnErr("cause", why).Msg("approval not announced")
			return
		case errors.Is(why, errNoTime):
			n.givenUp.Add(1)
			log.Error().AnErr("cause", last).Msg("approval not announced before the process ended; it is in the list of approvals")
			return
		}
		last = why
		log.Warn().AnErr("cause", why).Msg("approval not announced yet")
		select {
		case <-time.After(jitter(pause)):
			pause = min(2*pause, n.o.MaxRetry)
		case <-closing: // at once, and soon again
			closing, pause = nil, n.o.Retry/4
		case <-n.working.Done():
		}
	}
}

// attempt is one request, when it is the message's turn.
func (n *Notifier) attempt(h *receiver, m *message) error {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-n.working.Done():
		return errNoTime
	}
	if n.working.Err() != nil { // a turn may have come at the same time
		return errNoTime
	}
	ctx, cancel := context.WithTimeout(n.working, attemptTime)
	defer cancel()
	now := n.o.Now()
	if !now.Before(m.expires) || !m.open(ctx) {
		return errOver
	}
	err := h.send(ctx, m, now)
	if err != nil && n.working.Err() != nil {
		return errNoTime
	}
	return err
}

// Counts says what became of messages so far.
func (n *Notifier) Counts() Counts {
	return Counts{Delivered: n.delivered.Load(), Dropped: n.dropped.Load(), GivenUp: n.givenUp.Load()}
}

// Close takes no more questions, and tries what is not delivered yet at once and then
// again for as long as Linger says. What is left is logged. It is idempotent.
func (n *Notifier) Close() error {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.closing)
	}
	n.mu.Unlock()
	defer time.AfterFunc(n.o.Linger, n.stop).Stop()
	n.wg.Wait()
	n.stop()
	return nil
}

// jitter is a random time of d or half as much, so that what failed together is not
// tried again together.
func jitter(d time.Duration) time.Duration {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand
	return d/2 + time.Duration(binary.BigEndian.Uint64(b[:])%uint64(d/2+1))
}
