//go:build !linux && !darwin

package source

import "io/fs"

// changed says nothing here: the time of modification has to do.
func changed(fs.FileInfo) int64 { return 0 }
