//go:build !linux

package audit

import "os"

// dataFile is a segment; elsewhere than on Linux its Sync is the file's own.
type dataFile struct{ *os.File }
