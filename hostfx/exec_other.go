//go:build !linux

package hostfx

import (
	"context"
	"errors"
)

const execHere = false

func kernelConfines() confinement { return confinement{} }

func execChild(string) int { return 1 }

func (x *execution) run(context.Context) (*Ran, error) {
	return nil, errors.New("commands run on Linux only")
}

// Harden keeps other processes of the same user from reading this one's memory and
// environment, where it is Linux.
func Harden() error { return nil }
