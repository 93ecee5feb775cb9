package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// commandWitness asks a program.
type commandWitness struct {
	identity
	argv []string
}

// commandEnv are the variables that a command gets. Credentials may be in others.
var commandEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SSH_AUTH_SOCK"}

// CommandWitness is a witness behind a command, such as ssh to another machine. Each
// update runs it once, without a shell: what an HTTP witness gets in the body is on its
// standard input; on its standard output it writes the status in decimal, a line break,
// and the body of the answer. It must end with exit code 0, whatever the status.
//
// [AnswerCommand] is the other side.
func CommandWitness(name string, argv []string, key string) (Witness, error) {
	id, err := newIdentity(name, key)
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, fmt.Errorf("audit: witness %s: its command is empty", name)
	}
	return &commandWitness{id, argv}, nil
}

// Update runs the command once.
func (w *commandWitness) Update(ctx context.Context, old int64, checkpoint []byte, proof [][32]byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.argv[0], w.argv[1:]...)
	cmd.Env = []string{}
	for _, name := range commandEnv {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out := &bounded{most: maxAnswer + 16, over: cancel}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(request(old, checkpoint, proof)), out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // and all that it started
	cmd.WaitDelay = time.Second                                                    // for pipes that somebody else holds, too
	err := cmd.Run()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left behind, or each update would leave more
	}
	switch {
	case out.full:
		return nil, fmt.Errorf("audit: the witness's answer is larger than %d bytes", maxAnswer)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("audit: the witness's command: %w", ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("audit: the witness's command: %w", err)
	}
	line, body, ok := bytes.Cut(out.kept, []byte("\n"))
	status, err := strconv.Atoi(string(line))
	if !ok || err != nil || len(line) != 3 || status < 100 {
		return nil, errors.New("audit: the witness's command did not answer with a status")
	}
	return answered(status, sizeType, body)
}

// bounded keeps what is written up to a bound.
type bounded struct {
	most int
	kept []byte
	full bool
	over func() // once there is more
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > b.most {
		b.full = true
		b.over()
		return 0, errors.New("audit: too much output")
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

// AnswerCommand is what the command of a [CommandWitness] does: it reads one request,
// shows it to w and writes the answer.
func AnswerCommand(ctx context.Context, w Witness, in io.Reader, out io.Writer) error {
	b, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return err
	}
	status, body := http.StatusBadRequest, []byte(nil)
	if old, checkpoint, proof, err := parseRequest(b); err == nil {
		status = http.StatusOK
		body, err = w.Update(ctx, old, checkpoint, proof)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			status = refused.Status
			if refused.Size >= 0 {
				body = fmt.Appendf(nil, "%d\n", refused.Size)
			}
		} else if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%03d\n%s", status, body)
	return err
}
