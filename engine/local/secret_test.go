package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CALLGATE_SECRET_LISTED", "from the environment")
	t.Setenv("CALLGATE_SECRET_NOT_LISTED", "from there too")
	t.Setenv("CALLGATE_SECRET_FILE", "not from here")
	t.Setenv("CALLGATE_SECRET_TWO_WORDS", "of one alone")
	ofOthers := file("d", "canary")
	if err := errors.Join(os.Chmod(ofOthers, 0o640), os.Symlink("d", filepath.Join(dir, "l")), os.Symlink("a", filepath.Join(dir, "m"))); err != nil {
		t.Fatal(err)
	}
	find, err := secrets([]Secret{
		{Name: "of-others", File: ofOthers}, {Name: "link-to-it", File: filepath.Join(dir, "l")}, {Name: "link", File: filepath.Join(dir, "m")},
		{Name: "listed", Header: "X-Key"}, {Name: "unset"}, {Name: "two-words"}, {Name: "file", File: file("a", "from a file\n")},
		{Name: "crlf", File: file("b", "of\nlines\r\n")}, {Name: "missing", File: filepath.Join(dir, "none")},
		{Name: "directory", File: dir}, {Name: "pipe", File: pipe}, {Name: "large", File: file("c", strings.Repeat("x", maxSecretFile+1))},
	}, newCommands())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, want, header string }{
		{"listed", "from the environment", "X-Key"},
		{"not-listed", "from there too", ""},
		{"two-words", "of one alone", ""}, {"two_words", "", ""},
		{"file", "from a file", ""},
		{"crlf", "of\nlines", ""},
		{"unset", "", ""}, {"missing", "", ""}, {"directory", "", ""}, {"pipe", "", ""}, {"unheard-of", "", ""},
		{"large", "", ""},
		{"of-others", "", ""}, {"link-to-it", "", ""}, {"link", "from a file", ""},
	}
	for _, tt := range tests {
		s, err := find(tt.name)
		if s.Value != tt.want || s.Header != tt.header || (err == nil) != (tt.want != "") {
			t.Errorf("%s = %+v, %v", tt.name, s, err)
		}
	}
	if _, err := find("two_words"); !errors.Is(err, fs.ErrNotExist) { // which hostfx tells the caller
		t.Errorf("another's variable: %v", err)
	}
	if _, err := find("of-others"); err == nil || !strings.Contains(err.Error(), "mode is 0640, so others may have read it; want 0600") || strings.Contains(err.Error(), "canary") {
		t.Errorf("what others can read: %v", err)
	}
	file("a", "a new one") // is read anew
	if s, err := find("file"); s.Value != "a new one" || err != nil {
		t.Errorf("a file that was replaced: %+v, %v", s, err)
	}
	for _, list := range [][]Secret{{{Name: ""}}, {{Name: "Key_1"}}, {{Name: "a"}, {Name: "a"}}, {{Name: "a-b"}, {Name: "a_b"}},
		{{Name: "a", File: "/f", Command: []string{"/c"}}}, {{Name: "a", Command: []string{"c"}}}, {{Name: "a", Command: []string{""}}},
		{{Name: "a", Command: []string{"/b/../c"}}}, {{Name: "a", Command: []string{"/c", "x\x00"}}}} {
		if _, err := secrets(list, newCommands()); err == nil {
			t.Errorf("secrets(%v) succeeded", list)
		}
	}
}
