package hostfx

import "golang.org/x/sys/unix"

const filterArch = unix.AUDIT_ARCH_AARCH64

var refusedHere []uint32

var creatingHere []creator
