package call

import (
	"strings"
	"testing"
)

func TestPathFault(t *testing.T) {
	tests := []struct {
		path string
		ok   bool
	}{
		{".", true}, {"a", true}, {"a/b", true}, {"a b", true}, {"...", true}, {"ü", true}, {"%2f", true}, {"a;b", true},
		{"", false}, {"/", false}, {"/a", false}, {"a/", false}, {"a//b", false}, {"./a", false}, {"a/.", false},
		{"..", false}, {"a/../b", false}, {`a\b`, false}, {"a\x00b", false}, {"a\nb", false}, {"a\u0085b", false},
		{"a\xffb", false}, {strings.Repeat("a", maxPath+1), false},
	}
	for _, tt := range tests {
		if got := pathFault(tt.path); (got == "") != tt.ok {
			t.Errorf("pathFault(%.20q) = %q, ok is %v", tt.path, got, tt.ok)
		}
	}
}

func TestURLPathFault(t *testing.T) {
	tests := []struct {
		path       string
		ok, prefix bool
	}{
		{"/", true, true}, {"/a", true, true}, {"/a/b", true, true}, {"/a b", true, true}, {"/ü", true, true},
		{"/a/", true, false},
		{"", false, false}, {"a", false, false}, {"//", false, false}, {"//a", false, false}, {"/a//b", false, false},
		{"/a//", false, false}, {"/./a", false, false}, {"/..", false, false}, {"/a/../b", false, false}, {"/a/..", false, false},
		{"/a%2fb", false, false}, {"/a%2Fb", false, false}, {"/%2e%2e", false, false}, {"/a%20b", false, false},
		{"/a;b", false, false}, {"/a?b", false, false}, {"/a#b", false, false}, {`/a\b`, false, false},
		{"/a\x00", false, false}, {"/a\r\nb", false, false}, {"/\xff", false, false}, {"/" + strings.Repeat("a", maxPath), false, false},
	}
	for _, tt := range tests {
		if got := URLPathFault(tt.path); (got == "") != tt.ok {
			t.Errorf("URLPathFault(%.20q) = %q, ok is %v", tt.path, got, tt.ok)
		}
		if got := urlPrefixFault(tt.path); (got == "") != tt.prefix {
			t.Errorf("urlPrefixFault(%.20q) = %q, ok is %v", tt.path, got, tt.prefix)
		}
	}
}
