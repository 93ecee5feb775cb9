// Command probe is run by tests as a command: it does what its first argument says, or
// tries to, and prints what came of it. It is also a launcher, and starts faster than a test
// binary with the race detector.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/hostfx"
)

var acts = map[string]func(args []string) error{
	"args":   func(args []string) error { fmt.Printf("%q", args); return nil },
	"env":    func([]string) error { fmt.Printf("%q", os.Environ()); return nil },
	"count":  count,
	"look":   look,
	"exit":   func(args []string) error { os.Exit(number(args[0])); return nil },
	"die":    func([]string) error { return unix.Kill(os.Getpid(), unix.SIGKILL) },
	"flood":  flood,
	"hang":   func([]string) error { forever(); return nil },
	"linger": linger,
	"hold":   hold,
	"crowd":  crowd,
	"calls":  calls,
	"read":   func(args []string) error { _, err := os.ReadFile(args[0]); return err },
	"list":   func(args []string) error { _, err := os.ReadDir(args[0]); return err },
	"write":  func(args []string) error { return opened(args[0], os.O_WRONLY) },
	"empty":  func(args []string) error { return os.Truncate(args[0], 0) },
	"create": func(args []string) error { return opened(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL) },
	"mkdir":  func(args []string) error { return os.Mkdir(args[0], 0o755) },
	"remove": func(args []string) error { return os.Remove(args[0]) },
	"link":   func(args []string) error { return os.Link(args[0], args[1]) },
	"lease": func(args []string) error {
		return with(args[0], func(fd int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); return err })
	},
	"setid":   setID,
	"name":    name,
	"symlink": func(args []string) error { return os.Symlink("/etc", args[0]) },
	"fifo":    func(args []string) error { return unix.Mkfifo(args[0], 0o644) },
	"rename":  func(args []string) error { return os.Rename(args[0], args[1]) },
	"chmod":   func(args []string) error { return os.Chmod(args[0], 0o600) },
	"touch":   func(args []string) error { return os.Chtimes(args[0], time.Time{}, time.Unix(1, 0)) },
	"touchfd": touchFD,
	"chmodfd": chmodFD,
	"chattr":  chattr,
	"request": request,
	"big":     big,
	"start":   func(args []string) error { return exec.Command(args[0], args[1:]...).Run() },
	"tcp":     func(args []string) error { c, err := net.Dial("tcp", args[0]); return closed(c, err) },
	"listen":  listen,
	"udp":     func([]string) error { c, err := net.ListenPacket("udp", "127.0.0.1:0"); return closed(c, err) },
	"unix":    func(args []string) error { c, err := net.Dial("unix", args[0]); return closed(c, err) },
	"netlink": func([]string) error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
		unix.Close(fd)
		return err
	},
	"pair": func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	},
	"signal": func(args []string) error { return unix.Kill(number(args[0]), 0) },
	"ptrace": func(args []string) error { return unix.PtraceSeize(number(args[0])) },
	"limit": func(args []string) error {
		var l unix.Rlimit
		return unix.Prlimit(number(args[0]), unix.RLIMIT_CORE, nil, &l)
	},
	"nice": func(args []string) error { return unix.Setpriority(unix.PRIO_PROCESS, number(args[0]), 0) },
	"semaphore": func([]string) error {
		_, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, 1, 0o600)
		return number0(errno)
	},
	"userns": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"clone": func([]string) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		return cmd.Run()
	},
	"memory": memory,
	"dgram":  dgram,
	"socket": func(args []string) error {
		fd, err := unix.Socket(number(args[0]), number(args[1]), number(args[2]))
		unix.Close(fd)
		return err
	},
	"fastopen": fastOpen,
	"fastconnect": func([]string) error {
		return stream(func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1) })
	},
	"nodelay": func([]string) error {
		return stream(func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) })
	},
	"listenany": func([]string) error { return stream(func(fd int) error { return unix.Listen(fd, 1) }) },
	"bind": func([]string) error {
		return stream(func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{}) })
	},
}

func main() {
	hostfx.Main()
	if os.Args[1] == "each" {
		each(os.Args[2:])
		return
	}
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func do(args []string) error {
	act := acts[args[0]]
	if act == nil {
		panic("no act " + args[0])
	}
	return act(args[1:])
}

// each does one thing after the other, which two hyphens keep apart, and prints a line
// for each: why it did not go well, or nothing.
func each(args []string) {
	for len(args) > 0 {
		next := slices.Index(args, "--")
		if err := do(args[:next]); err != nil {
			fmt.Print(err)
		}
		fmt.Println()
		args = args[next+1:]
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func number0(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func opened(name string, flag int) error {
	f, err := os.OpenFile(name, flag, 0o644)
	return closed(f, err)
}

func closed(c io.Closer, err error) error {
	if err == nil {
		c.Close()
	}
	return err
}

// count says how much there is on stdin.
func count([]string) error {
	b, err := io.ReadAll(os.Stdin)
	fmt.Print(len(b))
	return err
}

// look says what it finds in its world.
func look([]string) error {
	var open []int
	for fd := range 1024 {
		// The runtime's own are closed on exec.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open = append(open, fd)
		}
	}
	fmt.Println("open", open)
	for _, l := range []struct {
		name     string
		resource int
	}{{"core", unix.RLIMIT_CORE}, {"files", unix.RLIMIT_NOFILE}, {"size", unix.RLIMIT_FSIZE}, {"memlock", unix.RLIMIT_MEMLOCK}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return err
		}
		fmt.Println(l.name, now.Max)
	}
	var cpu, procs unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_CPU, &cpu)
	unix.Getrlimit(unix.RLIMIT_NPROC, &procs)
	fmt.Println("bounded", cpu.Max < 1000, procs.Max < 1<<20)
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	fmt.Println("no new privileges", nnp, err)
	filter, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	fmt.Println("filter", filter, err)
	var caps [2]unix.CapUserData
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0])
	fmt.Println("capabilities", caps, err)
	sid, err := unix.Getsid(0)
	fmt.Println("leads its session", sid == os.Getpid(), err)
	wd, err := os.Getwd()
	fmt.Println("in", filepath.Base(wd), err)
	return nil
}

