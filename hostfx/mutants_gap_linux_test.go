package hostfx_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/grant/granttest"
	"github.com/callgate/callgate/hostfx"
)

// A call whose files are not as they were when it was decided runs no command, neither
// one that it waits for nor one that goes on.
func TestCommandsDependOnFiles(t *testing.T) {
	for _, now := range []string{canary, "other"} {
		s := newShop(t)
		must(t, os.WriteFile(filepath.Join(s.root, "work/a.txt"), []byte(now), 0o600))
		args, err := call.Canonical([]byte(`{}`))
		must(t, err)
		g := granttest.Mint(t, call.Digest([]byte("tool")), args, call.Caps{FS: work("read"), Exec: exactly("/bin/true")},
			call.Precondition{File: "/docs/work/a.txt", Digest: call.Digest([]byte(canary))})
		fx, err := s.host.OpenFor(t.Context(), g, ours)
		must(t, err)
		want, code := error(nil), "ok"
		if now != canary {
			want, code = hostfx.ErrChanged, "changed"
		}
		if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true"}); !errors.Is(err, want) {
			t.Errorf("Run() = %v, want %v", err, want)
		}
		if _, err := fx.Start(t.Context(), hostfx.Command{Path: "/bin/true"}); !errors.Is(err, want) {
			t.Errorf("Start() = %v, want %v", err, want)
		}
		if e := fx.Close(); len(e) != 2 || e[0].Code != code || e[1].Code != code {
			t.Errorf("effects = %v, want %s", e, code)
		}
	}
}

// What the call may change in any way does not run, and nothing runs in a directory that
// was granted for nothing.
func TestCommandsThatTheCallMayChange(t *testing.T) {
	s := newShop(t)
	own := filepath.Join(s.root, "work/own")
	must(t, os.WriteFile(own, []byte("#!/bin/sh\n"), 0o755))
	for mode, want := range map[string]error{"write": hostfx.ErrNotGranted, "append": hostfx.ErrNotGranted, "remove": hostfx.ErrNotGranted, "read": nil} {
		fx := s.open(t, call.Caps{FS: work(mode), Exec: exactly(own)})
		if _, err := fx.Run(t.Context(), hostfx.Command{Path: own}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", mode, err, want)
		}
	}
	fx := s.open(t, call.Caps{FS: work(), Exec: exactly("/bin/true")})
	if _, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/true", Dir: "/docs/work"}); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("in a directory with no mode: %v", err)
	}
}

// TestRefusedCalls tries what the list has; this is what it must have.
func TestCallsThatMustBeRefused(t *testing.T) {
	for name, nr := range map[string]uint32{
		"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
		"keyctl": unix.SYS_KEYCTL, "mount": unix.SYS_MOUNT, "move_mount": unix.SYS_MOVE_MOUNT, "open_tree": unix.SYS_OPEN_TREE, "pivot_root": unix.SYS_PIVOT_ROOT,
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "chroot": unix.SYS_CHROOT, "bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"userfaultfd": unix.SYS_USERFAULTFD, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "kexec_load": unix.SYS_KEXEC_LOAD,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE, "reboot": unix.SYS_REBOOT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"shmget": unix.SYS_SHMGET, "msgget": unix.SYS_MSGGET, "mq_open": unix.SYS_MQ_OPEN, "inotify_add_watch": unix.SYS_INOTIFY_ADD_WATCH, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"fchmod": unix.SYS_FCHMOD, "fchmodat": unix.SYS_FCHMODAT, "fchmodat2": unix.SYS_FCHMODAT2, "fchown": unix.SYS_FCHOWN, "fchownat": unix.SYS_FCHOWNAT,
		"utimensat": unix.SYS_UTIMENSAT, "setxattr": unix.SYS_SETXATTR, "fsetxattr": unix.SYS_FSETXATTR, "removexattr": unix.SYS_REMOVEXATTR, "linkat": unix.SYS_LINKAT, "memfd_create": unix.SYS_MEMFD_CREATE,
		"bind": unix.SYS_BIND, "listen": unix.SYS_LISTEN, "accept4": unix.SYS_ACCEPT4,
	} {
		if !slices.Contains(hostfx.RefusedCalls(), nr) {
			t.Errorf("commands have %s", name)
		}
	}
}

// Close gives up all that the call held open.
func TestCloseGivesUpAll(t *testing.T) { both(t, testCloseGivesUpAll) }

func testCloseGivesUpAll(t *testing.T) {
	dir, err := filepath.EvalSymlinks(tree(t))
	must(t, err)
	held := func() (all []string) {
		fds, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		for _, fd := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/docs/reports") {
				all = append(all, to)
			}
		}
		return all
	}
	fx, f := granted(t, dir, all...)
	file, err := fx.OpenRead(within + "/a.txt")
	must(t, err)
	h, err := f.Open("sub", hostfx.OpenOptions{})
	must(t, err)
	for _, folder := range []*hostfx.Folder{f, h.(*hostfx.Folder)} {
		_, err = folder.Next(1)
		must(t, err)
	}
	if n := len(held()); n < 4 {
		t.Errorf("only %d are open before", n)
	}
	fx.Close()
	if left := held(); len(left) > 0 {
		t.Errorf("still open: %v", left)
	}
	if err := file.Close(); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("closing a file then: %v", err)
	}
}

// A command has no privileges and gains none, also where nothing else confines it.
func TestCommandsHaveNoPrivileges(t *testing.T) {
	s := newShop(t)
	hostfx.SetKernel(s.host, 0, false)
	args := []string{"/proc/self/status"}
	fx := s.open(t, call.Caps{Exec: exactly("/bin/cat", args...)})
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/cat", Args: args})
	must(t, err)
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if !strings.Contains(string(ran.Stdout), "\n"+set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, ran.Stdout)
		}
	}
	if !strings.Contains(string(ran.Stdout), "\nNoNewPrivs:\t1\n") {
		t.Errorf("it can gain privileges:\n%s", ran.Stdout)
	}
}
