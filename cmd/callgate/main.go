// Command callgate is the gate as a program: it decides, records and runs tool
// calls, and checks the log of them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/callgate/callgate/hostfx"
	"github.com/callgate/callgate/sandbox"
)

func main() {
	sandbox.Main()
	hostfx.Main()
	if err := hostfx.Harden(); err != nil { // credentials may be in the environment
		fmt.Fprintln(os.Stderr, "callgate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
