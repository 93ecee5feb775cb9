package sandbox

import (
	"bytes"
	"testing"
)

// An image of memory is that memory, and none when the run's time is over before it
// is made.
func TestMemoryIsCopiedInTime(t *testing.T) {
	m := &memory{space: make([]byte, 4<<20), size: 4 << 20}
	if img, holds := m.copy(func() bool { return false }); img != nil || holds != 0 {
		t.Errorf("an image of zeroes holds %d bytes", holds)
	}
	for _, at := range []int{0, 5000, 2<<20 + 4095, 3<<20 - 1} {
		m.space[at] = 1
	}
	img, holds := m.copy(func() bool { return false })
	if holds != 4*4096 || len(img.content) != 3<<20 || !bytes.Equal(img.content, m.space[:3<<20]) {
		t.Errorf("the image has %d bytes and holds %d", len(img.content), holds)
	}
	for most := range 4 {
		looks := 0
		if img, holds := m.copy(func() bool { looks++; return looks > most }); img != nil || holds >= 0 {
			t.Errorf("an image of %d bytes was made after the end, and looked %d times", len(img.bytes()), looks)
		}
	}
}
