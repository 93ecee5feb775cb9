//go:build !wasip1

package guest

import (
	"errors"
	"fmt"
)

// errNoHost is what effects are where no host gives any.
var errNoHost = fmt.Errorf("guest: no host outside of wasip1: %w", errors.ErrUnsupported)

func hostHTTP([]byte, *uint32) error      { return errNoHost }
func hostReadFile([]byte, *uint32) error  { return errNoHost }
func hostList([]byte, *uint32) error      { return errNoHost }
func hostStat([]byte, *uint32) error      { return errNoHost }
func hostWriteFile([]byte, []byte) error  { return errNoHost }
func hostAppendFile([]byte, []byte) error { return errNoHost }
func hostMkdir([]byte) error              { return errNoHost }
func hostRemove([]byte) error             { return errNoHost }
func hostRename([]byte, []byte) error     { return errNoHost }
func hostExec([]byte, *uint32) error      { return errNoHost }
func hostStart([]byte, *uint32) error     { return errNoHost }
func hostOutput([]byte, *uint32) error    { return errNoHost }
func hostKill([]byte) error               { return errNoHost }
func hostPlan(*uint32) error              { return errNoHost }
func hostRegister([]byte) error           { return errNoHost }
func hostAdvance([]byte, []byte) error    { return errNoHost }
func hostReplan([]byte, []byte) error     { return errNoHost }
func hostCharge([]byte, int64) error      { return errNoHost }
func hostAnswer([]byte) error             { return errNoHost }
func hostLog([]byte) error                { return errNoHost }
