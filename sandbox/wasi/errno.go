package wasi

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/callgate/callgate/hostfx"
)

// errno is an error number of wasi_snapshot_preview1, the result of its
// functions.
type errno uint32

const (
	success     errno = 0
	acces       errno = 2
	again       errno = 6
	badf        errno = 8
	busy        errno = 10
	dquot       errno = 19
	exist       errno = 20
	fault       errno = 21
	fbig        errno = 22
	ilseq       errno = 25
	intr        errno = 27
	inval       errno = 28
	ioerr       errno = 29
	isdir       errno = 31
	loop        errno = 32
	mfile       errno = 33
	mlink       errno = 34
	nametoolong errno = 37
	nodev       errno = 43
	noent       errno = 44
	nospc       errno = 51
	nosys       errno = 52
	notdir      errno = 54
	notempty    errno = 55
	notsock     errno = 57
	notsup      errno = 58
	nxio        errno = 60
	overflow    errno = 61
	perm        errno = 63
	rofs        errno = 69
	spipe       errno = 70
	txtbsy      errno = 74
	xdev        errno = 75
	notcapable  errno = 76
)

// numbers are what a guest gets to know of the system's errors.
var numbers = map[syscall.Errno]errno{
	syscall.EACCES: acces, syscall.EAGAIN: again, syscall.EBADF: badf, syscall.EBUSY: busy, syscall.EDQUOT: dquot,
	syscall.EEXIST: exist, syscall.EFBIG: fbig, syscall.EILSEQ: ilseq, syscall.EINTR: intr, syscall.EINVAL: inval,
	syscall.EISDIR: isdir, syscall.ELOOP: loop, syscall.EMLINK: mlink, syscall.ENAMETOOLONG: nametoolong,
	syscall.ENODEV: nodev, syscall.ENOENT: noent, syscall.ENOSPC: nospc, syscall.ENOTDIR: notdir,
	syscall.ENOTEMPTY: notempty, syscall.ENOTSUP: notsup, syscall.ENXIO: nxio, syscall.EOVERFLOW: overflow,
	syscall.EPERM: perm, syscall.EROFS: rofs, syscall.ESPIPE: spipe, syscall.ETXTBSY: txtbsy, syscall.EXDEV: xdev,
}

// number is what a guest gets to know of an error.
func number(err error) errno {
	switch {
	case err == nil:
		return success
	case errors.Is(err, hostfx.ErrNotGranted):
		return acces
	case errors.Is(err, hostfx.ErrClosed), errors.Is(err, fs.ErrClosed):
		return badf
	case errors.Is(err, hostfx.ErrTooManyOpen):
		return mfile
	case errors.Is(err, hostfx.ErrQuota):
		return dquot
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		if n, known := numbers[e]; known {
			return n
		}
		return ioerr
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noent
	case errors.Is(err, fs.ErrExist):
		return exist
	case errors.Is(err, fs.ErrPermission):
		return acces
	case errors.Is(err, fs.ErrInvalid):
		return inval
	}
	return ioerr
}
