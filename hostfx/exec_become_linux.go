package hostfx

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeCommand gives up all that the command must not have, and then executes it. What
// cannot be given up ends it.
func becomeCommand() error {
	o, err := readOrders()
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"end with the keeper", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"descriptors", func() error { return closeOnExec(o.Script) }},
		{"the directory", func() error { return unix.Fchdir(fdDir) }},
		{"privileges", dropPrivileges},
		{"files", o.confineFiles},
		{"limits", o.limit},
		{"system calls", o.confineCalls},
	}
	// When memory is short, it is the first to go, and not what keeps it. Nothing else
	// depends on that.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	err = syscall.Exec("/proc/self/fd/"+strconv.Itoa(fdCommand), o.Argv, o.Env)
	return fmt.Errorf("execute: %w", err)
}

// closeOnExec leaves the command stdin, stdout and stderr, and the descriptor of a script
// to the interpreter that has to read it.
func closeOnExec(script bool) error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if script {
		_, err := unix.FcntlInt(fdCommand, unix.F_SETFD, 0)
		return err
	}
	return nil
}

// dropPrivileges gives up the capabilities, which root has, and any way to get some.
func dropPrivileges() error {
	for c := uintptr(0); c < 64; c++ {
		// The first that the kernel does not know is EINVAL; who has none may drop none.
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			break
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

func (o orders) limit() error {
	limits := []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_CPU, o.CPU}, {unix.RLIMIT_FSIZE, o.Size}, {unix.RLIMIT_NPROC, everybody() + 2*maxProcesses},
		{unix.RLIMIT_MEMLOCK, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_DATA, o.Data}, {unix.RLIMIT_NOFILE, maxExecFiles},
	}
	for _, l := range limits {
		if l.resource == unix.RLIMIT_DATA && l.most == 0 {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return err
		}
		most := min(l.most, now.Max)
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// everybody is how many threads the machine has at the moment, at most 1,024. The limit
// of processes counts all of the user's, which are seldom more. It is no limit for root.
func everybody() uint64 {
	const most = 1024
	text, err := os.ReadFile("/proc/loadavg") // 0.00 0.01 0.05 1/80 4711
	if words := strings.Fields(string(text)); err == nil && len(words) > 3 {
		_, all, _ := strings.Cut(words[3], "/")
		if n, err := strconv.ParseUint(all, 10, 32); err == nil {
			return min(n, most)
		}
	}
	return most
}
