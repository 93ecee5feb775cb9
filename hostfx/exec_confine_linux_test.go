package hostfx_test

import (
	"cmp"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// newestABI is beyond what the confinement asks for.
const newestABI = 7

// Each thing that a command may not do, with the kernel's whole confinement, with each
// half of it, and without: there it can, or the test would notice nothing.
func TestCommandsAreConfined(t *testing.T) {
	s := newShop(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	socket := filepath.Join(s.outside, "socket")
	listening, err := net.Listen("unix", socket)
	must(t, err)
	defer listening.Close()
	abstract, err := net.Listen("unix", "@callgate-test-"+strconv.Itoa(os.Getpid()))
	must(t, err)
	defer abstract.Close()
	datagrams := filepath.Join(s.outside, "datagrams")
	receiving, err := net.ListenPacket("unixgram", datagrams)
	must(t, err)
	defer receiving.Close()
	number := strconv.Itoa
	self := number(os.Getpid())
	secret, probeCopy := s.outside+"/secret.txt", filepath.Join(s.root, "work/probe")
	text, err := os.ReadFile(probe(t))
	must(t, err)
	must(t, os.WriteFile(probeCopy, text, 0o755))

	const denied, notPermitted = "permission denied", "operation not permitted"
	tests := []struct {
		name             string
		args             []string
		landlock, filter string // what it fails with when only this is in force, "" when it does not
		odd              bool   // whether it goes well without either depends on the machine
	}{
		{name: "read outside", args: []string{"read", secret}, landlock: denied},
		{name: "read through a link out", args: []string{"read", s.root + "/work/out/secret.txt"}, landlock: denied},
		{name: "read beside the granted directory", args: []string{"read", s.root + "/other/c.txt"}, landlock: denied},
		{name: "read another process's environment", args: []string{"read", "/proc/" + self + "/environ"}, landlock: denied, odd: true},
		{name: "read its own in /proc", args: []string{"read", "/proc/self/status"}, landlock: denied},
		{name: "read passwords", args: []string{"read", "/etc/passwd"}, landlock: denied},
		{name: "list outside", args: []string{"list", s.outside}, landlock: denied},
		{name: "write outside", args: []string{"write", secret}, landlock: denied},
		{name: "empty outside", args: []string{"empty", secret}, landlock: denied},
		{name: "create outside", args: []string{"create", s.outside + "/new"}, landlock: denied},
		{name: "remove outside", args: []string{"remove", s.outside + "/old"}, landlock: denied},
		{name: "move out", args: []string{"rename", s.root + "/work/out.txt", s.outside + "/out.txt"}, landlock: denied},
		{name: "move in", args: []string{"rename", s.outside + "/in.txt", s.root + "/work/in.txt"}, landlock: denied},
		{name: "make a link", args: []string{"symlink", s.root + "/work/link"}, landlock: denied},
		{name: "make a FIFO", args: []string{"fifo", s.root + "/work/fifo"}, landlock: denied},
		{name: "give a file a second name", args: []string{"link", s.root + "/work/a.txt", s.root + "/work/second"}, filter: notPermitted},
		{name: "make a program that runs as its owner", args: []string{"setid", s.root + "/work/owner", "openat", number(0o4755)}, filter: notPermitted},
		{name: "or its owner's group", args: []string{"setid", s.root + "/work/group", "openat", number(0o2755)}, filter: notPermitted},
		{name: "with no name", args: []string{"setid", s.root + "/work", "tmpfile", number(0o4755)}, filter: notPermitted},
		{name: "with another call", args: []string{"setid", s.root + "/work/node", "mknodat", number(0o4755)}, filter: notPermitted},
		{name: "modes that make nothing", args: []string{"setid", s.root + "/work/a.txt", "look", number(0o4755)}},
		{name: "a lease on what may be read", args: []string{"lease", s.root + "/work/a.txt"}, filter: notPermitted},
		{name: "a name for a pair of sockets", args: []string{"name", "@callgate-test-name-" + self}, filter: notPermitted},
		{name: "change modes outside", args: []string{"chmod", secret}, filter: notPermitted},
		{name: "set times outside", args: []string{"touch", secret}, filter: notPermitted},
		{name: "start a program of the granted directory", args: []string{"start", probeCopy, "args"}, landlock: denied},
		{name: "change modes of what may be read", args: []string{"chmodfd", s.root + "/work/a.txt"}, filter: notPermitted},
		{name: "change attributes of it", args: []string{"chattr", s.root + "/work/a.txt"}, filter: notPermitted, odd: true},
		{name: "a snapshot, where the file system has them", args: []string{"request", s.root + "/work", "0x50009401"}, filter: notPermitted, odd: true},
		{name: "how large it is", args: []string{"request", s.root + "/work/a.txt", "0x541b"}},
		{name: "how large its blocks are", args: []string{"request", s.root + "/work/a.txt", "2"}},
		{name: "set times of it", args: []string{"touchfd", s.root + "/work/a.txt"}, filter: notPermitted},
		{name: "connect", args: []string{"tcp", tcp.Addr().String()}, landlock: denied, filter: notPermitted},
		{name: "listen", args: []string{"listen"}, landlock: denied, filter: notPermitted},
		{name: "UDP", args: []string{"udp"}, filter: notPermitted},
		{name: "a socket with a name", args: []string{"unix", socket}, filter: notPermitted},
		{name: "an abstract socket", args: []string{"unix", abstract.Addr().String()}, landlock: notPermitted, filter: notPermitted},
		{name: "a socket for datagrams, from a pair", args: []string{"dgram", datagrams, "2"}, filter: notPermitted},
		{name: "the same by another name", args: []string{"dgram", datagrams, "3"}, filter: notPermitted},
		{name: "netlink", args: []string{"netlink"}, filter: notPermitted},
		{name: "signal the owner", args: []string{"signal", self}, landlock: notPermitted},
		{name: "trace the owner", args: []string{"ptrace", self}, landlock: notPermitted, filter: notPermitted, odd: true},
		{name: "read the owner's memory", args: []string{"memory", self}, landlock: notPermitted, filter: notPermitted, odd: true},
		{name: "limit the owner", args: []string{"limit", self}, filter: notPermitted},
		{name: "slow the owner", args: []string{"nice", self}, filter: notPermitted, odd: true},
		{name: "shared semaphores", args: []string{"semaphore"}, filter: notPermitted},
		{name: "another user namespace", args: []string{"userns"}, filter: notPermitted, odd: true},
		{name: "a network of its own", args: []string{"clone"}, filter: notPermitted, odd: true},
	}
	all := work("read", "list", "write", "remove")
	var args [][]string
	for _, tt := range tests {
		args = append(args, tt.args)
	}
	check := func(with string, abi int, filter bool, want func(landlock, filter string) string) {
		for _, made := range []string{"outside/new", "outside/out.txt", "work/in.txt", "work/link", "work/fifo", "work/second", "work/owner", "work/group", "work/node"} {
			os.Remove(filepath.Join(s.root, strings.Replace(made, "outside", "../outside", 1)))
		}
		for _, needed := range []string{s.outside + "/old", s.root + "/work/out.txt", s.outside + "/in.txt"} {
			must(t, os.WriteFile(needed, nil, 0o644))
		}
		hostfx.SetKernel(s.host, abi, filter)
		for i, got := range s.each(t, all, "", args) {
			want := want(tests[i].landlock, tests[i].filter)
			if want == "" && got != "" && !tests[i].odd || want != "" && !strings.Contains(got, want) {
				t.Errorf("%s, with %s: %q, want %q", tests[i].name, with, got, want)
			}
		}
	}
	check("nothing", 0, false, func(string, string) string { return "" })
	check("Landlock", newestABI, false, func(landlock, _ string) string { return landlock })
	check("the filter", 0, true, func(_, filter string) string { return filter })
	check("both", newestABI, true, func(landlock, filter string) string { return cmp.Or(filter, landlock) })
}

// What each mode of a granted directory lets a command do, and no more.
func TestModesOfCommands(t *testing.T) { both(t, testModesOfCommands) }

func testModesOfCommands(t *testing.T) {
	acts := []struct {
		name string
		args []string // relative to the directory
		need []string
	}{
		{"read", []string{"read", "a.txt"}, []string{"read"}},
		{"list", []string{"list", "."}, []string{"list"}},
		{"write", []string{"write", "a.txt"}, []string{"write"}},
		{"empty", []string{"empty", "a.txt"}, []string{"write"}},
		{"create", []string{"create", "new"}, []string{"write"}},
		{"mkdir", []string{"mkdir", "dir"}, []string{"write"}},
		{"set times of an open file", []string{"touchfd", "a.txt"}, []string{"no mode"}},
		{"change its modes", []string{"chmodfd", "a.txt"}, []string{"no mode"}},
		{"change its attributes", []string{"chattr", "a.txt"}, []string{"no mode"}},
		{"move", []string{"rename", "a.txt", "sub/a.txt"}, []string{"write", "remove"}},
		{"remove", []string{"remove", "sub/b.txt"}, []string{"remove"}},
	}
	for _, modes := range [][]string{{"read"}, {"list"}, {"append"}, {"write"}, {"remove"}, {"write", "remove"}} {
		t.Run(strings.Join(modes, "+"), func(t *testing.T) {
			s := newShop(t)
			var args [][]string
			for _, a := range acts {
				args = append(args, a.args)
			}
			for i, got := range s.each(t, work(modes...), "/docs/work", args) {
				granted := true
				for _, n := range acts[i].need {
					granted = granted && slices.Contains(modes, n)
				}
				if (got == "") != granted {
					t.Errorf("%s: %q", acts[i].name, got)
				}
			}
		})
	}
}

// No file becomes larger than what the call may still write.
func TestCommandsWriteWithinTheQuota(t *testing.T) {
	s := newShop(t)
	for size, want := range map[string]bool{"1000": true, "1001": false} {
		args := []string{"big", "f", size}
		fx := s.open(t, call.Caps{FS: work("write"), Exec: exactly(probe(t), args...), Bounds: call.Bounds{WriteBytes: 1000}})
		ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args, Dir: "/docs/work"})
		must(t, err)
		if (ran.Exit == 0) != want {
			t.Errorf("%s bytes: %d %s", size, ran.Exit, ran.Stderr)
		}
	}
}

