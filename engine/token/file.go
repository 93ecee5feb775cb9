package token

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/callgate/callgate/engine/keyfile"
)

// readPrivate reads a small file in a directory that only its owner writes, if nobody
// else can read it: whoever can write a directory can put an old file back.
func readPrivate(dir, name string) ([]byte, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: mode is %#o, so others can exchange the keys; want 0700", dir, info.Mode().Perm())
	}
	return keyfile.ReadKey(filepath.Join(dir, name), maxSetBytes)
}
