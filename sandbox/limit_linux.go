package sandbox

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfCommand is the program that runs, also when its file was replaced.
func selfCommand() (string, error) { return "/proc/self/exe", nil }

func limitAddresses(most uint64) error { return limit(unix.RLIMIT_AS, most) }

// attributes put a compile child in a group of its own, which ends with us.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onThread runs f on a thread that ends afterwards. A child is killed with the
// thread that started it, so that thread has to wait for it; and it inherits
// from it that no program it starts can gain privileges.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
