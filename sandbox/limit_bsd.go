//go:build unix && !linux

package sandbox

import (
	"os"
	"syscall"
)

func selfCommand() (string, error) { return os.Executable() }

// limitAddresses does nothing: these systems refuse such a limit to a program
// that has reserved more, as Go's does, or ignore it.
func limitAddresses(uint64) error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func onThread(f func() error) error { return f() }
