package hostfx

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of Landlock and seccomp, for which x/sys has no functions. What
// they set holds for the calling thread, what it starts and what it becomes.

// kernelConfines asks the kernel once what it can do.
var kernelConfines = sync.OnceValue(func() confinement {
	var c confinement
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 {
		c.abi = int(abi)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	c.filter = errno == 0 && len(filterProgram(false)) > 0
	return c
})

// rulesetOf says what a ruleset is about: what it is about and no rule allows is
// refused.
type rulesetOf struct {
	files   uint64
	network uint64
	signals bool
	sockets bool // abstract ones
}

type ruleset struct{ fd int }

func newRuleset(of rulesetOf) (ruleset, error) {
	a := unix.LandlockRulesetAttr{Handled_access_fs: of.files, Handled_access_net: of.network}
	if of.signals {
		a.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if of.sockets {
		a.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	size := uintptr(8) // what the first of them knows
	if a.Handled_access_net != 0 {
		size = 16
	}
	if a.Scoped != 0 {
		size = 24
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), size, 0)
	if errno != 0 {
		return ruleset{}, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	return ruleset{int(fd)}, nil
}

// allow allows what is beneath an open file.
func (r ruleset) allow(fd int, rights uint64) error {
	a := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&a)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

// allowPort allows what may be done to one port of TCP.
func (r ruleset) allowPort(port int, rights uint64) error {
	const netPort = 2 // LANDLOCK_RULE_NET_PORT of linux/landlock.h, which x/sys does not have
	a := struct{ rights, port uint64 }{rights, uint64(port)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), netPort, uintptr(unsafe.Pointer(&a)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

// restrict puts the ruleset into force, for good.
func (r ruleset) restrict() error {
	defer unix.Close(r.fd)
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}

// filterCalls puts a filter of system calls into force, for good.
func filterCalls(program []unix.SockFilter) error {
	if len(program) == 0 {
		return errors.New("no filter for this processor")
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// Harden keeps other processes of the same user from reading this one's memory and
// environment, and the kernel from writing either to a core file. Root can still.
// A program that holds credentials calls it first in main.
func Harden() error {
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
		os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)),
	)
}
