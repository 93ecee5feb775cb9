package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
)

// Each of them is an owner or a client, as it comes, and each gets its answer.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	var children []*child
	for i := range 24 {
		children = append(children, start(t, "call", dir, fmt.Sprint("text-", i)))
	}
	answered := map[string]bool{}
	for i, c := range children {
		id, text, _ := strings.Cut(c.line(t), " ")
		if want := fmt.Sprintf("%q", fmt.Sprint("text-", i)); text != want {
			t.Errorf("child %d: %q, want %q", i, text, want)
		}
		answered[id] = true
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("child %d: %v", i, err)
		}
	}
	report, err := audit.Verify(filepath.Join(dir, "data"), "")
	if err != nil || report.Records != 48 {
		t.Errorf("Verify = %+v, %v; want 24 decisions and 24 outcomes", report, err)
	}
	for _, r := range records(t, dir) {
		if !answered[r.Call] {
			t.Errorf("record of call %s, which nobody made", r.Call)
		}
	}
	if len(answered) != 24 || len(outcomes(t, dir)["echo"]) != 24 {
		t.Errorf("%d calls answered, outcomes %v", len(answered), outcomes(t, dir))
	}
	if _, err := os.Lstat(socketOf(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the last owner left its socket: %v", err)
	}
}

// One process waits, a second one votes, and the first one goes on, whether it is
// the owner itself or a client of one.
func TestVoteWhileAnotherWaits(t *testing.T) {
	for _, owner := range []bool{true, false} {
		t.Run(fmt.Sprint("owner waits ", owner), func(t *testing.T) {
			dir := t.TempDir()
			writeSmall(t, dir)
			var o *child
			if !owner {
				o = start(t, "own", dir, "")
				o.line(t)
			}
			waiter := start(t, "wait", dir, "")
			id := waiter.line(t)
			voter := start(t, "approve", dir, id)
			if err := voter.cmd.Wait(); err != nil {
				t.Fatalf("approve: %v", err)
			}
			if got := waiter.line(t); got != `"clean"` {
				t.Errorf("the approved call gave %s", got)
			}
			if err := waiter.cmd.Wait(); err != nil {
				t.Errorf("wait: %v", err)
			}
			if o != nil {
				o.stdin.Close()
				if err := o.cmd.Wait(); err != nil {
					t.Errorf("own: %v", err)
				}
			}
			i := slices.IndexFunc(records(t, dir), func(r call.Record) bool { return r.Type == call.TypeApproval })
			if i < 0 {
				t.Fatal("no record of the vote")
			}
			if by := records(t, dir)[i].Principal; by.ID != "bob" || by.Auth != (call.Auth{Method: "asserted", Issuer: local.User().ID}) {
				t.Errorf("voted by %+v", by)
			}
		})
	}
}

