package state_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the table of what is promised when power, network, disk or clock fail names
// a test, and there is one of that name.
func TestOperatorsTableNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| what fails |")
	if !ok {
		t.Fatal("there is no table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	exist := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir(filepath.Join(root, "engine"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(source, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(table, "\n")[2:] // after the head
	if len(rows) < 10 {
		t.Errorf("the table has %d rows", len(rows))
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, row := range rows {
		tests := named.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("no test shows %q", row)
		}
		for _, m := range tests {
			if !exist[m[1]] {
				t.Errorf("%s is not there", m[1])
			}
		}
	}
}
