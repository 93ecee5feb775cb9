//go:build amd64 || arm64

package hostfx

import "golang.org/x/sys/unix"

// newestCall is the last system call that was looked at for this filter. Later ones do
// not exist for a command, which programs that use them expect of older kernels.
const newestCall = unix.SYS_REMOVEXATTRAT

// refusedCalls are beyond what Landlock can refuse: other processes, kernel and machine;
// sockets and other ways past the file system; what changes the modes, owners, times and
// attributes of files that may not be written to, or not even opened; second names of
// files.
var refusedCalls = append([]uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PERSONALITY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, // memory that is no process's own, and runs
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_INOTIFY_ADD_WATCH,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_LINKAT,
}, refusedHere...)

// conditions refuse a call for one of its arguments, of which the lower half is looked
// at: the kernel takes these for 32 bits.
var conditions = []struct {
	call uint32
	arg  uint32
	test uint16 // of the argument with what follows
	with uint32
	then bool // refused when the test holds, and otherwise when it does not
}{
	{unix.SYS_CLONE, 0, unix.BPF_JSET, unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET, true},
	// Their own alone: the same user's other processes would let them.
	{unix.SYS_PRLIMIT64, 0, unix.BPF_JEQ, 0, false},
	{unix.SYS_SCHED_SETAFFINITY, 0, unix.BPF_JEQ, 0, false},
	{unix.SYS_SCHED_SETSCHEDULER, 0, unix.BPF_JEQ, 0, false},
	{unix.SYS_SCHED_SETPARAM, 0, unix.BPF_JEQ, 0, false},
	{unix.SYS_SCHED_SETATTR, 0, unix.BPF_JEQ, 0, false},
	// It makes all others wait who open a file that the command may only read.
	{unix.SYS_FCNTL, 1, unix.BPF_JEQ, unix.F_SETLEASE, true},
}

// creating calls say the modes of what they make, in an argument.
var creating = append([]creator{{unix.SYS_OPENAT, 2, 3}, {unix.SYS_MKNODAT, -1, 2}}, creatingHere...)

type creator struct {
	call  uint32
	flags int // the argument that says whether they make anything, -1 for always
	modes uint32
}

// setsID are the modes by which a program runs as its owner. A file that has them before
// anything is in it keeps them when somebody with root's privileges writes it.
const setsID = unix.S_ISUID | unix.S_ISGID

// makesFile are the flags with which opening makes one: O_TMPFILE without O_DIRECTORY.
const makesFile = unix.O_CREAT | (unix.O_TMPFILE &^ unix.O_DIRECTORY)

// refusedRequests of ioctl type into terminals.
var refusedRequests = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// fileRequests are the requests that commands may make of files besides those of
// requestKinds. Landlock looks at none, and file systems have some that change what is
// open for reading, or put a snapshot of all that they hold into a granted directory.
var fileRequests = []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FS_IOC_GETFLAGS, fsGetXattr, fiemap, blockSize}

// requestKinds are those of terminals and of all descriptors, and of sockets.
var requestKinds = []uint32{'T' << 8, 0x89 << 8}

// Requests of linux/fs.h that x/sys does not have.
const (
	fsGetXattr = 0x801c581f
	fiemap     = 0xc020660b
	blockSize  = 2
)

// Places in what a filter is shown: struct seccomp_data.
const (
	atCall = 0
	atArch = 4
	atArgs = 16
)

// networkCalls are refused: Landlock has no say in listening without an address, and only
// connecting is granted. Without ports they would give a pair of sockets a name.
var networkCalls = []uint32{unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4}

// sending calls have flags: one of them opens a connection, past Landlock.
var sending = []struct{ call, flags uint32 }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}}

// refusedOptions of TCP make something else of a connection than Landlock takes it for.
var refusedOptions = []uint32{unix.TCP_FASTOPEN, unix.TCP_FASTOPEN_CONNECT, unix.TCP_ULP, unix.TCP_REPAIR}

// socketType is what of socket's second argument is one, and not a flag.
const socketType = 0xf

