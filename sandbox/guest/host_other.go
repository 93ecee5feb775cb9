//go:build !wasip1

package guest

import (
	"errors"
	"fmt"
)

// errNoHost is what effects are where no host gives any.
var errNoHost = fmt.Errorf("guest: no host outside of wasip1: %w", errors.ErrUnsupported)

func hostHTTP([]byte, *uint32) error     { return errNoHost }
func hostReadFile([]byte, *uint32) error { return errNoHost }
func hostList([]byte, *uint32) error     { return errNoHost }
func hostAnswer([]byte) error            { return errNoHost }
func hostLog([]byte) error               { return errNoHost }
