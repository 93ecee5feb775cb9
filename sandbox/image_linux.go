package sandbox

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageMask = os.Getpagesize() - 1

// backing is a sealed file in memory: nobody can write to it, whoever holds it. fd
// is -1 where none can be had, and then the image is copied.
type backing struct{ fd int }

func makeImage(size int, fill func([]byte)) *image {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("callgate-image", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("callgate-image", flags)
	}
	if err != nil {
		return copiedImage(size, fill)
	}
	i, err := sealed(fd, size, fill)
	if err != nil {
		_ = unix.Close(fd)
		return copiedImage(size, fill)
	}
	// An image lives for as long as an instance may be made of it.
	runtime.AddCleanup(i, func(m mapping) {
		_ = unix.Munmap(m.b)
		_ = unix.Close(m.fd)
	}, mapping{i.content, fd})
	return i
}

type mapping struct {
	b  []byte
	fd int
}

func sealed(fd, size int, fill func([]byte)) (*image, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	fill(b)
	// Nothing may be mapped for writing when the seal is set.
	if err := unix.Munmap(b); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	b, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &image{b, backing{fd}}, nil
}

func copiedImage(size int, fill func([]byte)) *image {
	i := &image{make([]byte, size), backing{-1}}
	fill(i.content)
	return i
}

// place puts the image at the start of space: pages of it that are written to
// are copied first.
func (i *image) place(space []byte) error {
	if i.copied() {
		copy(space, i.content)
		return nil
	}
	_, err := unix.MmapPtr(i.fd, 0, unsafe.Pointer(&space[0]), uintptr(len(i.content)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// copied tells that memory has a copy of the image, and not the image itself.
func (i *image) copied() bool { return i != nil && i.fd < 0 }

// The ioctl PAGEMAP_SCAN, of Linux 6.7. See include/uapi/linux/fs.h.
const (
	pagemapScan = 0xc0606610

	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsZero    = 1 << 5
)

type pageRegion struct{ start, end, _ uint64 } // and what they are, which was asked for

type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages         uint64
	categoryInverted, categoryMask, categoryAnyofMask, returnedMask uint64
}

// pagemap is the process's own, or -1 where it cannot be had.
var pagemap = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// written calls do for each run of pages in b that were written to: those that
// are there, or swapped out, and are neither the image's nor the page of zeroes.
// It reports false where the system cannot tell.
func written(b []byte, do func(from, to int)) bool {
	fd := pagemap()
	if fd < 0 || len(b) == 0 {
		return fd >= 0
	}
	var regions [64]pageRegion
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&regions)
	base := uint64(uintptr(unsafe.Pointer(&b[0])))
	arg := scanArg{
		start: base, end: base + uint64(len(b)),
		vec: uint64(uintptr(unsafe.Pointer(&regions))), vecLen: uint64(len(regions)),
		categoryInverted: pageIsFile | pageIsZero, categoryMask: pageIsFile | pageIsZero,
		categoryAnyofMask: pageIsPresent | pageIsSwapped, returnedMask: pageIsPresent,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	for arg.start < arg.end {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pagemapScan, uintptr(unsafe.Pointer(&arg)))
		if errno != 0 || arg.walkEnd <= arg.start {
			return false
		}
		for _, r := range regions[:n] {
			do(int(r.start-base), int(r.end-base))
		}
		arg.start = arg.walkEnd
	}
	return true
}

// cheapReset tells that memory costs less to make as new than to make.
const cheapReset = true

// forget gives b's pages back, so that it is what it was when it was mapped.
func forget(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.Madvise(b, unix.MADV_DONTNEED)
}