// Every call of the list is refused, and so is whatever the list cannot know.
func TestRefusedCalls(t *testing.T) {
	s := newShop(t)
	var args []string
	for _, nr := range hostfx.RefusedCalls() {
		args = append(args, strconv.Itoa(int(nr)))
	}
	if len(args) < 80 {
		t.Errorf("only %d calls", len(args))
	}
	run := func(args []string) string {
		args = append([]string{"calls"}, args...)
		fx := s.open(t, call.Caps{Exec: exactly(probe(t), args...)})
		defer fx.Close()
		ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args})
		must(t, err)
		return string(ran.Stdout)
	}
	if got := run(args); got != "" {
		t.Errorf("not refused: %s", got)
	}
	enosys := func(nr int) string { return strconv.Itoa(nr) + ":" + strconv.Itoa(int(unix.ENOSYS)) }
	unknown := []int{hostfx.NewestCall + 1, 4000, 0x40000000, unix.SYS_CLONE3, unix.SYS_OPENAT2}
	var want []string
	args = nil
	for _, nr := range unknown {
		args, want = append(args, strconv.Itoa(nr)), append(want, enosys(nr))
	}
	if got := run(args); got != strings.Join(want, " ") {
		t.Errorf("unknown calls: %s, want %s", got, want)
	}
	if got := s.try(t, nil, "list", "."); got != "" {
		t.Errorf("the command's own directory: %s", got)
	}
	if got := s.try(t, nil, "pair"); got != "" {
		t.Errorf("a pair of sockets: %s", got)
	}
	if got := s.try(t, nil, "start", "/bin/sh", "-c", "/bin/true | /bin/cat"); got != "" {
		t.Errorf("a pipeline: %s", got)
	}
}

