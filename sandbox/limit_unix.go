//go:build unix

package sandbox

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// limitSelf gives up all that compiling does not need. What cannot be given up
// is an error.
func limitSelf(cpuSeconds uint64) error {
	errs := []error{closeInherited(), limit(unix.RLIMIT_CPU, cpuSeconds), limit(unix.RLIMIT_CORE, 0), limit(unix.RLIMIT_NOFILE, 64)}
	if addressLimited {
		errs = append(errs, limitAddresses(compileAddress))
	}
	// The whole group, which this process leads: alone it would be this thread. It
	// fails for one that has less of a priority already.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, 5)
	return errors.Join(errs...)
}

// limit lowers a limit for good. At its hard limit of processor time the kernel
// kills; the soft one sends a signal that Go ignores.
func limit(resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	now.Max = lowered(now.Max, most)
	now.Cur = now.Max
	return unix.Setrlimit(resource, &now)
}

func lowered[T int64 | uint64](is T, most uint64) T {
	if uint64(is) > most {
		return T(most)
	}
	return is
}

// closeInherited closes descriptors that whoever started our parent left open
// for everybody. Go's own are closed on exec, and so are known.
func closeInherited() error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			if err := unix.Close(fd); err != nil {
				return err
			}
		}
	}
	return nil
}

// killGroup ends a compile child and whatever it started.
func killGroup(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }
