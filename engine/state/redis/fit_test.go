package redis_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// saying makes a server's INFO say something else.
func saying(is, says string) func(answer string) string {
	re := regexp.MustCompile(is)
	return func(answer string) string {
		head, text, _ := strings.Cut(answer, "\r\n")
		if !re.MatchString(text) {
			return answer
		}
		text = re.ReplaceAllString(text, says)
		return fmt.Sprintf("%s%d\r\n%s", head[:1], len(strings.TrimSuffix(text, "\r\n")), text)
	}
}

// Behind a new connection there may be another server. It is held to the same as the one
// at start, before it is told anything.
func TestServerIsAnotherOne(t *testing.T) {
	for name, tt := range map[string]struct {
		config, want string
		is, says     string
	}{
		"a second late": {config: "appendfsync everysec", want: "appendfsync"},
		"no file":       {config: "appendonly no", want: "appendonly"},
		"evicts":        {config: "maxmemory-policy allkeys-lru", want: "maxmemory-policy"},
		"cluster":       {config: "port 0", want: "Cluster mode", is: "cluster_enabled:0", says: "cluster_enabled:1"},
		"too old":       {config: "port 0", want: `version "6.2.14"`, is: `redis_version:[0-9.]+`, says: "redis_version:6.2.14"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, other := redistest.Start(t), redistest.Start(t, tt.config)
			p := newProxy(t, srv.Address)
			o := options(srv)
			o.Address = p.address
			s := open(t, o)
			admit(t, s, plain("A", time.Now()))
			if tt.is != "" {
				p.answers(saying(tt.is, tt.says))
			}
			p.lead(other.Address)
			for i := range 3 {
				if ans, err := s.Admit(t.Context(), plain(fmt.Sprint("B", i), time.Now())); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Admit = %+v, %v", ans, err)
				}
			}
			p.answers(nil)
			p.lead(srv.Address)
			eventually(t, "the right server is never taken", func() bool {
				errR := s.Renew(t.Context()) // as it does every few seconds
				_, errA := s.Admit(t.Context(), plain("C", time.Now()))
				return errors.Join(errR, errA) == nil
			})
		})
	}
}

// Of a server that does not say what it is nobody knows anything: that is no setting that
// is missing, waived or not.
func TestServerDoesNotSay(t *testing.T) {
	for _, waive := range [][]string{nil, {"appendfsync"}} {
		p := newProxy(t, server.Address)
		o := options(server)
		o.Address, o.Waive = p.address, waive
		s := open(t, o)
		admit(t, s, plain("A", time.Now()))
		p.cut(cutAsking, false, "CONFIG")
		if err := s.Renew(t.Context()); err == nil || strings.Contains(err.Error(), "waive") {
			t.Errorf("waiving %v: Renew = %v", waive, err)
		}
		if ans, err := s.Admit(t.Context(), plain("B", time.Now())); err == nil || strings.Contains(err.Error(), "waive") {
			t.Errorf("waiving %v: Admit = %+v, %v", waive, ans, err)
		}
		if got := s.Waived(); len(got) > 0 {
			t.Errorf("waiving %v: goes without %v", waive, got)
		}
		p.set(pass, false)
		admit(t, s, plain("C", time.Now())) // at once
		p.cut(cutAsking, false, "CONFIG")
		o.Node = "two"
		if s, err := redis.Open(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("waiving %v: opened", waive)
		}
	}
}

// A server that says that it is Valkey is taken by the version of Redis that it says too.
// This is what Valkey 8.1 answers; the server behind it is none.
func TestValkey(t *testing.T) {
	p := newProxy(t, server.Address)
	p.answers(saying(`redis_version:[0-9.]+\r\n`, "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n"))
	o := options(server)
	o.Address = p.address
	if s, err := redis.Open(t.Context(), o); err == nil {
		begin(t, s, state.Recovery{})
		admit(t, s, plain("A", time.Now()))
		s.Close()
	} else {
		t.Error(err)
	}
	p.answers(saying(`redis_version:[0-9.]+\r\n`, "server_name:valkey\r\n"))
	o.Node = "two"
	if s, err := redis.Open(t.Context(), o); err == nil {
		s.Close()
		t.Error("the version is not looked at")
	}
}

// Who lost the name to another process tells the server nothing of its records: the mark
// would be that of another log.
func TestSettlesUnderItsNameAlone(t *testing.T) {
	o := options(server)
	s := open(t, o)
	admit(t, s, plain("A", time.Now()))
	admit(t, s, plain("B", time.Now()))
	c := raw(t, server.Address)
	prefix := "{" + o.Prefix + "}:"
	lease := func(holder string) {
		t.Helper()
		if err := c.Do(t.Context(), c.B().Set().Key(prefix+"lease:one").Value(holder).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	lease("somebody")
	s.Settle("A", 900)
	eventually(t, "nobody notices", func() bool {
		_, err := s.Session(t.Context(), "s", time.Now())
		return err != nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Do(t.Context(), c.B().Exists().Key(prefix+"mark:one").Build()).AsInt64(); err != nil || n != 0 {
		t.Errorf("it tells the mark all the same: %d, %v", n, err)
	}
	if n, err := c.Do(t.Context(), c.B().Scard().Key(prefix+"open:one").Build()).AsInt64(); err != nil || n != 2 {
		t.Errorf("%d calls are open, %v; want both", n, err)
	}
}

// Whose name lapsed, and was taken by nobody, takes it again and settles.
func TestSettlesAfterALapse(t *testing.T) {
	o := options(server)
	s := open(t, o)
	admit(t, s, plain("A", time.Now()))
	c := raw(t, server.Address)
	if err := c.Do(t.Context(), c.B().Del().Key("{"+o.Prefix+"}:lease:one").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	s.Settle("A", 3)
	eventually(t, "A is never settled", func() bool {
		m, err := s.Begin(t.Context())
		return err == nil && m.Index == 3 && len(m.Open) == 0
	})
}

// Names of nodes that are gone do not pile up.
func TestNodesAreForgotten(t *testing.T) {
	o := options(server)
	s := open(t, o)
	c := raw(t, server.Address)
	nodes := "{" + o.Prefix + "}:nodes"
	for i := range 50 {
		ago := time.Duration(i+1) * 10 * time.Minute
		at := fmt.Sprint(time.Now().Add(-ago).Unix())
		if err := c.Do(t.Context(), c.B().Hset().Key(nodes).FieldValue().FieldValue(fmt.Sprint("gone", i), at).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := c.Do(t.Context(), c.B().Hlen().Key(nodes).Build()).AsInt64()
	if err != nil || n < 6 || n > 7 { // of the last hour, and itself
		t.Errorf("%d nodes are remembered, %v", n, err)
	}
}

// Nor does it put anything back in the name of the process that has it: what that one knows
// is still waited for.
func TestConfirmsUnderItsNameAlone(t *testing.T) {
	srv := redistest.Start(t)
	o := options(srv)
	o.Timeout = time.Second
	two := o
	two.Node = "two"
	a, b := open(t, o), open(t, two)
	admit(t, a, plain("A", time.Now()))
	c := raw(t, srv.Address)
	if err := c.Do(t.Context(), c.B().Set().Key("{"+o.Prefix+"}:lease:two").Value("somebody").ExSeconds(60).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	srv.Run(t)
	if _, err := b.Session(t.Context(), "s", time.Now()); err == nil {
		t.Error("a process without the name is answered")
	}
	if _, err := a.Session(t.Context(), "s", time.Now()); err == nil {
		t.Error("nobody waits for the process that has the name")
	}
}
