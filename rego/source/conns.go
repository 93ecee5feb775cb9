package source

import (
	"context"
	"net"
	"sync"
	"time"
)

// conns are the open connections of a client. Of HTTP/2 a transport cannot be told to
// give up one whose request was just ended.
type conns struct {
	mu   sync.Mutex
	open map[*conn]bool
}

type conn struct {
	net.Conn
	of *conns
}

func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	one := &conn{nc, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*conn]bool{}
	}
	c.open[one] = true
	return one, nil
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes all of them.
func (c *conns) close() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for one := range open {
		_ = one.Conn.Close()
	}
}
