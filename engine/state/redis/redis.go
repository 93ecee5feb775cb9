// Package redis keeps the state of many nodes in one Redis or Valkey server.
//
//	s, err := redis.Open(ctx, redis.Options{Address: "10.1.2.3:6379", Prefix: "callgate", Node: "eu-1"})
//	if err != nil { ... }
//	defer s.Close()
//
// A [Store] is what engine.Options.State takes. Each node keeps its own log. Every
// operation is one script of the server's, so that it happens as a whole or not at all.
//
// # What it needs
//
// One primary of version 7.0 or later, without Cluster mode, that answers only after
// what it was told is on its disk: appendonly yes, appendfsync always,
// no-appendfsync-on-rewrite no, maxmemory-policy noeviction. [Open] refuses any other,
// and what it goes on without only by [Options.Waive].
//
// # When the server is another one
//
// Each script compares the server's replication id with the one that it was under
// before. After a fail-over, a restart or a restore it is another: what was
// acknowledged may be lost. Then a new epoch begins, in which nothing counts that people
// were asked or that was granted before, and nothing is admitted before the nodes that
// were there have put back what they know to be revoked, the labels and the plans that they
// gave sessions, and which of these they ended. A node that cannot be reached is waited for half a minute; a server that was
// emptied knows no nodes, and waits ten seconds for any.
package redis

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine/state"
)

var (
	_ state.Lasting = (*Store)(nil)
	_ state.Waiving = (*Store)(nil)
)

// Options say where the server is. Address, Prefix and Node are required.
type Options struct {
	Address string      // host:port, or the path of a Unix socket
	TLS     *tls.Config // nil: none

	// Login is asked for the user and the password on each connection. Nil means none;
	// user "" means the default one.
	Login func() (user, password string, err error)

	// Prefix begins every key. Whoever has the same one shares the state.
	Prefix string

	// Node is whose log this is. No two processes may use one name at a time: the
	// second one is refused, and so is one that starts within [LeaseTime] of a crash of
	// the first, until then.
	Node string

	// Waive names what is not insisted on: see [Waivers]. What is waived in vain is no
	// error.
	Waive []string

	ConnectTimeout time.Duration // of one connection; zero: 2 s
	Timeout        time.Duration // of one operation with all that it tries; zero: 3 s

	// MaxSkew is how far the caller's clock may be from the server's, which decides.
	// Zero: 5 s.
	MaxSkew time.Duration

	Logger zerolog.Logger // gets what the operator should know; the zero value writes nothing

	// operationClock takes the time of each operation for the server's clock. For tests
	// alone.
	operationClock bool
}

// LeaseTime is how long a node's name is taken after it was last heard of.
const LeaseTime = 10 * time.Second

// Store is the state that nodes share. Make one with [Open]; it is safe for concurrent
// use.
type Store struct {
	o      Options
	client rueidis.Client
	prefix []string // the one key of every script
	me     string   // this process, among those that ever had the node's name

	stop context.CancelFunc
	done context.Context // once Close wants everything to end
	wg   sync.WaitGroup

	queue queue
	news  chan struct{} // somebody revoked something, perhaps

	refreshing sync.Mutex      // one at a time learns what is revoked; protects the next two
	left       []sessionChange // what the server is yet to be told of in leftIn
	leftIn     int64           // an epoch

	dials atomic.Int64 // connections that were tried

	mu        sync.Mutex // protects the fields below
	changed   chan struct{}
	known     int64           // the newest epoch seen
	revoked   map[string]bool // "p" + principal digest or "t" + tool name; never shrinks
	made      remembered      // what this node made of sessions
	asOf      version         // of the server's revocations, when revoked was last compared
	confirmed int64           // the epoch in which the server was told everything that is revoked
	recovered bool            // the log's revocations are in revoked
	open      []string        // as Begin said
	latest    time.Time       // of the admissions; for tests alone
	refuses   error           // why nothing is answered, nil for no reason
	final     bool            // so for ever
	waived    []string        // what it goes without
	examined  int64           // dials when the server was last examined
}

