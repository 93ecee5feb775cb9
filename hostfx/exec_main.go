package hostfx

import "os"

// execWord is the first argument of the processes between this one and a command, and
// their protocol's version. The second says which of the two it is.
const execWord = "callgate-hostfx-exec-1"

// Main makes it possible to run commands: code can only be confined by code that runs
// in the process which becomes it, so a program starts itself for that. A program
// that makes hosts calls it first in main, before it looks at its arguments; a test
// binary that does calls it first in TestMain. It returns at once, unless the process is one that a host started:
// then it does its part and ends the process.
//
// A program that cannot call it names another that does, such as callgate, in
// [Options.Launcher].
func Main() {
	mainCalled.Store(true)
	if len(os.Args) == 3 && os.Args[1] == execWord {
		os.Exit(execChild(os.Args[2]))
	}
}
