package hostfx

import "golang.org/x/sys/unix"

const filterArch = unix.AUDIT_ARCH_X86_64

// refusedHere are calls that newer architectures go without.
var refusedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
	unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS__SYSCTL, unix.SYS_LINK,
}

var creatingHere = []creator{{unix.SYS_OPEN, 1, 2}, {unix.SYS_CREAT, -1, 1}, {unix.SYS_MKNOD, -1, 1}}
