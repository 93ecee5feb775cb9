package hostfx

import "os"

// NewPortable is New with the resolver of systems without openat2.
func NewPortable(o Options) (*Host, error) { return newHost(o, false) }

// KernelResolves reports whether New resolves with openat2.
func KernelResolves() bool { return kernelResolves() }

// SetEntries sets how many entries a call may still make, and returns how many it was.
func SetEntries(fx *Effects, n int64) int64 {
	was := fx.quota.entries
	fx.quota.entries = n
	return was
}

// Break has the system refuse to change f: it is open for reading only.
func Break(f *File) {
	file, err := os.Open(os.DevNull)
	if err == nil {
		f.file.Close()
		f.file = file
	}
}

// OpenUnseen opens what was another file when it was looked at.
func OpenUnseen(f *Folder, rel string, o OpenOptions) error {
	file, err := f.openRegular(f.at, rel, o, false)
	if err == nil {
		file.Close()
	}
	return err
}
