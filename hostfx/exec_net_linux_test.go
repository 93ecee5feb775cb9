package hostfx_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// serving takes connections at an address and gives its port.
func serving(t *testing.T, network, address string) int {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(io.Discard, c); c.Close() }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// withPorts has the probe do one thing after the other, with ports that it may connect to.
func (s shop) withPorts(t *testing.T, ports []int, list [][]string) []string {
	t.Helper()
	args := []string{"each"}
	for _, one := range list {
		args = append(append(args, one...), "--")
	}
	fx := s.open(t, call.Caps{Exec: []call.Exec{{Command: probe(t), Args: args, Ports: ports}}})
	defer fx.Close()
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: args, Ports: ports})
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(ran.Stdout), "\n"), "\n")
	if ran.Exit != 0 || len(lines) != len(list) {
		t.Fatalf("exit %d: %s%s", ran.Exit, ran.Stdout, ran.Stderr)
	}
	return lines
}

// A command connects to the ports that it was granted, and uses nothing else of the network.
func TestPortsOfCommands(t *testing.T) {
	s := newShop(t)
	port, other := serving(t, "tcp4", "127.0.0.1:0"), serving(t, "tcp4", "127.0.0.1:0")
	at := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	number := func(n int) string { return strconv.Itoa(n) }
	const denied, notPermitted = "permission denied", "operation not permitted"
	tests := []struct {
		name string
		args []string
		want string // what it fails with, "" when it does not
	}{
		{"the granted port", []string{"tcp", at(port)}, ""},
		{"another port", []string{"tcp", at(other)}, denied},
		{"a mapped address", []string{"tcp", "[::ffff:127.0.0.1]:" + number(port)}, ""},
		{"another port of it", []string{"tcp", "[::ffff:127.0.0.1]:" + number(other)}, denied},
		{"another port without connecting", []string{"fastopen", number(other), "sendto"}, notPermitted},
		{"nor so", []string{"fastopen", number(other), "sendmsg"}, notPermitted},
		{"an option that connects later", []string{"fastconnect"}, notPermitted},
		{"an option", []string{"nodelay"}, ""},
		{"TCP", []string{"socket", number(unix.AF_INET), number(unix.SOCK_STREAM), number(unix.IPPROTO_TCP)}, ""},
		{"TCP with flags", []string{"socket", number(unix.AF_INET6), number(unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK), "0"}, ""},
		{"multipath TCP", []string{"socket", number(unix.AF_INET), number(unix.SOCK_STREAM), number(unix.IPPROTO_MPTCP)}, notPermitted},
		{"SCTP", []string{"socket", number(unix.AF_INET), number(unix.SOCK_STREAM), number(unix.IPPROTO_SCTP)}, notPermitted},
		{"datagrams", []string{"udp"}, notPermitted},
		{"raw", []string{"socket", number(unix.AF_INET), number(unix.SOCK_RAW), number(unix.IPPROTO_TCP)}, notPermitted},
		{"sequential packets", []string{"socket", number(unix.AF_INET), number(unix.SOCK_SEQPACKET), "0"}, notPermitted},
		{"names of files", []string{"socket", number(unix.AF_UNIX), number(unix.SOCK_STREAM), "0"}, notPermitted},
		{"virtual machines", []string{"socket", number(unix.AF_VSOCK), number(unix.SOCK_STREAM), "0"}, notPermitted},
		{"netlink", []string{"netlink"}, notPermitted},
		{"bind", []string{"bind"}, notPermitted},
		{"listen anywhere", []string{"listenany"}, notPermitted},
		{"read outside", []string{"read", s.outside + "/secret.txt"}, denied},
	}
	var args [][]string
	for _, tt := range tests {
		args = append(args, tt.args)
	}
	for i, got := range s.withPorts(t, []int{port}, args) {
		if want := tests[i].want; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", tests[i].name, got, want)
		}
	}
	for i, got := range s.withPorts(t, []int{other, port}, args[:2]) {
		if got != "" {
			t.Errorf("%s, with both: %q", tests[i].name, got)
		}
	}
	for i, got := range s.withPorts(t, nil, args[:2]) {
		if !strings.Contains(got, notPermitted) {
			t.Errorf("%s, with none: %q", tests[i].name, got)
		}
	}

	// With the filter alone the same goes by Landlock's name for it.
	hostfx.SetKernel(s.host, 0, true)
	for i, got := range s.withPorts(t, []int{port}, args[:7]) {
		if want := tests[i].want; (want == notPermitted) != strings.Contains(got, notPermitted) || want != notPermitted && got != "" {
			t.Errorf("%s, without Landlock: %q", tests[i].name, got)
		}
	}
	hostfx.SetKernel(s.host, 0, false) // where all of it goes, or the above would show nothing
	for i, got := range s.withPorts(t, []int{port}, args[:6]) {
		if got != "" {
			t.Errorf("%s, unconfined: %q", tests[i].name, got)
		}
	}
}

