package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/callgate/callgate/engine/local/project"
)

const spyVariable = "CALLGATE_TEST_SPY" // the directory of the spy

// Other processes of its user, its parent and its children among them, read neither the
// environment of the command nor its memory, while they read those of others.
func TestCommandIsHardened(t *testing.T) {
	if dir := os.Getenv(spyVariable); dir != "" {
		spy(t, dir)
		return
	}
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "callgate-spy-")
	mustDo(t, err)
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	mustDo(t, err)
	for name, from := range map[string]string{"callgate": filepath.Join(bin, "callgate"), "spy": self} {
		b, err := os.ReadFile(from)
		mustDo(t, errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o755)))
	}
	mustDo(t, project.Write(filepath.Join(dir, "p")))
	f, err := os.OpenFile(filepath.Join(dir, "p/callgate.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	mustDo(t, err)
	// The command that prints this credential is run when the directory is opened.
	_, err = fmt.Fprintf(f, `
secrets:
  - name: hook
    command: [/bin/sh, -c, 'if cat /proc/$PPID/environ >%[1]s/child; then echo read; else echo refused; fi >%[1]s/verdict; echo whsec_aGFyZGVuZWQtaGFyZGVuZWQtaGFyZGVuZWQ=']
approvals: {webhooks: [{name: none, url: "https://127.0.0.1:1/", secret: hook}]}
`, dir)
	mustDo(t, errors.Join(err, f.Close()))

	cmd := exec.Command(filepath.Join(dir, "spy"), "-test.run=^TestCommandIsHardened$", "-test.v")
	cmd.Env, cmd.Dir = []string{spyVariable + "=" + dir, "TMPDIR=" + dir}, dir
	if os.Geteuid() == 0 { // root may read whatever it likes
		mustDo(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, 65534, 65534))
		}))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "the spy is done") {
		t.Errorf("%v\n%s", err, out)
	}
}

// spy starts processes with a credential in their environment, and tries to read it
// there.
func spy(t *testing.T, dir string) {
	serve := []string{filepath.Join(dir, "callgate"), "serve", "--config", filepath.Join(dir, "p/callgate.yaml")}
	if _, err := os.ReadFile(serve[0]); err != nil {
		t.Errorf("nobody would read the memory of a program whose file they cannot read: %v", err)
	}
	for _, tt := range []struct {
		argv []string
		hard bool
	}{{[]string{"/bin/sh", "-c", "echo serving; cat"}, false}, {serve, true}} {
		cmd := exec.Command(tt.argv[0], tt.argv[1:]...)
		cmd.Env = []string{"CALLGATE_SECRET_PLANTED=" + canaryEnvironment, "CALLGATE_DECIDE_TIMEOUT=1m", "TMPDIR=" + dir}
		var said bytes.Buffer
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		mustDo(t, err)
		out, err := cmd.StdoutPipe()
		mustDo(t, err)
		mustDo(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "serving") {
			t.Fatalf("%v says %q, %v: %s", tt.argv, line, err, said.String())
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
		if read := bytes.Contains(environ, []byte(canaryEnvironment)); read == tt.hard || (err != nil) != tt.hard {
			t.Errorf("%v: environment %.40q, %v", tt.argv, environ, err)
		}
		memory, err := memoryOf(cmd.Process.Pid)
		if read := bytes.Contains(memory, []byte(canaryEnvironment)); read == tt.hard || (err != nil) != tt.hard {
			t.Errorf("%v: %d bytes of memory, %v", tt.argv, len(memory), err)
		}
		in.Close()
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}
	verdict, err := os.ReadFile(filepath.Join(dir, "verdict"))
	mustDo(t, err)
	child, err := os.ReadFile(filepath.Join(dir, "child"))
	mustDo(t, err)
	if string(verdict) != "refused\n" || len(child) > 0 {
		t.Errorf("its child says %q and has %q", verdict, child)
	}
	fmt.Println("the spy is done")
}

// memoryOf is the stack of a process, where its environment is.
func memoryOf(pid int) ([]byte, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) { // 7ffc0000-7ffd0000 rw-p 00000000 00:00 0 [stack]
		if !strings.HasSuffix(line, "[stack]\n") {
			continue
		}
		from, rest, _ := strings.Cut(line, "-")
		to, _, _ := strings.Cut(rest, " ")
		begin, err := strconv.ParseInt(from, 16, 64)
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseInt(to, 16, 64)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.NewSectionReader(mem, begin, end-begin))
	}
	return nil, errors.New("it has no stack")
}
