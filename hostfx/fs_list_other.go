//go:build unix && !linux

package hostfx

import "os"

// nextPart reads the next entries, some hundreds, or io.EOF.
func nextPart(dir *os.File) (part []Entry, err error) {
	for len(part) == 0 {
		names, err := dir.Readdirnames(512)
		if err != nil {
			return nil, err
		}
		err = control(dir, func(fd int) error {
			for _, name := range names {
				if i, err := statAt(fd, name); err == nil { // else it is gone
					part = append(part, Entry{name: name, mode: i.Mode().Type(), ino: i.stat.Ino})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return part, nil
}