// filterProgram is the filter, for commands with ports or without.
func filterProgram(ports bool) []unix.SockFilter {
	var p program
	p.load(atArch)
	p.unless(unix.BPF_JEQ, filterArch, unix.SECCOMP_RET_KILL_PROCESS)
	p.load(atCall)
	p.when(unix.BPF_JGT, newestCall, errno(unix.ENOSYS)) // and the calls of x32, which are above
	p.when(unix.BPF_JEQ, unix.SYS_CLONE3, errno(unix.ENOSYS))
	p.when(unix.BPF_JEQ, unix.SYS_OPENAT2, errno(unix.ENOSYS)) // its modes are where no filter looks
	for _, nr := range refusedCalls {
		p.when(unix.BPF_JEQ, nr, errno(unix.EPERM))
	}
	for _, nr := range networkCalls {
		p.when(unix.BPF_JEQ, nr, errno(unix.EPERM))
	}
	for _, c := range creating {
		p.block(c.call, func(p *program) {
			if c.flags >= 0 {
				p.load(atArgs + 8*uint32(c.flags))
				p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, makesFile, 0, 3)
			}
			p.load(atArgs + 8*c.modes)
			p.when(unix.BPF_JSET, setsID, errno(unix.EPERM))
		})
	}
	for _, c := range conditions {
		p.block(c.call, func(p *program) {
			p.load(atArgs + 8*c.arg)
			if c.then {
				p.when(c.test, c.with, errno(unix.EPERM))
			} else {
				p.unless(c.test, c.with, errno(unix.EPERM))
			}
		})
	}
	p.block(unix.SYS_SOCKETPAIR, func(p *program) {
		p.load(atArgs)
		p.unless(unix.BPF_JEQ, unix.AF_UNIX, errno(unix.EPERM))
		// One for datagrams could send to any other socket that has a name.
		p.load(atArgs + 8)
		p.mask(socketType)
		p.unlessAny(errno(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	})
	if ports {
		p.network()
	} else {
		p.when(unix.BPF_JEQ, unix.SYS_SOCKET, errno(unix.EPERM))
	}
	for _, nr := range []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		p.block(nr, func(p *program) { // of a process and not a user, and itself
			p.load(atArgs)
			p.when(unix.BPF_JGT, map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: 1}[nr], errno(unix.EPERM))
			p.load(atArgs + 8)
			p.unless(unix.BPF_JEQ, 0, errno(unix.EPERM))
		})
	}
	p.block(unix.SYS_IOCTL, func(p *program) {
		p.load(atArgs + 8)
		for _, request := range refusedRequests {
			p.when(unix.BPF_JEQ, request, errno(unix.EPERM))
		}
		for _, request := range fileRequests {
			p.when(unix.BPF_JEQ, request, unix.SECCOMP_RET_ALLOW)
		}
		p.mask(0xff00)
		p.unlessAny(errno(unix.EPERM), requestKinds...)
	})
	p.answer(unix.SECCOMP_RET_ALLOW)
	return p
}

// network leaves TCP, to connect with.
func (p *program) network() {
	p.block(unix.SYS_SOCKET, func(p *program) {
		p.load(atArgs)
		p.unlessAny(errno(unix.EPERM), unix.AF_INET, unix.AF_INET6)
		p.load(atArgs + 8)
		p.mask(socketType)
		p.unlessAny(errno(unix.EPERM), unix.SOCK_STREAM)
		p.load(atArgs + 16)
		p.unlessAny(errno(unix.EPERM), unix.IPPROTO_IP, unix.IPPROTO_TCP) // the first is the type's own; MPTCP and others pass Landlock by
	})
	for _, s := range sending {
		p.block(s.call, func(p *program) {
			p.load(atArgs + 8*s.flags)
			p.when(unix.BPF_JSET, unix.MSG_FASTOPEN, errno(unix.EPERM))
		})
	}
	p.block(unix.SYS_SETSOCKOPT, func(p *program) {
		var options program
		options.load(atArgs + 16)
		for _, o := range refusedOptions {
			options.when(unix.BPF_JEQ, o, errno(unix.EPERM))
		}
		p.load(atArgs + 8)
		p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.IPPROTO_TCP, 0, uint8(len(options)))
		*p = append(*p, options...)
	})
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// program is one for the kernel's packet filter, with one value at a time.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (p *program) load(at uint32)       { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (p *program) answer(answer uint32) { p.add(unix.BPF_RET|unix.BPF_K, answer, 0, 0) }

// when answers if the test of the loaded value holds.
func (p *program) when(test uint16, with, answer uint32) {
	p.add(unix.BPF_JMP|test|unix.BPF_K, with, 0, 1)
	p.answer(answer)
}

// unless answers if it does not.
func (p *program) unless(test uint16, with, answer uint32) {
	p.add(unix.BPF_JMP|test|unix.BPF_K, with, 1, 0)
	p.answer(answer)
}

// unlessAny answers if the loaded value is none of those.
func (p *program) unlessAny(answer uint32, values ...uint32) {
	for i, v := range values {
		p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, v, uint8(len(values)-i), 0)
	}
	p.answer(answer)
}

// mask leaves some bits of the loaded value.
func (p *program) mask(bits uint32) { p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, bits, 0, 0) }

// block is for one call, of which more is looked at, and allows what it does not
// refuse.
func (p *program) block(nr uint32, do func(p *program)) {
	var inner program
	do(&inner)
	inner.answer(unix.SECCOMP_RET_ALLOW)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, uint8(len(inner)))
	*p = append(*p, inner...)
}