// version says which revocations there are: more in those that are later in both.
type version struct{ epoch, revs int64 }

// since reports whether v has at least what w has.
func (v version) since(w version) bool { return v.epoch >= w.epoch && v.revs >= w.revs }

// Open connects, checks the server, and takes the node's name. Call Begin and Recover
// before anything else, as [state.Lasting] says.
//
// # Errors
//
// An error names the setting to mend and the waiver, if there is one. None quotes the
// password.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	s := &Store{
		o: o, prefix: []string{"{" + o.Prefix + "}:"}, me: rand.Text(),
		changed: make(chan struct{}), revoked: map[string]bool{}, made: newRemembered(), news: make(chan struct{}, 1),
	}
	s.queue.wake = make(chan struct{}, 1)
	s.done, s.stop = context.WithCancel(context.Background())
	var err error
	c := o.client()
	c.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		s.dials.Add(1)
		return dial(ctx, address, d, t)
	}
	if s.client, err = rueidis.NewClient(c); err != nil {
		s.stop()
		return nil, fmt.Errorf("redis: connecting to %s: %w", o.Address, err)
	}
	if err := s.start(ctx); err != nil {
		s.stop()
		s.wg.Wait()
		s.client.Close()
		return nil, fmt.Errorf("redis: %s: %w", o.Address, err)
	}
	return s, nil
}

func (s *Store) start(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var err error
	if s.waived, err = s.check(first); err != nil {
		return err
	}
	for _, w := range s.waived {
		s.o.Logger.Warn().Str("waived", w).Msg("the state is kept with less than it should be")
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	listening := make(chan struct{})
	s.wg.Go(func() { s.listen(listening) })
	s.wg.Go(s.keep)
	s.wg.Go(s.settle)
	select {
	case <-listening:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.o.Timeout):
		return errors.New("no subscription")
	}
}

func (o *Options) defaults() error {
	var errs []error
	if o.Address == "" || o.Prefix == "" || o.Node == "" {
		errs = append(errs, errors.New("redis: address, prefix or node is empty"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		errs = append(errs, errors.New("redis: a prefix with a brace"))
	}
	for _, w := range o.Waive {
		if !slices.Contains(Waivers, w) {
			errs = append(errs, fmt.Errorf("redis: %q cannot be waived, only %s", w, strings.Join(Waivers, ", ")))
		}
	}
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{{&o.ConnectTimeout, 2 * time.Second}, {&o.Timeout, 3 * time.Second}, {&o.MaxSkew, 5 * time.Second}} {
		if *d.of < 0 {
			errs = append(errs, errors.New("redis: a negative time"))
		}
		if *d.of == 0 {
			*d.of = d.usual
		}
	}
	return errors.Join(errs...)
}

// client is how to connect. What we ask is never asked again by itself: whether that
// is no harm differs.
func (o Options) client() rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress: []string{o.Address}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		TLSConfig: o.TLS, ConnWriteTimeout: o.Timeout, ClientName: "callgate",
		Dialer: net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: time.Second},
	}
	if o.Login != nil {
		c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := o.Login()
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	}
	return c
}

func dial(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if c == nil {
		return d.DialContext(ctx, network, address)
	}
	return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, network, address)
}

// Waived are the settings that the server has otherwise than it should, or does not
// tell, and that [Options.Waive] names.
func (s *Store) Waived() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waived)
}

// Close tells the server what is settled, gives the node's name up, and disconnects. It
// waits for the server no longer than one operation takes, for what is not told now is
// found out on the next start.
func (s *Store) Close() error {
	s.stop()
	s.wg.Wait() // the settler sends the rest
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	_, err := s.once(ctx, leave, &request{})
	s.client.Close()
	if err != nil {
		return fmt.Errorf("redis: giving the node's name up: %w", err)
	}
	return nil
}
