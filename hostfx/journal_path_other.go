//go:build unix && !linux

package hostfx

import (
	"errors"
	"os"
)

func nameOf(*os.File) (string, error) { return "", errors.ErrUnsupported }
