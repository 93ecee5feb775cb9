//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

var pageMask = os.Getpagesize() - 1

// backing is nothing: the image is a copy.
type backing struct{}

func makeImage(size int, fill func([]byte)) *image { return copiedImage(size, fill) }

func copiedImage(size int, fill func([]byte)) *image {
	b := make([]byte, size)
	fill(b)
	return &image{content: b}
}

func (i *image) copied() bool { return true }

func (i *image) place(space []byte) error {
	copy(space, i.content)
	return nil
}

// written cannot tell.
func written([]byte, func(from, to int)) bool { return false }

// cheapReset tells that memory costs less to make as new than to make.
const cheapReset = false

// forget cannot promise that pages are zero afterwards.
func forget([]byte) error { return errors.ErrUnsupported }
