package local

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

func testServer(t *testing.T) (*server, Config) {
	t.Helper()
	c := Config{Data: t.TempDir(), Bundle: "bundle"}
	s, err := newServer(c, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s, c
}

// until waits for what other goroutines do.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never happened")
		case <-time.After(time.Millisecond):
		}
	}
}

// A client that comes early waits for hello.
func TestHelloWhenReady(t *testing.T) {
	s, c := testServer(t)
	var opened atomic.Bool
	done := make(chan error)
	go func() {
		k, err := Dial(t.Context(), c)
		if err == nil {
			defer k.Close()
			if !opened.Load() {
				err = errors.New("hello before the owner was ready")
			}
		}
		done <- err
	}()
	until(t, func() bool { return len(s.slots) == 2 }) // the client, and the next one
	opened.Store(true)
	s.open(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An owner that cannot open sends its clients on, without a word.
func TestNoHelloWhenOpeningFails(t *testing.T) {
	s, c := testServer(t)
	done := make(chan error)
	go func() { _, err := Dial(t.Context(), c); done <- err }()
	until(t, func() bool { return len(s.slots) == 2 })
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrNoOwner) {
		t.Errorf("Dial = %v, want %v", err, ErrNoOwner)
	}
	if _, err := os.Lstat(filepath.Join(c.Data, socketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// With all places taken, a client waits for one.
func TestClientsWaitForAPlace(t *testing.T) {
	s, c := testServer(t)
	s.open(nil)
	for range maxClients - 1 { // the loop has one
		s.slots <- struct{}{}
	}
	first, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var closed atomic.Bool
	done := make(chan error)
	go func() {
		k, err := Dial(t.Context(), c)
		if err == nil {
			defer k.Close()
			if !closed.Load() {
				err = errors.New("served without a place")
			}
		}
		done <- err
	}()
	closed.Store(true)
	first.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTooManyWait(t *testing.T) {
	s, _ := testServer(t)
	for range maxWaits {
		s.waits <- struct{}{}
	}
	a := s.act(t.Context(), request{Op: opWait, Approval: "ap-A"}, 0)
	if code := call.CodeOf(a.err(), ""); code != call.CodeOverloaded {
		t.Errorf("code %q, want %q", code, call.CodeOverloaded)
	}
}

// A defect is an answer, not the end of the owner.
func TestPanicIsContained(t *testing.T) {
	s, c := testServer(t)
	s.open(nil) // a nil engine: every request is one
	for range 2 {
		k, err := Dial(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Do(t.Context(), call.Call{Principal: call.Principal{ID: "a", Kind: "user"}, Tool: "t"})
		if code := call.CodeOf(err, ""); code != call.CodeInternal {
			t.Errorf("Do = %v, want %s", err, call.CodeInternal)
		}
		k.Close()
	}
}

// A client that was told hello long ago and asks then is served all the same, by
// another connection.
func TestLateRequest(t *testing.T) {
	s, c := testServer(t)
	s.open(nil)
	k, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	until(t, func() bool { return len(s.slots) == 1 }) // the owner has said bye
	_, err = k.Do(t.Context(), call.Call{})
	if code := call.CodeOf(err, ""); code != call.CodeInternal { // from the nil engine
		t.Errorf("Do = %v, want the engine's answer", err)
	}
}

// Whatever may have happened when the owner is lost is unknown; what can be asked
// twice was simply not answered.
func TestOwnerLostAfterRequest(t *testing.T) {
	c := Config{Data: t.TempDir(), Bundle: "bundle"}
	digest, err := c.digest()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listen(c.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // hears every request and answers none
		for {
			n, err := ln.Accept()
			if err != nil {
				return
			}
			if line, err := encode(hello{Callgate: protocol, Config: digest}); err == nil {
				_, _ = n.Write(line)
				_, _ = readLine(n, maxRequest)
			}
			n.Close()
		}
	}()
	k, err := Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	ctx := t.Context()
	for name, tt := range map[string]struct {
		ask  func() error
		want error
	}{
		"do":        {func() error { _, err := k.Do(ctx, call.Call{}); return err }, ErrUnknown},
		"explain":   {func() error { _, err := k.Explain(ctx, call.Call{}); return err }, ErrNoOwner},
		"vote":      {func() error { _, err := k.Vote(ctx, engine.Vote{}); return err }, ErrUnknown},
		"approvals": {func() error { _, err := k.Approvals(ctx); return err }, ErrNoOwner},
		"approval":  {func() error { _, err := k.Approval(ctx, "ap-A"); return err }, ErrNoOwner},
		"wait":      {func() error { _, err := k.Wait(ctx, "ap-A"); return err }, ErrNoOwner},
	} {
		err := tt.ask()
		if !errors.Is(err, tt.want) || errors.Is(err, ErrUnknown) && errors.Is(err, ErrNoOwner) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestMayConnect(t *testing.T) {
	for _, tt := range []struct {
		peer, self int
		want       bool
	}{{7, 7, true}, {0, 7, true}, {0, 0, true}, {8, 7, false}, {7, 0, false}, {-1, 7, false}, {-1, 0, false}} {
		if got := mayConnect(tt.peer, tt.self); got != tt.want {
			t.Errorf("mayConnect(%d, %d) = %v", tt.peer, tt.self, got)
		}
	}
}

func TestDigest(t *testing.T) {
	base := func() Config {
		return Config{Data: "data", Bundle: "bundle", Roots: []hostfx.Root{{Name: "docs", Path: "/docs"}}}
	}
	digest := func(change func(*Config)) string {
		t.Helper()
		c := base()
		change(&c)
		d, err := c.digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	authority := func(text string) func(*Config) {
		return func(c *Config) {
			c.CA = ca
			if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	keyFile := filepath.Join(t.TempDir(), "k.pub")
	signed := func(change func(*Layer)) []Layer {
		l := Layer{Bundle: "bundle", Signing: &Signing{Keys: []SigningKey{{ID: "a", File: "k.pub"}}}}
		if change != nil {
			change(&l)
		}
		return []Layer{l}
	}
	at := func(change func(*Layer)) []Layer {
		l := Layer{Bundle: "https://a.example/b.tar.gz"}
		change(&l)
		return []Layer{l}
	}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	want := digest(func(*Config) {})
	seen := map[string]string{want: "nothing"}
	for name, change := range map[string]func(*Config){
		"bundle":       func(c *Config) { c.Bundle = "other" },
		"layer's name": func(c *Config) { c.Bundle, c.Layers = "", []Layer{{Name: "a", Bundle: "bundle"}} },
		"two layers": func(c *Config) {
			c.Bundle, c.Layers = "", []Layer{{Bundle: "bundle"}, {Name: "org", Role: "restrict", Bundle: "org"}}
		},
		"another role": func(c *Config) { c.Bundle, c.Layers = "", []Layer{{Bundle: "bundle"}, {Name: "org", Bundle: "org"}} },
		"another mode": func(c *Config) {
			c.Bundle, c.Layers = "", []Layer{{Bundle: "bundle"}, {Name: "org", Mode: InShadow, Bundle: "org"}}
		},
		"production": func(c *Config) {
			c.Bundle, c.Layers, c.Production = "", signed(func(l *Layer) { l.Signing.Scope = "t" }), true
		},
		"its scope":     func(c *Config) { c.Bundle, c.Layers = "", signed(func(l *Layer) { l.Signing.Scope = "t" }) },
		"signing":       func(c *Config) { c.Bundle, c.Layers = "", signed(nil) },
		"another scope": func(c *Config) { c.Bundle, c.Layers = "", signed(func(l *Layer) { l.Signing.Scope = "s" }) },
		"another key":   func(c *Config) { c.Bundle, c.Layers = "", signed(func(l *Layer) { l.Signing.Keys[0].ID = "b" }) },
		"a key's file":  func(c *Config) { c.Bundle, c.Layers = "", signed(func(l *Layer) { l.Signing.Keys[0].File = keyFile }) },
		"an algorithm": func(c *Config) {
			c.Bundle, c.Layers = "", signed(func(l *Layer) { l.Signing.Keys[0].Algorithm = "PS256" })
		},
		"what is allowed": func(c *Config) {
			c.Bundle, c.Layers = "", signed(func(l *Layer) { l.AllowRevisions = []string{"r"} })
		},
		"a URL":           func(c *Config) { c.Bundle, c.Layers = "", at(func(*Layer) {}) },
		"every":           func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.Every = 1 }) },
		"long poll":       func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.LongPoll = 1 }) },
		"age":             func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.MaxAge = 1 }) },
		"token's file":    func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.TokenFile = "t" }) },
		"token":           func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.TokenEnv = "t" }) },
		"user":            func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.User = "t" }) },
		"its authorities": func(c *Config) { c.Bundle, c.Layers = "", at(func(l *Layer) { l.CA = keyFile }) },
		"an entrypoint":   func(c *Config) { c.Bundle, c.Layers = "", []Layer{{Bundle: "bundle", Entrypoint: "data.a.b"}} },
		"tools":           func(c *Config) { c.Tools = "tools" },
		"ceiling":         func(c *Config) { c.Ceiling = "tools" },
		"node":            func(c *Config) { c.Node = "n" },
		"root's name":     func(c *Config) { c.Roots[0].Name = "doc" },
		"root's path":     func(c *Config) { c.Roots[0].Path = "/doc" },
		"one more root":   func(c *Config) { c.Roots = append(c.Roots, hostfx.Root{Name: "a", Path: "/a"}) },
		"no root":         func(c *Config) { c.Roots = nil },
		"guests":          func(c *Config) { c.MaxGuests = 1 },
		"refusals":        func(c *Config) { c.MaxRefusals = 1 },
		"enforcement":     func(c *Config) { c.ExecEnforcement = "partial" },
		"process life":    func(c *Config) { c.Processes.Life = 1 },
		"processes":       func(c *Config) { c.Processes.Session = 1 },
		"all processes":   func(c *Config) { c.Processes.All = 1 },
		"timeout":         func(c *Config) { c.DecideTimeout = 1 },
		"approvers":       func(c *Config) { c.AssertedApprovers = true },
		"a webhook":       func(c *Config) { c.Webhooks = []Webhook{{Name: "a", URL: "https://a.example/"}} },
		"its secret":      func(c *Config) { c.Webhooks = []Webhook{{Name: "a", URL: "https://a.example/", Secret: "s"}} },
		"one host tool":   func(c *Config) { c.HostTools = make([]engine.Tool, 1) },
		"two host tools":  func(c *Config) { c.HostTools = make([]engine.Tool, 2) },
		"authorities":     authority("one"),
		"in their file":   authority("two"),
		"network":         func(c *Config) { c.Networks = []hostfx.Network{{Name: "a", Ranges: []netip.Prefix{loopback}}} },
		"network's name":  func(c *Config) { c.Networks = []hostfx.Network{{Name: "b", Ranges: []netip.Prefix{loopback}}} },
		"no ranges":       func(c *Config) { c.Networks = []hostfx.Network{{Name: "a"}} },
		"name":            func(c *Config) { c.Names = []hostfx.Name{{Host: "a.example.com"}} },
		"address": func(c *Config) {
			c.Names = []hostfx.Name{{Host: "a.example.com", Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}}
		},
		"witness":          func(c *Config) { c.Witnesses = []Witness{{Name: "w", Kind: WitnessFile, Key: "k"}} },
		"witness's key":    func(c *Config) { c.Witnesses = []Witness{{Name: "w", Kind: WitnessFile, Key: "l"}} },
		"witness's path":   func(c *Config) { c.Witnesses = []Witness{{Name: "w", Kind: WitnessFile, Key: "k", Path: "/w"}} },
		"witness's url":    func(c *Config) { c.Witnesses = []Witness{{Name: "w", Kind: WitnessHTTP, Key: "k", URL: "/w"}} },
		"witness's ca":     func(c *Config) { c.Witnesses = []Witness{{Name: "w", Kind: WitnessHTTP, Key: "k", CA: keyFile}} },
		"its command":      func(c *Config) { c.Witnesses = []Witness{{Name: "w", Command: []string{"/w"}}} },
		"strict":           func(c *Config) { c.Witnessing.Strict = true },
		"quorum":           func(c *Config) { c.Witnessing.Quorum = 1 },
		"every second":     func(c *Config) { c.Witnessing.Every = 1 },
		"secret":           func(c *Config) { c.Secrets = []Secret{{Name: "a"}} },
		"secret's file":    func(c *Config) { c.Secrets = []Secret{{Name: "a", File: "/a"}} },
		"secret's command": func(c *Config) { c.Secrets = []Secret{{Name: "a", Command: []string{"/a"}}} },
		"its argument":     func(c *Config) { c.Secrets = []Secret{{Name: "a", Command: []string{"/a", "b"}}} },
		"secret's header":  func(c *Config) { c.Secrets = []Secret{{Name: "a", Header: "X-Key"}} },
	} {
		d := digest(change)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s make no difference", name, other)
		}
		seen[d] = name
	}
	here, err := filepath.Abs("bundle")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"data":              func(c *Config) { c.Data = "elsewhere" },
		"clock":             func(c *Config) { c.Now = time.Now },
		"bundle's spelling": func(c *Config) { c.Bundle = here },
		"layers' spelling":  func(c *Config) { c.Bundle, c.Layers = "", []Layer{{Name: "policy", Mode: Enforce, Bundle: "bundle"}} },
	} {
		if digest(change) != want {
			t.Errorf("%s makes a difference", name)
		}
	}
}

