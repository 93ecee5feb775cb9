//go:build !unix

package sandbox

import (
	"errors"
	"os"
	"syscall"
)

var errNoLimits = errors.New("processes cannot be limited here, so modules cannot be compiled")

func limitSelf(uint64) error { return errNoLimits }

func selfCommand() (string, error) { return os.Executable() }

func attributes() *syscall.SysProcAttr { return nil }

func onThread(func() error) error { return errNoLimits }

func killGroup(int) error { return nil }
