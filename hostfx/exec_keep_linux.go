package hostfx

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// How often the keeper counts processes, and tries to end the last of them.
const (
	countEvery = 20 * time.Millisecond
	endEvery   = 2 * time.Millisecond
)

// execChild plays one of the processes between this program and a command.
func execChild(role string) int {
	// A command is confined with the thread that becomes it, and a child is killed
	// with the thread that started it.
	runtime.LockOSThread()
	if role == "keep" {
		e, err := keepCommand()
		if err != nil {
			e.Failed = err.Error()
		}
		b, err := json.Marshal(e)
		if err == nil {
			_, err = os.NewFile(fdReport, "").Write(b)
		}
		if err != nil {
			return 1
		}
		return 0
	}
	err := becomeCommand() // does not return when it goes well
	os.NewFile(fdReport, "").WriteString(err.Error())
	return 1
}

func readOrders() (o orders, err error) {
	b, err := io.ReadAll(io.NewSectionReader(os.NewFile(fdOrders, ""), 0, math.MaxInt32))
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

// keepCommand starts the process that becomes the command, and ends all that came
// of it when that ends or the owner says so, by closing its end of a pipe: so it does
// by dying, too.
//
// Processes that leave the command's group or session, or lose their parent, become
// this one's children. Nothing of a command outlives it.
func keepCommand() (ending, error) {
	if err := unix.CloseRange(fdOrders, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return ending{}, err
	}
	o, err := readOrders()
	if err != nil {
		return ending{}, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return ending{}, err
	}
	if _, err := os.ReadFile("/proc/thread-self/children"); err != nil {
		return ending{}, fmt.Errorf("what it starts cannot be found: %w", err)
	}
	fenced := false
	if o.ABI >= abiScope {
		if fenced, err = fenceSignals(); err != nil {
			return ending{}, err
		}
	}
	var why [2]int
	if err := unix.Pipe2(why[:], unix.O_CLOEXEC); err != nil {
		return ending{}, err
	}
	files := []uintptr{0, 1, 2, fdOrders, fdCommand, fdDir, uintptr(why[1]), uintptr(why[1])}
	for i := range o.Granted {
		files = append(files, uintptr(fdGranted+i))
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"callgate-exec", execWord, "become"}, &syscall.ProcAttr{
		Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return ending{}, err
	}
	unix.Close(why[1])
	e := watchCommand(pid, fenced)
	reason, err := io.ReadAll(io.LimitReader(os.NewFile(uintptr(why[0]), ""), 4<<10))
	if err == nil && len(reason) > 0 {
		err = errors.New(string(reason))
	}
	return e, err
}

// watchCommand waits until no process is left.
func watchCommand(pid int, fenced bool) (e ending) {
	told, ended, gone := make(chan struct{}), make(chan syscall.WaitStatus, 1), make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.NewFile(fdControl, ""))
		close(told)
	}()
	go func() {
		defer close(gone)
		for {
			var s syscall.WaitStatus
			p, err := syscall.Wait4(-1, &s, 0, nil)
			if err == syscall.ECHILD {
				return
			}
			if p == pid {
				ended <- s
			}
		}
	}()
	counting := time.NewTicker(countEvery)
	defer counting.Stop()
	for going := true; going; {
		select {
		case s := <-ended:
			if e.Exit = s.ExitStatus(); s.Signaled() {
				e.Exit, e.Signal = 0, int(s.Signal())
			}
			going = false
		case <-told:
			going = false
		case <-counting.C:
			if len(descendants(maxProcesses)) > maxProcesses {
				e.Crowd, going = true, false
			}
		}
	}
	ending := time.NewTicker(endEvery)
	defer ending.Stop()
	for {
		endAll(fenced)
		select {
		case <-gone:
			return e
		case <-ending.C:
		}
	}
}

// fenceSignals lets this thread, and what it starts, signal nothing but each other.
// It reports whether that holds, which it tries on the owner.
func fenceSignals() (bool, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return false, err
	}
	// Of links and moves between directories every ruleset must say that they are allowed.
	r, err := newRuleset(rulesetOf{signals: true, files: unix.LANDLOCK_ACCESS_FS_REFER})
	if err != nil {
		return false, err
	}
	if err := r.allowName("/", unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
		return false, err
	}
	if err := r.restrict(); err != nil {
		return false, err
	}
	owner := os.Getppid()
	return unix.Kill(owner, 0) == unix.EPERM && os.Getppid() == owner, nil
}

// endAll kills what came of the command. Behind a fence, a signal to everybody reaches
// these processes and no others, all in one step, in which none can start another.
// Without one it takes several.
func endAll(fenced bool) {
	if fenced {
		unix.Kill(-1, unix.SIGKILL)
		return
	}
	for _, p := range descendants(math.MaxInt) {
		p.kill()
	}
}

// descendant is a process that came of this one.
type descendant struct{ pid, parent int }

// kill kills it, and no process that has its number by now.
func (d descendant) kill() {
	fd, err := unix.PidfdOpen(d.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.pid)) // 7 (name) S 1 ...
	if err != nil {
		return
	}
	words := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	if len(words) < 2 {
		return
	}
	// One that lost its parent is this one's child.
	if parent, err := strconv.Atoi(words[1]); err == nil && (parent == d.parent || parent == os.Getpid()) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// descendants are the processes that came of this one: some more than enough if there are
// more than that.
func descendants(enough int) (all []descendant) {
	next := []int{os.Getpid()}
	for len(next) > 0 && len(all) <= enough {
		parent := next[0]
		next = next[1:]
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
		if err != nil {
			continue
		}
		for _, t := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, t.Name()))
			if err != nil {
				continue
			}
			for word := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(word); err == nil {
					all, next = append(all, descendant{child, parent}), append(next, child)
				}
			}
		}
	}
	return all
}
