package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callgate/callgate/engine/keyfile"
)

type reader = func(string, int64) ([]byte, error)

func TestRead(t *testing.T) {
	readers := []struct {
		name string
		read reader
	}{{"secret", keyfile.Read}, {"key", keyfile.ReadKey}, {"trusted", keyfile.ReadTrusted}}
	file := func(mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			must(t, os.WriteFile(name, []byte("12345678"), 0o600))
			must(t, os.Chmod(name, mode)) // whatever the umask is
		}
	}
	tests := []struct {
		name string
		make func(*testing.T, string)
		says [3]string // of each reader; "" when it reads
	}{
		{"the owner's", file(0o600), [3]string{}},
		{"nobody writes it", file(0o400), [3]string{}},
		{"others read it", file(0o604), [3]string{"0604, so others may have read it", "0604, so others may have read it", ""}},
		{"the group reads it", file(0o640), [3]string{"others may have read it; want 0600", "others may have read it", ""}},
		{"others execute it", file(0o601), [3]string{"others may have read it", "others may have read it", ""}},
		{"others write it", file(0o602), [3]string{"others may have read it", "others may have read it", "0602, so others may have written it; want 0644"}},
		{"the group writes it", file(0o620), [3]string{"others may have read it", "others may have read it", "others may have written it"}},
		{"a byte more", func(t *testing.T, name string) { must(t, os.WriteFile(name, []byte("123456789"), 0o600)) },
			[3]string{"is larger than 8 bytes", "is larger than 8 bytes", "is larger than 8 bytes"}},
		{"empty", func(t *testing.T, name string) { must(t, os.WriteFile(name, nil, 0o600)) }, [3]string{}},
		{"a link", func(t *testing.T, name string) {
			file(0o600)(t, name+"-real")
			must(t, os.Symlink(name+"-real", name))
		}, [3]string{"", "too many levels", ""}},
		{"a link to what others read", func(t *testing.T, name string) {
			file(0o644)(t, name+"-real")
			must(t, os.Symlink(name+"-real", name))
		}, [3]string{"others may have read it", "too many levels", ""}},
		{"a pipe", func(t *testing.T, name string) { must(t, syscall.Mkfifo(name, 0o600)) },
			[3]string{"is not a regular file", "is not a regular file", "is not a regular file"}},
		{"a directory", func(t *testing.T, name string) { must(t, os.Mkdir(name, 0o700)) },
			[3]string{"is not a regular file", "is not a regular file", "is not a regular file"}},
		{"a device", func(t *testing.T, name string) { must(t, os.Symlink("/dev/null", name)) },
			[3]string{"is not a regular file", "too many levels", "is not a regular file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "f")
			tt.make(t, name)
			for i, r := range readers {
				b, err := r.read(name, 8)
				says := ""
				if err != nil {
					says = err.Error()
				}
				if (tt.says[i] == "") != (err == nil) || !strings.Contains(says, tt.says[i]) {
					t.Errorf("%s: %q, %v, want %q", r.name, b, err, tt.says[i])
				}
				if strings.Contains(says, "123") || err != nil && !strings.Contains(says, name) {
					t.Errorf("%s: %s", r.name, says)
				}
				if want := "12345678"; err == nil && string(b) != want && tt.name != "empty" {
					t.Errorf("%s: %q", r.name, b)
				}
			}
		})
	}
	if _, err := keyfile.Read(filepath.Join(t.TempDir(), "none"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// What belongs to another user, that one can change at any time, whatever its mode.
func TestOwner(t *testing.T) {
	name, self := filepath.Join(t.TempDir(), "f"), os.Geteuid()
	must(t, os.WriteFile(name, []byte("of mine"), 0o600))
	if b, err := keyfile.ReadAs(name, 8, self); err != nil || string(b) != "of mine" {
		t.Errorf("one's own: %q, %v", b, err)
	}
	other := self + 1
	if self == 0 { // what belongs to root is everybody's to believe
		if b, err := keyfile.ReadAs(name, 8, other); err != nil || string(b) != "of mine" {
			t.Errorf("root's: %q, %v", b, err)
		}
		must(t, os.Chown(name, other, -1))
		other = self
	}
	if b, err := keyfile.ReadAs(name, 8, other); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another's: %q, %v", b, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
