package facts_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// script is a text together with the argument vectors that are known to be in it.
type script struct {
	text string
	runs [][]string
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// spelled writes word as a shell may read it.
func spelled(t *rapid.T, word string) string {
	switch rapid.IntRange(0, 5).Draw(t, "spelling") {
	case 0:
		return quoted(word)
	case 1:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(word) + `"`
	case 2:
		var b strings.Builder
		for _, r := range word {
			if r == '\n' {
				b.WriteString("'\n'")
			} else {
				b.WriteString(`\` + string(r))
			}
		}
		if b.Len() == 0 {
			return "''"
		}
		return b.String()
	case 3:
		i := rapid.IntRange(0, len(word)).Draw(t, "at")
		for i < len(word) && word[i]&0xc0 == 0x80 {
			i++
		}
		return quoted(word[:i]) + "\\\n" + quoted(word[i:])
	default:
		if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789/.-,_=") == "" && word[0] != '=' {
			return word
		}
		return quoted(word)
	}
}

var (
	programs = []string{"yes1", "yes2", "no1", "no2"} // by how they end
	words    = []string{"a", "b c", "", "-x", "$x", "*", "it's", `"`, `\`, "a;b", "#", "~", "{a,b}", "é", "a\nb", "`", "&", "a=b", "$(yes1)", "a..b"}
)

// known draws scripts of POSIX sh in which every command is literal.
func known(t *rapid.T, depth int) script {
	kind := rapid.IntRange(0, 15).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	sub := func() script { return known(t, depth-1) }
	both := func(form func(a, b string) string) script {
		a, b := sub(), sub()
		return script{form(a.text, b.text), slices.Concat(a.runs, b.runs)}
	}
	one := func(before, after string) script {
		a := sub()
		return script{before + a.text + after, a.runs}
	}
	switch kind {
	case 1:
		return both(func(a, b string) string { return a + " | " + b })
	case 2:
		return both(func(a, b string) string { return a + " && " + b })
	case 3:
		return both(func(a, b string) string { return a + " || " + b })
	case 4:
		return both(func(a, b string) string { return a + "\n" + b })
	case 5:
		return one("( ", " )")
	case 6:
		return one("{ ", "; }")
	case 7:
		return both(func(a, b string) string { return "if no1; then " + a + "; else " + b + "; fi" })
	case 8:
		return one("for i in 1 2; do ", "; done")
	case 9:
		return both(func(a, b string) string { return "case x in y) " + a + ";; *) " + b + ";; esac" })
	case 10:
		return one("f() { ", "; }; f")
	case 11:
		return one("x=$( ", " )")
	case 12:
		if s := sub(); !strings.Contains(s.text, "\\\n") { // which is opaque there
			return script{"{ cat <<E\n$( " + s.text + " )\nE\n}", s.runs}
		}
	case 13:
		a := sub()
		return script{"eval " + quoted(a.text), a.runs}
	case 14:
		a := sub()
		return script{"sh -c " + quoted(a.text), a.runs}
	}
	argv := []string{rapid.SampledFrom(programs).Draw(t, "program")}
	argv = append(argv, rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "words")...)
	var texts []string
	for _, w := range argv {
		texts = append(texts, spelled(t, w))
	}
	wrap := rapid.SampledFrom([]string{"", "", "", "env ", "env LANG=C ", "LANG=C ", "command ", "nice -n 1 ", "timeout 10 "}).Draw(t, "wrap")
	after := rapid.SampledFrom([]string{"", "", " > f1", " 2>&1", " < /dev/null"}).Draw(t, "redirect")
	return script{wrap + strings.Join(texts, " ") + after, [][]string{argv}}
}

func has(commands []call.Command, argv []string) bool {
	return slices.ContainsFunc(commands, func(c call.Command) bool { return !c.Opaque && slices.Equal(c.Argv, argv) })
}

// Whatever is put into a script is found, word for word.
func TestShellFindsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := known(t, 4)
		got, err := facts.ParseShell(s.text)
		if call.CodeOf(err, "") == call.CodeFactsUnparsable && (strings.Contains(err.Error(), "too deep") || strings.Contains(err.Error(), "brackets")) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", s.text, err)
		}
		for _, argv := range s.runs {
			if !has(got, argv) {
				t.Fatalf("%s: no %q among %q", s.text, argv, saidAll(got))
			}
		}
	})
}

// stubs are programs that note how they were run.
type stubs struct{ dir string }

func newStubs(t *testing.T) stubs {
	t.Helper()
	s := stubs{dir: t.TempDir()}
	for _, name := range programs {
		end := "exit 0"
		if strings.HasPrefix(name, "no") {
			end = "exit 1"
		}
		text := "#!/bin/sh\nn=${0##*/}\nprintf '%s\\0' \"$n\" \"$@\" 'E N D' >>\"$CALLGATE_LOG\"\necho x y\n" + end + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bash", "sh", "env", "cat", "nice", "timeout", "xargs", "find"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err) // every Debian has it; without it nothing would be tested
		}
		if err := os.Symlink(real, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run returns the argument vectors of the stubs that shell ran for line.
func (s stubs) run(shell, line string) ([][]string, error) {
	// A log for this run alone: what it leaves in the background may still write.
	dir, err := os.MkdirTemp("", "callgate-shell-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	home, log := filepath.Join(dir, "home"), filepath.Join(dir, "log")
	if err := errors.Join(os.Mkdir(home, 0o700), os.WriteFile(log, nil, 0o600)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, shell), "-c", line+"\nwait\n")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + s.dir, "HOME=" + home, "CALLGATE_LOG=" + log, "x=yes2 z"}
	_ = cmd.Run() // a line may fail as it likes
	text, err := os.ReadFile(log)
	var runs [][]string
	var argv []string
	for w := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		if string(w) == "E N D" {
			runs, argv = append(runs, argv), nil
			continue
		}
		argv = append(argv, string(w))
	}
	return runs, err
}