func TestKilledOwner(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	o := start(t, "own", dir, "")
	o.line(t)
	k := dial(t, small(dir))
	failed := make(chan error)
	go func() {
		_, err := k.Do(t.Context(), ask("hold", ""))
		failed <- err
	}()
	appears(t, dir, "held")
	o.kill(t)
	if err := <-failed; !errors.Is(err, local.ErrUnknown) || errors.Is(err, local.ErrNoOwner) {
		t.Errorf("Do = %v, want %v", err, local.ErrUnknown)
	}
	if _, err := k.Approvals(t.Context()); !errors.Is(err, local.ErrNoOwner) {
		t.Errorf("Approvals = %v, want %v", err, local.ErrNoOwner)
	}
	if info, err := os.Lstat(socketOf(dir)); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Fatalf("the killed owner's socket: %v, %v", info, err)
	}

	e := open(t, small(dir)) // takes the stale socket over
	if res, err := k.Do(t.Context(), ask("echo", "back")); err != nil || string(res.Output) != `"back"` {
		t.Errorf("the client with the next owner: %v, %v", res, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := outcomes(t, dir)["hold"]; !slices.Equal(got, []call.Code{call.CodeUnfinished}) {
		t.Errorf("outcomes of the lost call: %v", got)
	}
	if _, err := os.Lstat(socketOf(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed owner left its socket: %v", err)
	}
}

func TestKilledClient(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	e := open(t, small(dir))
	c := start(t, "hold", dir, "")
	appears(t, dir, "held")
	c.kill(t)
	appears(t, dir, "stopped") // before anything closes
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	got := outcomes(t, dir)["hold"]
	if len(got) != 1 || got[0] != call.CodeCancelled && got[0] != call.CodeToolError {
		t.Errorf("outcomes of the call = %v, want one that says it was stopped", got)
	}
}

func TestWhatIsNotASocketStays(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socketOf(dir), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(t.Context(), small(dir)); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("Open = %v", err)
	}
	if b, err := os.ReadFile(socketOf(dir)); string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

func TestLongDirectory(t *testing.T) {
	dir, tmp := longDir(t), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	writeSmall(t, dir)
	if len(socketOf(dir)) <= 108 {
		t.Fatalf("%s is not long", dir)
	}
	open(t, small(dir))
	k := dial(t, small(dir))
	for range 2 { // the second one connects anew
		if res, err := k.Do(t.Context(), ask("echo", "far")); err != nil || string(res.Output) != `"far"` {
			t.Errorf("Do = %v, %v", res, err)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", longDir(t)) // no shorter way, and it says so
	if _, err := local.Dial(t.Context(), small(dir)); err == nil || !strings.Contains(err.Error(), "too long for a socket") {
		t.Errorf("Dial = %v", err)
	}
}

// Another user gets nowhere: the socket's mode keeps them out, and if it did not,
// the owner would not say a word.
func TestForeignUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // one cannot become another user; mayConnect has a test of its own
	}
	dir := t.TempDir()
	writeSmall(t, dir)
	for d := dir; d != "/" && d != filepath.Clean(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(t, small(dir))
	if info, err := os.Lstat(socketOf(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if err := os.Chmod(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "test") // that of the build may be out of reach
	if err := copyFile(binary, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	dialAsNobody := func() string {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), roleEnv+"=foreign", roleDir+"="+dir)
		cmd.Dir, cmd.Stderr = "/", os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := dialAsNobody(); got != "no access" {
		t.Errorf("Dial says %q", got)
	}
	if err := os.Chmod(socketOf(dir), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := dialAsNobody(); got != "no hello" {
		t.Errorf("past the socket's mode Dial says %q", got)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Close lets the clients' calls end, and takes no new ones.
func TestCloseFinishesClients(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	e, k := open(t, small(dir)), dial(t, small(dir))
	done := make(chan error)
	go func() {
		res, err := k.Do(t.Context(), ask("hold", ""))
		if err == nil && string(res.Output) != `"held"` {
			err = fmt.Errorf("output %s", res.Output)
		}
		done <- err
	}()
	appears(t, dir, "held")
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	for { // until it listens no more
		if k, err := local.Dial(t.Context(), small(dir)); errors.Is(err, local.ErrNoOwner) {
			break
		} else if err == nil {
			k.Close()
		}
	}
	if _, err := local.Open(t.Context(), small(dir)); !errors.Is(err, local.ErrOwned) {
		t.Errorf("Open = %v while the owner is closing, want %v", err, local.ErrOwned)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the call that was under way: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Whoever waits goes on waiting when the owner ends: a client says so, and what
// Join returns becomes the next owner.
func TestWaitOutlivesOwner(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	e := open(t, small(dir))
	_, err := e.Do(t.Context(), ask("wipe", "x"))
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok {
		t.Fatal(err)
	}
	k := dial(t, small(dir))
	g, err := local.Join(t.Context(), small(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	type end struct {
		standing string
		err      error
	}
	wait := func(g local.Gate) chan end {
		c := make(chan end, 1)
		go func() {
			a, err := g.Wait(t.Context(), d.ApprovalID)
			c <- end{string(a.Standing), err}
		}()
		return c
	}
	client, joined := wait(k), wait(g)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Vote(t.Context(), engine.Vote{Approval: d.ApprovalID, By: call.Principal{ID: "bob", Kind: "user", Roles: []string{"approver"}, Auth: local.Asserted()}}); err != nil {
		t.Errorf("Vote = %v", err)
	}
	if got := <-joined; got.err != nil || got.standing != "approved" {
		t.Errorf("Wait = %v", got)
	}
	// It may have found the next owner.
	if got := <-client; !errors.Is(got.err, local.ErrNoOwner) && (got.err != nil || got.standing != "approved") {
		t.Errorf("the client's Wait = %v", got)
	}
	if _, err := local.Open(t.Context(), small(dir)); !errors.Is(err, local.ErrOwned) {
		t.Errorf("Open = %v, want %v: the gate owns it now", err, local.ErrOwned)
	}
}

// An owner that closes does not wait for those who wait for people.
func TestDrainEndsWaits(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	e, k := open(t, small(dir)), dial(t, small(dir))
	_, err := e.Do(t.Context(), ask("wipe", "x"))
	d, ok := errors.AsType[*engine.Denial](err)
	if !ok {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := k.Wait(t.Context(), d.ApprovalID); ended <- err }()
	for e.Waiting() == 0 {
		runtime.Gosched()
	}
	e.Drain() // the engine itself goes on
	if err := <-ended; !errors.Is(err, local.ErrNoOwner) {
		t.Errorf("Wait = %v, want %v", err, local.ErrNoOwner)
	}
}

func TestJoinSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	writeSmall(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := local.Join(ctx, small(dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("Join = %v, want %v", err, context.Canceled)
	}
	if _, err := local.Dial(t.Context(), small(dir)); !errors.Is(err, local.ErrNoOwner) {
		t.Errorf("Dial = %v, want %v", err, local.ErrNoOwner)
	}
	open(t, small(dir))
	c := small(dir)
	c.Node = "another"
	for name, f := range map[string]func() error{
		"Dial": func() error { _, err := local.Dial(t.Context(), c); return err },
		"Join": func() error { _, err := local.Join(t.Context(), c); return err },
	} {
		if err := f(); !errors.Is(err, local.ErrConfigDiffers) || call.CodeOf(err, "") != call.CodeOwnerConfigDiffers {
			t.Errorf("%s = %v, want %v", name, err, local.ErrConfigDiffers)
		}
	}
}
