// Package compiler is a program that compiles modules for tests. It has no race
// detector, under which that takes ten times as long, and is a test itself, since what
// such a one compiles is taken by tests alone.
package compiler

import (
	"os"
	"testing"

	"github.com/callgate/callgate/sandbox"
)

func TestMain(*testing.M) {
	sandbox.Main()
	os.Exit(2)
}