// Where the kernel knows no ports, no command is said to be kept to some.
func TestPortsAreDemanded(t *testing.T) {
	tests := []struct {
		demand string
		abi    int
		ports  []int
		want   string // the level; "" when the call is refused
	}{
		{hostfx.Enforced, newestABI, []int{443}, hostfx.Enforced},
		{hostfx.Enforced, 5, []int{443}, ""},
		{hostfx.Partial, 4, []int{443}, hostfx.Partial},
		{hostfx.Partial, 3, []int{443}, ""},
		{hostfx.Partial, 3, nil, hostfx.Partial},
		{hostfx.Unavailable, 3, []int{443}, hostfx.Unavailable},
		{hostfx.Unavailable, 4, []int{443}, hostfx.Partial},
	}
	for _, tt := range tests {
		h, err := hostfx.New(hostfx.Options{ExecEnforcement: tt.demand, Launcher: probe(t)})
		must(t, err)
		hostfx.SetKernel(h, tt.abi, true)
		fx, err := h.Open(t.Context(), mint(t, call.Caps{Exec: []call.Exec{{Command: "/bin/true", Ports: tt.ports}}}))
		if tt.want == "" {
			if call.CodeOf(err, "") != call.CodeExecUnconfined {
				t.Errorf("%v: %v", tt, err)
			}
			continue
		}
		must(t, err)
		ran, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true", Ports: tt.ports})
		must(t, err)
		if effects := fx.Close(); ran.Enforcement != tt.want || effects[0].Enforcement != tt.want {
			t.Errorf("%v: %s, recorded %s", tt, ran.Enforcement, effects[0].Enforcement)
		}
	}
}

// A grant may demand more of the kernel than the operator does, and not less.
func TestGrantsDemandEnforcement(t *testing.T) {
	for _, tt := range []struct {
		operator, grant string
		abi             int
		refused         bool
	}{
		{hostfx.Unavailable, "", 0, false},
		{hostfx.Unavailable, hostfx.Partial, 0, true},
		{hostfx.Unavailable, hostfx.Partial, 5, false},
		{hostfx.Unavailable, hostfx.Enforced, 5, true},
		{hostfx.Unavailable, hostfx.Enforced, newestABI, false},
		{hostfx.Enforced, hostfx.Partial, 5, true},
		{hostfx.Enforced, "wholly", newestABI, true},
	} {
		h, err := hostfx.New(hostfx.Options{ExecEnforcement: tt.operator, Launcher: probe(t)})
		must(t, err)
		hostfx.SetKernel(h, tt.abi, true)
		fx, err := h.Open(t.Context(), mint(t, call.Caps{Exec: []call.Exec{{Command: "/bin/true", Enforcement: tt.grant}}}))
		if (call.CodeOf(err, "") == call.CodeExecUnconfined) != tt.refused {
			t.Errorf("%v: %v", tt, err)
		}
		if err != nil {
			continue
		}
		if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); err != nil {
			t.Errorf("%v: Run = %v", tt, err)
		}
		fx.Close()
	}
}

// A command has of the environment and the ports what it asks for, out of what one entry has.
func TestEnvironmentOfCommands(t *testing.T) {
	t.Setenv("A", canary)
	s := newShop(t)
	entry := call.Exec{Command: probe(t), Args: []string{"env"}, Env: []string{"A=1", "PATH=/bin", "LANG=C.UTF-8", "B=$A `id`\n"}, Ports: []int{443, 8443}}
	more := entry
	more.Env, more.Ports = []string{"C=3"}, []int{80}
	tests := []struct {
		name  string
		env   []string
		ports []int
		want  []string // nil when it is refused
	}{
		{"nothing", nil, nil, []string{"LANG=C"}},
		{"some", []string{"B=$A `id`\n", "A=1"}, []int{8443}, []string{"LANG=C", "B=$A `id`\n", "A=1"}},
		{"another language", []string{"LANG=C.UTF-8"}, []int{443, 8443}, []string{"LANG=C.UTF-8"}},
		{"the other entry's", []string{"C=3"}, []int{80}, []string{"LANG=C", "C=3"}},
		{"another value", []string{"A=2"}, nil, nil},
		{"another name", []string{"A=1", "D=1"}, nil, nil},
		{"no value", []string{"A"}, nil, nil},
		{"twice", []string{"A=1", "A=1"}, nil, nil},
		{"a loader's", []string{"LD_PRELOAD=/x"}, nil, nil},
		{"another port", nil, []int{443, 444}, nil},
		{"no port", nil, []int{0}, nil},
		{"of two entries", []string{"A=1", "C=3"}, nil, nil},
		{"ports of one and environment of another", []string{"A=1"}, []int{80}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := s.open(t, call.Caps{Exec: []call.Exec{entry, more}})
			ran, err := fx.Run(t.Context(), hostfx.Command{Path: probe(t), Args: []string{"env"}, Env: tt.env, Ports: tt.ports})
			effects := fx.Close()
			if tt.want == nil {
				if !errors.Is(err, hostfx.ErrNotGranted) || len(effects) != 1 || effects[0].Code != "refused" || effects[0].Within != "" {
					t.Errorf("Run() = %v, %v, effects %v", ran, err, effects)
				}
				return
			}
			must(t, err)
			var quoted []string
			for _, v := range tt.want {
				quoted = append(quoted, strconv.Quote(v))
			}
			if got, want := string(ran.Stdout), "["+strings.Join(quoted, " ")+"]"; got != want {
				t.Errorf("environment %s, want %s", got, want)
			}
			if !slices.Equal(entry.Env, []string{"A=1", "PATH=/bin", "LANG=C.UTF-8", "B=$A `id`\n"}) {
				t.Errorf("the grant's was changed: %q", entry.Env)
			}
		})
	}
}
