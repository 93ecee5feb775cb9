//go:build !linux

package hostfx

import (
	"context"
	"errors"
	"time"
)

const execHere = false

func kernelConfines() confinement { return confinement{} }

func execChild(string) int { return 1 }

type running struct{}

func (x *execution) begin(context.Context, *printed, time.Duration) (*running, error) {
	return nil, errors.New("commands run on Linux only")
}

func (r *running) wait() (*Ran, error) { return nil, errNotBegun }

// Harden keeps other processes of the same user from reading this one's memory and
// environment, where it is Linux.
func Harden() error { return nil }
