//go:build !unix

package sandbox

import "io/fs"

// ours cannot tell here, so there is no disk cache.
func ours(fs.FileInfo) bool { return false }
