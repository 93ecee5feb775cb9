package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/guests"
)

// The test binary plays programs that compile, well or badly, and ones that have
// sandboxes, when its first argument names one. A sandbox that has
// {its own name, role, argument} as its compiler adds two more.
var roles = map[string]func(arg string) int{
	"garbage": func(string) int { fmt.Println("this is no module"); return 0 },
	"silent":  func(string) int { return 0 },
	"flood": func(string) int {
		for b := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := os.Stdout.Write(b); err != nil {
				return 1
			}
		}
	},
	"complain": func(string) int { fmt.Fprintln(os.Stderr, "bad\x1b[31m news\nmore"); return 3 },
	"crash":    func(string) int { fmt.Fprintln(os.Stderr, "first line\nsecond"); return 2 },
	"killed":   func(string) int { unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"hang":     hang,
	"spin": func(string) int {
		if err := sandbox.LimitSelf(1); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		x := 1
		for x != 0 { // it is odd
			x = 3*x + 2
		}
		return 0
	},
	"hog":     hog,
	"look":    look,
	"waiter":  waiter,
	"install": install,
}

func TestMain(m *testing.M) {
	sandbox.Main()
	hostfx.Main()
	if len(os.Args) >= 3 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]](os.Args[2]))
	}
	os.Exit(m.Run())
}

// playing is a compiler that plays a role.
func playing(t testing.TB, role, arg string) []string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return []string{self, role, arg}
}

// hang holds a lock on a file for as long as it lives.
func hang(file string) int {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		_, err = f.WriteString("held")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	select {}
}

// hog wants more memory than it may have.
func hog(string) int {
	if err := sandbox.LimitSelf(60); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	var all [][]byte
	for range 1024 {
		all = append(all, make([]byte, 16<<20))
	}
	return len(all) % 2
}

// look says what a compile child finds in its world.
func look(string) int {
	err := sandbox.LimitSelf(7)
	var open []string
	for fd := 3; fd < 64; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			open = append(open, fmt.Sprint(fd))
		}
	}
	var cpu, core unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_CPU, &cpu)
	unix.Getrlimit(unix.RLIMIT_CORE, &core)
	in, _ := io.ReadAll(os.Stdin)
	fmt.Fprintf(os.Stderr, "error %v env %d open [%s] leads %v cpu %d/%d core %d module %v %s",
		err, len(os.Environ()), strings.Join(open, " "), unix.Getpgrp() == os.Getpid(), cpu.Cur, cpu.Max, core.Max, bytes.HasPrefix(in, []byte("\x00asm")), lookMore())
	return 3
}

// waiter is a program that has a module compiled which never is.
func waiter(file string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	box, err := sandbox.New(context.Background(), sandbox.Options{Compiler: []string{self, "hang", file}})
	if err != nil {
		return 1
	}
	b, err := guests.Module("echo")
	if err != nil {
		return 1
	}
	fmt.Println(box.Install(context.Background(), call.Digest(b), b))
	return 0
}

// install is a program that installs guests with the cache in dir.
func install(dir string) int {
	box, err := sandbox.New(context.Background(), sandbox.Options{CacheDir: dir, CacheKey: cacheKey})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer box.Close(context.Background())
	for _, name := range []string{"echo", "fib", "hog", "spin"} {
		b, err := guests.Module(name)
		if err == nil {
			err = box.Install(context.Background(), call.Digest(b), b)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// cacheKey is the key of caches that tests fill.
var cacheKey = bytes.Repeat([]byte("k"), 32)