func flood([]string) error {
	for b := bytes.Repeat([]byte("x"), 64<<10); ; {
		if _, err := os.Stdout.Write(b); err != nil {
			return err
		}
	}
}

// linger leaves a process behind that is in another session and has lost its parent,
// and holds a FIFO open. It stays until somebody writes to the other FIFO.
func linger(args []string) error {
	if len(args) == 3 { // the one in between
		return begin("hold", args[0])
	}
	if err := begin("linger", args[0], args[1], "between"); err != nil {
		return err
	}
	_, err := os.ReadFile(args[1])
	return err
}

// begin starts this program again, in a session of its own, and does not wait for it.
func begin(args ...string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func hold(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, "held")
	forever()
	return nil
}

func forever() { time.Sleep(1 << 62) }

// crowd starts processes until it is stopped.
func crowd([]string) error {
	for {
		if err := exec.Command("/bin/sleep", "10000").Start(); err != nil {
			time.Sleep(time.Millisecond) // the limit of the user's
		}
	}
}

// calls makes calls by number and says what came of those that were not refused with
// EPERM.
func calls(args []string) error {
	var other []string
	for _, a := range args {
		_, _, errno := unix.RawSyscall6(uintptr(number(a)), 0, 0, 0, 0, 0, 0)
		if errno != unix.EPERM {
			other = append(other, fmt.Sprintf("%s:%d", a, errno))
		}
	}
	fmt.Print(strings.Join(other, " "))
	return nil
}

// listen uses plain TCP: Landlock has no say in multipath TCP, which Go would use.
func listen([]string) error {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	return closed(l, err)
}

// setID makes a file that has a mode by which a program runs as its owner, with the call
// that is asked for.
func setID(args []string) error {
	at, err := unix.BytePtrFromString(args[0])
	if err != nil {
		return err
	}
	p, here, flags := uintptr(unsafe.Pointer(at)), ^uintptr(99) /* AT_FDCWD */, uintptr(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	var errno syscall.Errno
	switch mode := uintptr(number(args[2])); args[1] {
	case "openat":
		_, _, errno = unix.Syscall6(unix.SYS_OPENAT, here, p, flags, mode, 0, 0)
	case "tmpfile":
		_, _, errno = unix.Syscall6(unix.SYS_OPENAT, here, p, unix.O_TMPFILE|unix.O_WRONLY, mode, 0, 0)
	case "mknodat":
		_, _, errno = unix.Syscall6(unix.SYS_MKNODAT, here, p, unix.S_IFREG|mode, 0, 0, 0)
	case "look":
		_, _, errno = unix.Syscall6(unix.SYS_OPENAT, here, p, unix.O_RDONLY, mode, 0, 0)
	}
	return number0(errno)
}

// name gives one of a pair of sockets a name.
func name(args []string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Bind(fds[0], &unix.SockaddrUnix{Name: args[0]})
}

func touchFD(args []string) error {
	return with(args[0], func(fd int) error {
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
		return number0(errno)
	})
}

func chmodFD(args []string) error {
	return with(args[0], func(fd int) error { return unix.Fchmod(fd, 0o644) })
}

func chattr(args []string) error {
	return with(args[0], func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40 /* no dumps */) })
}

// request makes one of a file with ioctl.
func request(args []string) error {
	return with(args[0], func(fd int) error {
		nr, err := strconv.ParseUint(args[1], 0, 32)
		if err != nil {
			return err
		}
		var answer [4096]byte
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(nr), uintptr(unsafe.Pointer(&answer)))
		return number0(errno)
	})
}

// with opens a file for reading.
func with(name string, do func(fd int) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

// big writes more than it may to a file.
func big(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(make([]byte, number(args[1])))
	return err
}

func memory(args []string) error {
	b := []byte{0}
	local := []unix.Iovec{{Base: &b[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: 1}}
	_, err := unix.ProcessVMReadv(number(args[0]), local, remote, 0)
	return err
}

// dgram sends to a socket with a name, from one of a pair.
func dgram(args []string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, number(args[1]), 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: args[0]})
}

// stream does something to a socket for TCP.
func stream(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// fastOpen connects to a port of this machine without the call that is for it.
func fastOpen(args []string) error {
	to := &unix.SockaddrInet4{Port: number(args[0]), Addr: [4]byte{127, 0, 0, 1}}
	return stream(func(fd int) error {
		if args[1] == "sendmsg" {
			return unix.Sendmsg(fd, []byte("x"), nil, to, unix.MSG_FASTOPEN)
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to)
	})
}
