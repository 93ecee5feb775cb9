package sandbox_test

import (
	"context"
	"fmt"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/sandbox"
	"github.com/callgate/callgate/sandbox/guests"
)

// A program that has sandboxes calls Main before anything else. The process that
// compiles is this program, started once more.
func ExampleMain() {
	sandbox.Main()

	ctx := context.Background()
	box, err := sandbox.New(ctx, sandbox.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close(ctx)
	module, err := guests.Module("echo")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(box.Install(ctx, call.Digest(module), module))
	fmt.Println(call.CodeOf(box.Install(ctx, call.Digest(nil), nil), ""))
	// Output:
	// <nil>
	// guest_unavailable
}
