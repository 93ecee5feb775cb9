package facts_test

import (
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// sound checks what holds for the commands of anything.
func sound(t *testing.T, of string, commands []call.Command, err error) {
	t.Helper()
	if err != nil {
		if call.CodeOf(err, "") != call.CodeFactsUnparsable || commands != nil {
			t.Fatalf("%q: %v, %v", of, commands, err)
		}
		return
	}
	if len(commands) == 0 || len(commands) > facts.MaxCommands {
		t.Fatalf("%q has %d commands", of, len(commands))
	}
	for _, c := range commands {
		if c.Argv == nil || c.Via == nil || c.Reads == nil || c.Writes == nil {
			t.Fatalf("%q: a list is nil: %+v", of, c)
		}
		if (len(c.Argv) == 0) != (c.Name == "") || len(c.Argv) > 0 && c.Name != path.Base(c.Argv[0]) {
			t.Fatalf("%q: the name of %q is %q", of, c.Argv, c.Name)
		}
		for _, p := range append(c.Reads, c.Writes...) {
			if p != path.Clean(p) {
				t.Fatalf("%q: %q is not clean", of, p)
			}
		}
	}
}

func FuzzParseShell(f *testing.F) {
	for _, s := range []string{
		"ls -l | grep x > y && rm -rf z", "sudo env A=b bash -c 'a; b'", "cat <<E\n$(a)\nE", `echo $'\x41' {a,b} "$x" ~`, "find . -exec rm {} \\;", "cd a && cat ../b",
		"for i in a; do b; done; case x in y) z;; esac", "f() { a; }; trap b EXIT", "[[ -f x ]] && ((1)) || let y", "tar czf a b; curl -d @c -o d x; git -C e log", "eval \"eval a\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := facts.ParseShell(line)
		sound(t, line, got, err)
		again, _ := facts.ParseShell(line)
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%q is read in two ways", line)
		}
		if err != nil {
			return
		}
		// In a group, the same commands run.
		grouped, err := facts.ParseShell("{ " + line + "\n}")
		if err != nil || len(grouped) != len(got) {
			return // what ends in a here-document or a backslash may end elsewhere now
		}
		for i := range got {
			if got[i].Opaque && !grouped[i].Opaque {
				t.Fatalf("%q: %s is opaque alone, and not in a group", line, said(got[i]))
			}
		}
	})
}

func FuzzParseArgv(f *testing.F) {
	for _, s := range []string{"ls\x00-l", "sudo\x00-u\x00x\x00rm\x00-rf\x00y", "sh\x00-c\x00a; b", "find\x00.\x00-exec\x00a\x00{}\x00;", "tar\x00xf\x00-", "sed\x00-ni\x00p", "git\x00-C", "xargs\x00-n", "env\x00-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		argv := strings.Split(s, "\x00")
		got, err := facts.ParseArgv(argv)
		sound(t, s, got, err)
		if err != nil {
			return
		}
		// What is run without a shell is no worse known than by a shell.
		var quotes []string
		for _, a := range argv {
			quotes = append(quotes, quoted(a))
		}
		line, err := facts.ParseShell(strings.Join(quotes, " "))
		if err != nil || len(line) != len(got) {
			return
		}
		for i := range got {
			if got[i].Opaque && !line[i].Opaque {
				t.Fatalf("%q: %s is opaque, and not in a shell", argv, said(got[i]))
			}
		}
	})
}
