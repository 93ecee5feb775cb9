package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// What the owner grants to its clients.
const (
	maxClients   = 256             // connections; further ones wait to be accepted
	maxWaits     = maxClients / 2  // of them waiting for an approval, or no vote would get through
	firstRequest = 5 * time.Second // from hello to the whole request
	takeAnswer   = 30 * time.Second
	drainFor     = 30 * time.Second // then tools that clients wait for are stopped
)

// past is a deadline that has passed: it ends reads and writes under way.
var past = time.Unix(1, 0)

// server answers the clients of an owner.
type server struct {
	ln   *net.UnixListener
	name string // of the socket
	self int    // uid
	log  zerolog.Logger

	slots chan struct{} // one for each connection
	waits chan struct{} // one for each client that waits for an approval

	hello   func() ([]byte, error)
	ready   chan struct{}   // closed once engine is set
	engine  *engine.Engine  // of a ready server
	closing context.Context // done once nobody new is served
	stop    context.CancelFunc
	wg      sync.WaitGroup // connections, and the loop that accepts them
}

// newServer listens as that user. Whoever connects waits for open.
func newServer(c Config, self int) (*server, error) {
	hello, err := greeting(c)
	if err != nil {
		return nil, err
	}
	ln, err := listen(c.Data)
	if err != nil {
		return nil, err
	}
	s := &server{
		ln: ln, name: filepath.Join(c.Data, socketName), self: self, log: c.Logger, hello: hello,
		slots: make(chan struct{}, maxClients), waits: make(chan struct{}, maxWaits), ready: make(chan struct{}),
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// greeting gives what clients are greeted with. Of an owner that follows the files of its
// tools it is never the same twice, for a client compares them with those that it finds.
func greeting(c Config) (func() ([]byte, error), error) {
	hello := func() ([]byte, error) {
		digest, err := c.digest()
		if err != nil {
			return nil, err
		}
		return encode(hello{Callgate: protocol, Config: digest})
	}
	line, err := hello()
	if c.Dev || err != nil {
		return hello, err
	}
	return func() ([]byte, error) { return line, nil }, nil
}

// open says hello to everybody who waits, and to everybody who comes.
func (s *server) open(e *engine.Engine) {
	s.engine = e
	close(s.ready)
}

// drain takes no new clients and waits until everybody who was told hello has an
// answer, but for calls that take too long.
func (s *server) drain() {
	s.stop()
	s.ln.Close() // nothing to flush
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainFor):
	}
}

// close waits for the last answer and removes the socket, which MUST still be
// under the lock: the next one of that name is a successor's.
func (s *server) close() error {
	s.stop()
	s.ln.Close() // nothing to flush
	s.wg.Wait()
	return removeSocket(s.name)
}

func (s *server) accept() {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.closing.Done():
			return
		}
		c, err := s.ln.AcceptUnix()
		if err == nil {
			s.wg.Go(func() {
				defer func() { <-s.slots }()
				s.serve(c)
			})
			continue
		}
		<-s.slots
		if s.closing.Err() != nil {
			return
		}
		s.log.Error().AnErr("cause", err).Msg("no client accepted")
		select { // out of files, most likely
		case <-time.After(100 * time.Millisecond):
		case <-s.closing.Done():
		}
	}
}

// serve has the one exchange that a connection is for.
func (s *server) serve(c *net.UnixConn) {
	defer c.Close()
	defer func() {
		if v := recover(); v != nil { // its value may quote arguments
			s.log.Error().Str("panic", fmt.Sprintf("%T", v)).Bytes("stack", debug.Stack()).Msg("defect")
		}
	}()
	uid, err := peerUID(c)
	if err != nil || !mayConnect(uid, s.self) {
		s.log.Warn().AnErr("cause", err).Int("uid", uid).Msg("client refused")
		return
	}
	select {
	case <-s.ready:
	case <-s.closing.Done():
	}
	if s.closing.Err() != nil {
		return // without hello: nothing is lost
	}
	hello, err := s.hello()
	if err != nil {
		s.log.Error().AnErr("cause", err).Msg("client cannot be greeted")
		return
	}
	if _, err := c.Write(hello); err != nil {
		return
	}
	a, ok := s.exchange(c, uid)
	if !ok {
		return
	}
	line, err := encode(a)
	if err != nil {
		s.log.Error().AnErr("cause", err).Msg("answer not sent")
		return
	}
	defer time.AfterFunc(takeAnswer, func() { _ = c.SetWriteDeadline(past) }).Stop()
	_, _ = c.Write(line) // a client that is gone has no use for it
}

