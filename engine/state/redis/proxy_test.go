package redis_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
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

	mu     sync.Mutex // protects the fields below
	cond   *sync.Cond
	mode   int
	once   bool // mode is for one connection, then pass
	broken int  // connections
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: filepath.Join(dir, "s")}
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
			go p.serve(c, server)
		}
	}()
	return p
}

func (p *proxy) set(mode int, once bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.once = mode, once
	p.cond.Broadcast()
}

// breaks reports whether the connection ends here.
func (p *proxy) breaks(at int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at == cutAnswers && p.mode == hold {
		p.cond.Wait()
	}
	if p.mode != at {
		return false
	}
	if p.broken++; p.once {
		p.mode = pass
	}
	return true
}

func (p *proxy) serve(c net.Conn, server string) {
	defer c.Close()
	s, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer s.Close()
	copied := func(to, from net.Conn, at int) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if err != nil || p.breaks(at) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go copied(s, c, cutAsking)
	copied(c, s, cutAnswers)
}
