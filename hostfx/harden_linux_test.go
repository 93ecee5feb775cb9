package hostfx_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// A child of the same user reads the environment of a process, until that is hardened.
func TestHarden(t *testing.T) {
	const variable = "CALLGATE_SECRET_HARDEN"
	if os.Getenv(variable) != "" {
		harden(t)
		return
	}
	// Root may read whatever it likes, so the process is of another user.
	dir, err := os.MkdirTemp("", "callgate-harden-")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	name := filepath.Join(dir, "test")
	copyFile(t, self, name)
	cmd := exec.Command(name, "-test.run=^TestHarden$", "-test.v")
	cmd.Env, cmd.Dir = []string{variable + "=" + canary}, dir
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "it is hard") {
		t.Errorf("%v\n%s", err, out)
	}
}

func harden(t *testing.T) {
	spy := func() (string, error) {
		out, err := exec.Command("/bin/cat", fmt.Sprintf("/proc/%d/environ", os.Getpid())).Output()
		return string(out), err
	}
	if out, err := spy(); err != nil || !strings.Contains(out, canary) {
		t.Errorf("before: %q, %v", out, err)
	}
	must(t, hostfx.Harden())
	if out, err := spy(); err == nil || strings.Contains(out, canary) {
		t.Errorf("afterwards: %q, %v", out, err)
	}
	var core unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &core))
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 || core.Max != 0 {
		t.Errorf("dumpable %d, %v, core files of %d bytes", dumpable, err, core.Max)
	}
	h, err := hostfx.New(hostfx.Options{})
	must(t, err)
	fx, err := h.Open(t.Context(), mint(t, call.Caps{Exec: exactly("/bin/cat")}))
	must(t, err)
	ran, err := fx.Run(t.Context(), hostfx.Command{Path: "/bin/cat", Stdin: []byte("still")})
	if err != nil || string(ran.Stdout) != "still" {
		t.Errorf("a command of a hardened process: %v, %v", ran, err)
	}
	fmt.Println("it is hard")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
	must(t, os.Chmod(to, 0o755))
}