// What a kernel can do, and what the operator demands of it.
func TestEnforcementIsDemanded(t *testing.T) {
	kernels := []struct {
		abi    int
		filter bool
		level  string
	}{
		{0, false, hostfx.Unavailable}, {0, true, hostfx.Unavailable}, {newestABI, false, hostfx.Unavailable},
		{1, true, hostfx.Partial}, {3, true, hostfx.Partial}, {5, true, hostfx.Partial}, {6, true, hostfx.Enforced}, {newestABI, true, hostfx.Enforced},
	}
	rank := []string{hostfx.Unavailable, hostfx.Partial, hostfx.Enforced}
	for demand, least := range map[string]int{"": 2, hostfx.Enforced: 2, hostfx.Partial: 1, hostfx.Unavailable: 0} {
		for _, k := range kernels {
			h, err := hostfx.New(hostfx.Options{ExecEnforcement: demand, Launcher: probe(t)})
			must(t, err)
			hostfx.SetKernel(h, k.abi, k.filter)
			fx, err := h.Open(t.Context(), mint(t, call.Caps{Exec: exactly("/bin/true")}))
			fits := false
			for _, l := range rank[least:] {
				fits = fits || l == k.level
			}
			if !fits {
				if call.CodeOf(err, "") != call.CodeExecUnconfined {
					t.Errorf("%q with %v: %v", demand, k, err)
				}
				if fx, err := h.Open(t.Context(), mint(t, call.Caps{})); err != nil {
					t.Errorf("a call without commands: %v", err)
				} else {
					fx.Close()
				}
				continue
			}
			must(t, err)
			ran, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"})
			must(t, err)
			if got := fx.Close(); ran.Enforcement != k.level || got[0].Enforcement != k.level {
				t.Errorf("%q with %v: %q, recorded %v", demand, k, ran.Enforcement, got)
			}
		}
	}
	for _, o := range []hostfx.Options{{ExecEnforcement: "none"}, {Launcher: "callgate"}} {
		if _, err := hostfx.New(o); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
	var none *hostfx.Host
	if _, err := none.Open(t.Context(), mint(t, call.Caps{Exec: exactly("/bin/true")})); call.CodeOf(err, "") != call.CodeExecUnconfined {
		t.Errorf("without a host: %v", err)
	}
}

// A program that does not call Main names one that does.
func TestLauncher(t *testing.T) {
	defer hostfx.ForgetMain()()
	self, err := os.Executable()
	must(t, err)
	caps := call.Caps{Exec: exactly("/bin/true")}
	for launcher, want := range map[string]error{"": &call.Error{}, self: nil, "/bin/true": errors.New("ended without a word"), "/nothing": os.ErrNotExist} {
		h, err := hostfx.New(hostfx.Options{Launcher: launcher})
		must(t, err)
		fx, err := h.Open(t.Context(), mint(t, caps))
		if launcher == "" {
			if call.CodeOf(err, "") != call.CodeExecUnconfined {
				t.Errorf("without Main: %v", err)
			}
			continue
		}
		must(t, err)
		_, err = fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"})
		if (err == nil) != (want == nil) || want != nil && !errors.Is(err, want) && !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("%s: %v, want %v", launcher, err, want)
		}
		fx.Close()
	}
}
