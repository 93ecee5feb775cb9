package facts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

func TestParseArgv(t *testing.T) {
	tests := []struct {
		give []string
		want string
	}{
		{[]string{"git", "log", "a;b", "*", "$x", "~", ""}, "git_log_a;b_*_$x_~_"},
		{[]string{"sudo", "rm", "x y"}, "sudo: rm_x y >x y"},
		{[]string{"sh", "-c", "a | b $x"}, "sh: a\nsh: b_$x ?"},
		{[]string{"sh", "-c", "PATH=x; a"}, "sh:  ?\nsh: a ?"},
		{[]string{"echo", "a\nb\x1b"}, "echo_a\nb\x1b"},
		{[]string{"echo", "a\u200bb"}, "echo_a\u200bb ?"},
		{[]string{"/tmp/rm", "x"}, "/tmp/rm_x ?"},
	}
	for _, tt := range tests {
		got, err := facts.ParseArgv(tt.give)
		if err != nil || strings.Join(saidAll(got), "\n") != tt.want {
			t.Errorf("%q: %q, %v", tt.give, saidAll(got), err)
		}
	}
	for want, argv := range map[string][]string{
		"names no program":       {"", "canary"},
		"that is not text":       {"a", "canary\x00"},
		"a word that is not":     {"\xff"},
		"is too long":            {"a", strings.Repeat("x", facts.MaxShellBytes)},
		"cannot be read":         {"sh", "-c", "canary '"},
		"has a control":          {"sh", "-c", "canary \x1b"},
		"the command names no p": nil,
	} {
		if _, err := facts.ParseArgv(argv); call.CodeOf(err, "") != call.CodeFactsUnparsable || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
