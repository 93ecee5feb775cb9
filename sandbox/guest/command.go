package guest

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Command is a command to run.
type Command struct {
	Path  string   // absolute, as the grant has it
	Args  []string // without the command itself; never read by a shell
	Env   []string // of its environment, NAME=value, each as the grant has it
	Ports []int    // that it may connect to over TCP, each in the grant
	Dir   string   // where it runs: /<root>/<granted path>/x; "" for an empty directory of its own
	Stdin []byte   // all that it can read there
}

// Ran is what a command did that ended by itself, well or not.
type Ran struct {
	Exit           int    // its exit status; -1 when a signal ended it
	Signal         string // that ended it, such as "killed"; "" for none
	Stdout, Stderr []byte
}

// Run runs a command and waits for its end.
//
// # Errors
//
// [ErrEnded] for a command that was ended, [ErrTooLarge] for one that printed more than
// it may, of which nothing is returned, and another [Errno];
// [errors.ErrUnsupported] outside of a host.
func Run(c Command) (Ran, error) {
	req, err := encodeCommand(c)
	if err != nil {
		return Ran{}, err
	}
	b, err := ask(hostExec, req)
	if err != nil {
		return Ran{}, err
	}
	return decodeRan(b)
}

// States of a [Process].
const (
	StateRunning = "running"
	StateExited  = "exited"   // by itself, well or not
	StateStopped = "stopped"  // by [Kill], at the end of its life, or with too many processes
	StateOverCap = "over_cap" // stopped, since nobody read what it printed
	StateFailed  = "failed"   // it never began, or nobody knows what became of it
)

// Process is a command that was started. Exit and Signal are as in [Ran], once it exited.
type Process struct {
	State          string
	Exit           int
	Signal         string
	Stdout, Stderr []byte // printed since somebody last asked
}

// Start starts a command that goes on when the call is over, no longer than its session,
// and returns its id, by which later calls of the session find it. A call of no session
// gets [ErrNotGranted]. The other errors are those of [Run].
func Start(c Command) (id string, err error) {
	req, err := encodeCommand(c)
	if err != nil {
		return "", err
	}
	b, err := ask(hostStart, req)
	return string(b), err
}

// Output says how a started command is, and what it printed since somebody last asked. The
// error for one that the call may not know of is [ErrNotGranted].
func Output(id string) (Process, error) {
	b, err := ask(hostOutput, []byte(id))
	if err != nil {
		return Process{}, err
	}
	return decodeProcess(b)
}

// Kill ends a started command, and returns when nothing is left of it. What it printed
// can still be read. The errors are those of [Output].
func Kill(id string) error { return hostKill([]byte(id)) }

func encodeCommand(c Command) ([]byte, error) {
	h := head{b: make([]byte, 0, len(c.Path)+len(c.Stdin)+128)}
	h.text("path", c.Path)
	h.list("args", c.Args)
	if len(c.Env) > 0 {
		h.list("env", c.Env)
	}
	if len(c.Ports) > 0 {
		h.numbers("ports", c.Ports)
	}
	if c.Dir != "" {
		h.text("dir", c.Dir)
	}
	return h.with(c.Stdin)
}

func decodeRan(b []byte) (Ran, error) {
	p, exited, err := decodePrinted(b)
	if err != nil || !exited {
		return Ran{}, ErrFailed // no status is not the status 0
	}
	return Ran{p.Exit, p.Signal, p.Stdout, p.Stderr}, nil
}

func decodeProcess(b []byte) (Process, error) {
	p, exited, err := decodePrinted(b)
	if err != nil || p.State == "" || exited != (p.State == StateExited) {
		return Process{}, ErrFailed
	}
	return p, nil
}

// decodePrinted reads an answer with what a command printed, and says whether it has
// the status that it ended with.
func decodePrinted(b []byte) (p Process, exited bool, err error) {
	var stdout, stderr int64
	printed, err := answered(b, func(d *jsontext.Decoder, name string) (ok bool) {
		switch name {
		case "state":
			p.State, ok = text(d)
		case "exit":
			var n int64
			n, ok = number(d)
			p.Exit, exited = int(n), true
		case "signal":
			p.Signal, ok = text(d)
		case "stdout_bytes":
			stdout, ok = number(d)
		case "stderr_bytes":
			stderr, ok = number(d)
		default:
			ok = d.SkipValue() == nil
		}
		return ok
	})
	if err != nil || stdout < 0 || stderr < 0 || stdout > int64(len(printed)) || stderr != int64(len(printed))-stdout {
		return Process{}, false, ErrFailed
	}
	p.Stdout, p.Stderr = printed[:stdout:stdout], printed[stdout:]
	return p, exited, nil
}