// The key that signs counts, not only where it is.
func TestDigestOfKeys(t *testing.T) {
	key := filepath.Join(t.TempDir(), "k.pub")
	c := Config{Layers: []Layer{{Bundle: "x", Signing: &Signing{Keys: []SigningKey{{ID: "a", File: key}}}}}}
	seen := map[string]bool{}
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(key, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := c.digest()
		if err != nil || seen[d] {
			t.Errorf("%s: %v", text, err)
		}
		seen[d] = true
	}
	if c.Layers[0].Signing.Keys[0].File != key {
		t.Error("the configuration has changed")
	}
}

// The order in which layers are listed says nothing.
func TestDigestOfLayers(t *testing.T) {
	layers := []Layer{{Name: "a", Bundle: "x"}, {Name: "b", Bundle: "y"}, {Name: "a", Mode: InShadow, Bundle: "z"}}
	a, err1 := Config{Layers: layers}.digest()
	b, err2 := Config{Layers: []Layer{layers[2], layers[1], layers[0]}}.digest()
	if a != b || err1 != nil || err2 != nil {
		t.Errorf("%s, %s: %v, %v", a, b, err1, err2)
	}
	if _, err := (Config{Layers: layers, Bundle: "x"}).digest(); err == nil {
		t.Error("a bundle beside layers has a digest")
	}
}

// Two names of one directory are one configuration.
func TestDigestFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	a, err1 := Config{Tools: dir}.digest()
	b, err2 := Config{Tools: link}.digest()
	if a != b || err1 != nil || err2 != nil {
		t.Errorf("%s, %s: %v, %v", a, b, err1, err2)
	}
}
