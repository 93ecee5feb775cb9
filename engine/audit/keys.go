package audit

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

const maxKeyBytes = 4096

func keyPath(dir string) string { return filepath.Join(dir, keysDir, "log.key") }
func pubPath(dir string) string { return filepath.Join(dir, keysDir, "log.pub") }

// makeKeys makes the key pair of a log that has no record. The private key comes
// last: a log that has it is complete.
func makeKeys(dir, origin string) error {
	if origin == "" {
		origin = "callgate.local/" + strings.ToLower(rand.Text()[:16])
	}
	private, public, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	if _, err := note.NewSigner(private); err != nil {
		return fmt.Errorf("audit: origin %q: not a key name: must not be empty or hold spaces or +", origin)
	}
	if err := makeFile(pubPath(dir), []byte(public+"\n")); err != nil {
		return err
	}
	return makeFile(keyPath(dir), []byte(private+"\n"))
}

// loadKeys reads the key pair and makes sure that it is one.
func loadKeys(dir, origin string) (note.Signer, note.Verifier, error) {
	private, err := readPrivate(keyPath(dir), maxKeyBytes)
	if err != nil {
		return nil, nil, err
	}
	signer, err := note.NewSigner(string(bytes.TrimSuffix(private, []byte("\n"))))
	if err != nil {
		return nil, nil, fmt.Errorf("audit: %s: not a signing key", keyPath(dir))
	}
	verifier, err := loadPub(dir)
	if err != nil {
		return nil, nil, err
	}
	sig, err := signer.Sign([]byte("probe"))
	if err != nil || signer.Name() != verifier.Name() || signer.KeyHash() != verifier.KeyHash() || !verifier.Verify([]byte("probe"), sig) {
		return nil, nil, fmt.Errorf("audit: %s is not the public half of log.key", pubPath(dir))
	}
	if origin != "" && origin != signer.Name() {
		return nil, nil, fmt.Errorf("audit: log in %s is %s, not %s", dir, signer.Name(), origin)
	}
	return signer, verifier, nil
}

func loadPub(dir string) (note.Verifier, error) {
	f, err := openRegular(pubPath(dir), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	public, err := readSmall(f, maxKeyBytes)
	if err != nil {
		return nil, err
	}
	return parsePub(string(public))
}

func parsePub(public string) (note.Verifier, error) {
	v, err := note.NewVerifier(strings.TrimSuffix(public, "\n"))
	if err != nil {
		return nil, errors.New("audit: not a verifier key of the form name+hash+key")
	}
	return v, nil
}

func missing(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