// wild draws lines that are hard to read: expansions, wrappers, odd quoting, and
// often no shell at all.
func wild(t *rapid.T) string {
	pieces := []string{
		"yes1", "yes2", "no1", "no2", "yes1", "a", "'b c'", `"d $x"`, "$x", "${x}", "$(yes1 q)", "`yes2 r`", "\"$(no1 s)\"", "*", "~", "{yes1,yes2}", "{ ", "}",
		"$'yes\\x31'", "\\", "'", `"`, "\n", ";", "&&", "||", "|", "&", "|&", "( ", ")", "!", ">f1", "<f1", "2>&1", "&>f2", "<<<w", "<<E\nyes1 $(yes2 in)\nE\n", "<<'E'\n$(no1)\nE\n",
		"if", "then", "else", "fi", "for i in 1;", "do", "done", "case x in", "x)", ";;", "esac", "f() {", "function g {", "x=1", "x+=2", "LANG=C", "y=$(yes2)", "x=(yes1)",
		"env", "command", "nice", "xargs", "eval", "exec", "builtin", "sh -c", "bash -c", "'yes1; no2'", "\"yes1 \\$x\"", "timeout 5", "find . -exec", "{}", "\\;", "+", "time",
		"#", "[[", "]]", "[", "]", "((", "))", "$((1+1))", "\\\n", "coproc", "alias q=yes1", "q", "export", "local", "trap", "EXIT", "set -e", "yes\\1", "y''es1", "ye\\\ns2", ">(yes1)", "<(yes2)", "cd", ".", "..",
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 14).Draw(t, "pieces"), rapid.SampledFrom([]string{" ", " ", " ", ""}).Draw(t, "between"))
}

// changed draws a script of known commands with a few characters put in or left out.
func changed(t *rapid.T) string {
	text := known(t, 3).text
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		put := rapid.SampledFrom([]string{"", "'", `"`, `\`, ";", "|", "&", "(", ")", "<", ">", "$", "#", "{", "}", "\n", " ", "!", "*", "`", "=", "~", "[", "]", "<<", "$(", "$'", "$((", "\\\n"}).Draw(t, "put")
		text = text[:i] + put + text[i+rapid.IntRange(0, 1).Draw(t, "drop"):]
	}
	return text
}

// short draws a text of few pieces that mean something to a shell, most of them where
// a here-document begins or ends.
func short(t *rapid.T) string {
	pieces := []string{
		"yes1", "yes2 ", "no1", "cat ", "eval ", "x", " ", "\n", "\n", "\t", "\\\n", "\\", "<<E", "<<E\n", "<<-E\n", "<<'E'\n", "<<\\E\n", "<<\"E\"\n", "E", "E\n", "\nE\n", "\n\tE\n", "\nyes1\n", "\nyes2\nE\n",
		"$(", ")", "(", "`", "'", `"`, "$'", "${x", "${x#", "}", "{ ", "$((", "))", "$x", "#", " #", ";", "&", "&&", "|", "!", "=", "<", ">f", "if ", "then ", "fi", "case x in ", ";;", "esac", "y() ",
	}
	body := []string{"\\\n", "\\\nE\n", "\\\nE\nyes1\n", "E", "E\n", "E\n", "\n", "yes1\n", "yes2 ", "x", "\\", "\t", "$(yes1)", "E)", " E"}
	joined := func(pieces []string, most int) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, most).Draw(t, "pieces"), "")
	}
	if rapid.Bool().Draw(t, "within") {
		begin := rapid.SampledFrom([]string{"cat <<E\n", "cat <<E\n", "cat <<-E\n", "cat <<'E'\n", "y=$(cat <<E\n"}).Draw(t, "begin")
		return begin + joined(body, 6) + "\nE\n" + rapid.SampledFrom([]string{"", "yes2", ")"}).Draw(t, "end")
	}
	return joined(pieces, 9)
}

// What bash and sh really run is among the commands, or something is opaque.
func TestShellsRunWhatIsFound(t *testing.T) {
	s := newStubs(t)
	ran, refused := 0, 0
	check := func(t rapid.TB, line string, must bool) {
		got, err := facts.ParseShell(line)
		if err != nil {
			refused++
			return
		}
		if !must && slices.ContainsFunc(got, func(c call.Command) bool { return c.Opaque }) {
			return // whatever it runs
		}
		for _, shell := range []string{"bash", "sh"} {
			runs, err := s.run(shell, line)
			if err != nil {
				t.Fatal(err)
			}
			for _, argv := range runs {
				ran++
				if !has(got, argv) {
					t.Fatalf("%s ran %q of\n%s\nwhich is not among %q", shell, argv, line, saidAll(got))
				}
			}
		}
	}
	t.Run("known", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { check(t, known(t, 3).text, true) })
	})
	t.Run("wild", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { check(t, wild(t), false) })
	})
	t.Run("changed", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { check(t, changed(t), false) })
	})
	t.Run("short", func(t *testing.T) {
		texts := rapid.Custom(short)
		for seed := range 300 { // the same ones each time
			check(t, texts.Example(seed), false)
		}
	})
	if ran < 50 || refused == 0 {
		t.Errorf("only %d commands ran, and %d lines were refused", ran, refused)
	}
}
