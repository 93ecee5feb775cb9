package sandbox

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/callgate/callgate/hostfx"
)

// A large directory is listed with looks at the clock in between, and as it is.
func TestListingLooksAtTheClock(t *testing.T) {
	files := fstest.MapFS{}
	for n := range 10 * maxSome {
		files[strconv.Itoa(n)+" \xff"] = &fstest.MapFile{}
	}
	files["folder/x"] = &fstest.MapFile{}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	b, err := listing(entries, 1<<20, func() { looks++ })
	if err != nil || looks < 10 {
		t.Errorf("%v, %d looks", err, looks)
	}
	if got := strings.Count(string(b), `"dir":false`); got != 10*maxSome {
		t.Errorf("%d files are listed", got)
	}
	if s := string(b); !strings.HasPrefix(s, "[{\"name\":\"0 \uFFFD\",\"dir\":false},{") || !strings.HasSuffix(s, `{"name":"folder","dir":true}]`) {
		t.Errorf("it begins %.60s and ends %s", s, s[len(s)-60:])
	}
	looks = 0
	if _, err := listing(entries, 1000, func() { looks++ }); !errors.Is(err, hostfx.ErrTooLarge) || looks != 1 {
		t.Errorf("with room for 1000 bytes: %v, %d looks", err, looks)
	}
	if b, err := listing(nil, 0, func() {}); string(b) != "[]" || err != nil {
		t.Errorf("of nothing: %s, %v", b, err)
	}
}
