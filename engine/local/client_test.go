package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/state"
)

// A client's answers are the owner's own, and the log keeps how it was known who
// asked.
func TestClient(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	c := small(dir)
	c.AssertedApprovers = false
	e, k := open(t, c), dial(t, c)
	ctx := t.Context()

	forged := ask("echo", "hi")
	forged.Principal.Auth = call.Auth{Method: "jwt", Issuer: "https://issuer.example"}
	forged.Principal.OnBehalfOf = []call.Principal{{ID: "carol", Kind: "user", Auth: forged.Principal.Auth}}
	self := ask("echo", "hi")
	self.Principal = local.User()
	more := ask("echo", "hi")
	more.Principal = local.User()
	more.Principal.Roles = []string{"admin"}
	broken := ask("echo", "")
	broken.Args = []byte(`{"text": "a", "text": "b"}`)
	large := ask("echo", strings.Repeat("x", call.MaxArgsBytes))
	unknown := ask("no-such-tool", "")
	unicode := ask("\xff", "")

	auth := call.Auth{Method: "asserted", Issuer: local.User().ID}
	tests := []struct {
		name string
		call call.Call
		code call.Code // "" for success
		auth call.Auth // in the record; zero for none
	}{
		{"a forged method", forged, "", auth},
		{"the user itself", self, "", call.Auth{Method: "uid"}},
		{"the user with a role of its own making", more, "", auth},
		{"arguments that are not JSON", broken, call.CodeArgsInvalid, auth},
		{"arguments that are too large", large, call.CodeArgsTooLarge, auth},
		{"an unknown tool", unknown, call.CodeToolUnknown, auth},
		{"a name that is not text", unicode, call.CodeRequestInvalid, call.Auth{}},
		{"a destructive tool", ask("wipe", ""), call.CodeRequiresApproval, auth},
	}
	at := map[string]int64{}
	for _, tt := range tests {
		res, err := k.Do(ctx, tt.call)
		d, refused := errors.AsType[*engine.Denial](err)
		switch {
		case tt.code == "" && (err != nil || string(res.Output) != `"hi"` || res.Outcome.Status != call.Succeeded):
			t.Errorf("%s: %+v, %v", tt.name, res, err)
		case tt.code != "" && (!refused || d.Code != tt.code):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		case refused:
			at[tt.name] = d.Receipt.Index
		case res != nil:
			at[tt.name] = res.Receipt.Index
		}
	}

	list, err := k.Approvals(ctx)
	if err != nil || len(list) != 1 || list[0].Standing != state.Open {
		t.Fatalf("Approvals = %+v, %v", list, err)
	}
	id := list[0].ID
	if q, err := k.Approval(ctx, id); err != nil || q.ID != id || !bytes.Equal(q.Args, []byte(`{"text":""}`)) || q.Tool.Name != "wipe" {
		t.Errorf("Approval = %+v, %v", q, err)
	}
	voted := func(id string, by call.Principal, deny bool) error {
		_, err := k.Vote(ctx, engine.Vote{Approval: id, By: by, Deny: deny})
		return err
	}
	if err := voted(id, approver, false); !errors.Is(err, engine.ErrAsserted) {
		t.Errorf("an asserted vote: %v, want %v", err, engine.ErrAsserted)
	}
	if err := voted(id, local.User(), false); !errors.Is(err, state.ErrMayNotVote) {
		t.Errorf("a vote of somebody who is not asked: %v, want %v", err, state.ErrMayNotVote)
	}
	if err := voted("ap-NONE", local.User(), true); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("a vote on nothing: %v, want %v", err, state.ErrNoApproval)
	}
	if _, err := k.Wait(ctx, "ap-NONE"); !errors.Is(err, state.ErrNoApproval) {
		t.Errorf("Wait for nothing: %v, want %v", err, state.ErrNoApproval)
	}
	late, cancel := context.WithTimeout(ctx, 1)
	defer cancel()
	if _, err := k.Wait(late, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want %v", err, context.DeadlineExceeded)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if _, err := k.Do(ctx, ask("echo", "")); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Do after Close = %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	all := records(t, dir)
	for _, tt := range tests {
		i := at[tt.name]
		if i < 0 {
			if tt.auth != (call.Auth{}) {
				t.Errorf("%s: not recorded", tt.name)
			}
			continue
		}
		p := all[i].Principal
		if p == nil || p.Auth != tt.auth {
			t.Errorf("%s: recorded %+v, want %+v", tt.name, p, tt.auth)
			continue
		}
		for _, o := range p.OnBehalfOf {
			if o.Auth != auth {
				t.Errorf("%s: recorded %+v in the chain", tt.name, o)
			}
		}
	}
}