// exchange reads the request and acts on it. It is not ok when there is nobody
// to answer.
func (s *server) exchange(c *net.UnixConn, uid int) (a answer, ok bool) {
	late := time.AfterFunc(firstRequest, func() { _ = c.SetReadDeadline(past) })
	line, err := readLine(c, maxRequest)
	if !late.Stop() { // even if all is there: the deadline could end the next read
		return answer{Bye: true}, true
	}
	var q request
	if err == nil {
		q, err = decodeRequest(line)
	}
	if coded, ok := errors.AsType[*call.Error](err); ok {
		s.log.Warn().Str("code", string(coded.Code)).Str("detail", coded.Detail).Int("uid", uid).Msg("client refused")
		a.fail(coded)
		return a, true
	}
	if err != nil {
		return a, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wg.Go(func() {
		// A client has no more to say. That it ends, or shuts its side, is how it
		// calls a run off.
		_, _ = c.Read(make([]byte, 1))
		cancel()
	})
	defer func() { _ = c.SetReadDeadline(past) }()
	return s.act(ctx, q, uid), true
}

// act does what a process of that user asks for.
func (s *server) act(ctx context.Context, q request, uid int) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error().Str("panic", fmt.Sprintf("%T", v)).Bytes("stack", debug.Stack()).Msg("defect")
			a = answer{}
			a.fail(&call.Error{Code: call.CodeInternal})
		}
	}()
	switch q.Op {
	case opDo:
		res, err := s.engine.Do(ctx, q.Call.from(uid))
		a.Result = wireResultOf(res)
		a.fail(err)
	case opIssue:
		raw, err := s.engine.Issue(ctx, q.Call.from(uid), q.Audience)
		a.Token = raw
		a.fail(err)
	case opExecute:
		res, err := s.engine.Execute(ctx, q.Grant.Token, q.Grant.Args)
		a.Result = wireResultOf(res)
		a.fail(err)
	case opRevoke:
		a.fail(s.engine.Revoke(ctx, *q.Revoke))
	case opExplain:
		x, err := s.engine.Explain(ctx, q.Call.from(uid))
		a.Explanation = x
		a.fail(err)
	case opVote:
		v, err := s.engine.Vote(ctx, engine.Vote{Approval: q.Approval, By: q.By.from(uid), Deny: q.Deny, Reason: q.Reason})
		a.approval(v.ID, wireApprovalOf(v), err)
	case opApprovals:
		list, err := s.engine.Approvals(ctx)
		for _, v := range list {
			a.Approvals = append(a.Approvals, wireApprovalOf(v))
		}
		a.fail(err)
	case opApproval:
		v, err := s.engine.Approval(ctx, q.Approval)
		a.shown(v, err)
	case opReveal:
		v, err := s.engine.Reveal(ctx, q.Approval, q.By.from(uid))
		a.shown(v, err)
	case opWait:
		return s.wait(ctx, q.Approval)
	}
	return a
}

// wait ends with this owner. The client can go on waiting with the next one.
func (s *server) wait(ctx context.Context, id string) (a answer) {
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		a.fail(&call.Error{Code: call.CodeOverloaded})
		return a
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	v, err := s.engine.Wait(ctx, id)
	if errors.Is(err, context.Canceled) && s.closing.Err() != nil {
		return answer{Bye: true}
	}
	a.approval(v.ID, wireApprovalOf(v), err)
	return a
}

func (a *answer) shown(q engine.Question, err error) {
	a.Args, a.Masked = q.Args, q.Masked
	a.approval(q.ID, wireApprovalOf(q.Approval), err)
}

func (a *answer) approval(id string, w wireApproval, err error) {
	if id != "" {
		a.Approval = &w
	}
	a.fail(err)
}
