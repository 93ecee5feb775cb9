package guest

import (
	"io/fs"
	"strconv"
)

// Errno says why the host did not do what it was asked for. Test for one with
// [errors.Is]; [ErrNotFound] is also an [fs.ErrNotExist], [ErrNotGranted] an
// [fs.ErrPermission], [ErrMalformed] an [fs.ErrInvalid], [ErrClosed] an [fs.ErrClosed] and
// [ErrExists] an [fs.ErrExist].
type Errno uint32

// The error numbers of docs/guest-abi.md. There may be more one day.
const (
	ErrFault      Errno = 1  // a pointer leads out of the memory
	ErrMalformed  Errno = 2  // no such request can be made
	ErrNotGranted Errno = 3  // the grant of this call does not give it
	ErrNotFound   Errno = 4  // no such file or directory, or task
	ErrTooLarge   Errno = 5  // more bytes than the grant or the memory allows
	ErrFailed     Errno = 6  // the network, the other side or the disk
	ErrRedirect   Errno = 7  // the server sent us elsewhere, which is not followed
	ErrBusy       Errno = 8  // the call holds as many files as it may, or as many commands go on
	ErrClosed     Errno = 9  // the call is over
	ErrWithheld   Errno = 10 // the answer holds a credential
	ErrQuota      Errno = 11 // the call would write more than it may, or plan more than there may be
	ErrChanged    Errno = 12 // a file that the call depends on has changed
	ErrEnded      Errno = 13 // a command was ended before it was done
	ErrExists     Errno = 14 // something is there already
	ErrStatus     Errno = 15 // the task cannot become that now
)

var errnoTexts = [...]string{
	ErrFault: "bad pointer", ErrMalformed: "malformed request", ErrNotGranted: "not granted", ErrNotFound: "not found",
	ErrTooLarge: "too large", ErrFailed: "failed", ErrRedirect: "redirect", ErrBusy: "too many open files or commands",
	ErrClosed: "the call is over", ErrWithheld: "withheld",
	ErrQuota: "more than the call may write or plan", ErrChanged: "changed since the decision", ErrEnded: "the command was ended",
	ErrExists: "something is there already", ErrStatus: "the task cannot become that now",
}

func (e Errno) Error() string {
	if int64(e) < int64(len(errnoTexts)) && errnoTexts[e] != "" {
		return errnoTexts[e]
	}
	return "error " + strconv.FormatUint(uint64(e), 10) + " of the host"
}

// Is makes an Errno one of the errors of package fs.
func (e Errno) Is(target error) bool {
	switch e {
	case ErrNotFound:
		return target == fs.ErrNotExist
	case ErrNotGranted:
		return target == fs.ErrPermission
	case ErrMalformed:
		return target == fs.ErrInvalid
	case ErrClosed:
		return target == fs.ErrClosed
	case ErrExists:
		return target == fs.ErrExist
	default:
		return false
	}
}
