package redis_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// What a proxy does with the connections through it.
const (
	pass       = iota
	cutAsking  // ends a connection when something is asked, which the server never sees
	cutAnswers // lets the server do what it is asked, and ends the connection instead of the answer
	hold       // holds the answers back
)

// proxy stands between a node and its server.
type proxy struct {
	address string

	mu      sync.Mutex // protects the fields below
	cond    *sync.Cond
	server  string // where new connections lead
	mode    int
	once    bool   // mode is for one connection, then pass
	about   string // mode is for requests that contain this, in any case of letters
	broken  int    // connections
	rewrite func(answer string) string
	conns   map[net.Conn]bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: filepath.Join(dir, "s"), server: server, conns: map[net.Conn]bool{}}
	p.cond = sync.NewCond(&p.mu)
	l, err := net.Listen("unix", p.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.set(pass, false)
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) set(mode int, once bool) { p.cut(mode, once, "") }

// cut is set for requests about something alone.
func (p *proxy) cut(mode int, once bool, about string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.once, p.about = mode, once, strings.ToUpper(about)
	p.cond.Broadcast()
}

// lead leads new connections to another server, and ends those that there are.
func (p *proxy) lead(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
	for c := range p.conns {
		c.Close()
	}
}

// answers lets the answers on new connections be others than the server's.
func (p *proxy) answers(rewrite func(answer string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrite = rewrite
}

// cuts says how many connections were broken.
func (p *proxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// breaks reports whether the connection ends here.
func (p *proxy) breaks(at int, meant bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at == cutAnswers && p.mode == hold {
		p.cond.Wait()
	}
	if p.mode != at || p.about != "" && !meant {
		return false
	}
	if p.broken++; p.once {
		p.mode = pass
	}
	return true
}

// asks reports whether the mode is for that request.
func (p *proxy) asks(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.about != "" && bytes.Contains(bytes.ToUpper(b), []byte(p.about))
}

func (p *proxy) open(c net.Conn) (server string, rewrite func(string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return p.server, p.rewrite
}

func (p *proxy) closed(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) serve(c net.Conn) {
	defer p.closed(c)
	server, rewrite := p.open(c)
	s, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer s.Close()
	var meant atomic.Bool
	copied := func(to, from net.Conn, at int) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if err == nil && at == cutAsking && p.asks(b[:n]) {
				meant.Store(true)
			}
			if err != nil || p.breaks(at, meant.Load()) {
				return
			}
			out := b[:n]
			if rewrite != nil && at == cutAnswers {
				out = []byte(rewrite(string(out)))
			}
			if _, err := to.Write(out); err != nil {
				return
			}
		}
	}
	go copied(s, c, cutAsking)
	copied(c, s, cutAnswers)
}