// The caller's context ends the run, and the answer still says how it ended.
func TestClientCancels(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	open(t, small(dir))
	k := dial(t, small(dir))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := k.Do(ctx, ask("hold", ""))
		failed <- err
	}()
	appears(t, dir, "held")
	cancel()
	err := <-failed
	if te, ok := errors.AsType[*engine.ToolError](err); !ok || te.Result.CallID == "" {
		t.Errorf("Do = %v, want a ToolError", err)
	}
	appears(t, dir, "stopped")
	if _, err := k.Do(ctx, ask("echo", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("Do with an ended context = %v", err)
	}
}

// Whatever is sent in place of a request gets a code and the end, and others are
// served as before.
func TestBadMessages(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	open(t, small(dir))
	tests := []struct {
		name, sent string
	}{
		{"no JSON", "hello\n"},
		{"nothing", "\n"},
		{"a list", "[]\n"},
		{"an unknown operation", `{"op":"revoke"}` + "\n"},
		{"an unknown member", `{"op":"approvals","x":1}` + "\n"},
		{"another case", `{"Op":"approvals"}` + "\n"},
		{"a name twice", `{"op":"approvals","op":"approvals"}` + "\n"},
		{"parts of another operation", `{"op":"do","approval":"ap-A"}` + "\n"},
		{"a claim to be authenticated", `{"op":"vote","approval":"ap-A","by":{"id":"bob","kind":"user","auth":{"method":"jwt"}}}` + "\n"},
		{"two requests", strings.Repeat(`{"op":"approvals"}`+"\n", 2)},
		{"too much", strings.Repeat("x", 5<<20) + "\n"},
		{"too much without an end", strings.Repeat("x", 5<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("unix", socketOf(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			go func() { _, _ = io.WriteString(c, tt.sent) }() // the owner need not read it all
			// A peer that is cut off while it sends may see a reset after the answer.
			text, _ := io.ReadAll(c)
			lines := strings.SplitAfter(string(text), "\n")
			if len(lines) < 2 || !strings.Contains(lines[1], `"code":"request_invalid"`) {
				t.Errorf("answers %q", lines)
			}
		})
	}
	t.Run("a part of a request", func(t *testing.T) {
		c, err := net.Dial("unix", socketOf(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, `{"op":"appro`)
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(c)
		if strings.Count(string(text), "\n") != 1 {
			t.Errorf("answers %q, want hello alone", text)
		}
	})
	k := dial(t, small(dir))
	if _, err := k.Do(t.Context(), ask("echo", "still there")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A client says nothing to an owner that it does not understand.
func TestStrangeOwners(t *testing.T) {
	for name, says := range map[string]string{
		"another protocol":  `{"callgate":1,"config":""}` + "\n",
		"something else":    "220 mail.example ESMTP\n",
		"without an end":    strings.Repeat("x", 1<<16),
		"more than a hello": `{"callgate":3,"config":"","more":1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeSmall(t, dir)
			c := small(dir)
			c.Data = dir
			ln, err := net.Listen("unix", dir+"/callgate.sock")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			heard := make(chan string, 1)
			go func() {
				n, err := ln.Accept()
				if err != nil {
					heard <- err.Error()
					return
				}
				defer n.Close()
				_, _ = io.WriteString(n, says)
				b, _ := io.ReadAll(n)
				heard <- string(b)
			}()
			if _, err := local.Dial(t.Context(), c); !errors.Is(err, local.ErrConfigDiffers) {
				t.Errorf("Dial = %v, want %v", err, local.ErrConfigDiffers)
			}
			if got := <-heard; got != "" {
				t.Errorf("the owner heard %q", got)
			}
		})
	}
}
