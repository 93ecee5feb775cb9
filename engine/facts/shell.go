package facts

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/callgate/callgate/engine/call"
)

// Limits of shell lines and argument vectors. What is over them is refused.
const (
	MaxShellBytes = 64 << 10
	MaxCommands   = 256
	maxBrackets   = 128 // open at one place, within quotes too
	maxWithin     = 8   // code within code: sh -c 'sh -c ...'
	maxVia        = 16
)

// ParseShell reads what a POSIX shell or bash is given to run and returns every
// command that it could run, in the order of the text: all parts of pipelines and
// lists, both branches of conditions, the bodies of loops and functions, what is
// substituted into words, redirections, here-documents and arithmetic, what
// programs such as sudo and xargs run in turn, and the code that shells and eval
// are handed as a word. There is at least one.
//
// Argv holds the words as the program gets them, unless Opaque. Name is the last
// segment of the first; it is "" for an assignment or redirection by itself. Via
// names the programs that the command is run by, outermost first.
//
// Reads and Writes are the paths that the command is known to use, of its
// redirections and of the arguments of well-known programs: cleaned, and relative
// to where the line starts. Among them are what a link leads to, names that a program
// makes up itself (a.gz, a.bak, a.out) and, for git, files that its arguments name and
// the directory where it changes a work tree, though not its repository. A directory
// stands for all below it. For another program they are empty, which says that nothing
// is known and not that nothing is touched.
//
// # Opaque
//
// A command is opaque when it may do something else than run Argv: a word holds an
// expansion (parameter, command, arithmetic, pattern, tilde, brace, history), in
// which case Argv has its source; a shell or interpreter takes its code from a file,
// the input or an argument that is not parsed; arguments are a command for another
// machine or container; a file lists the ones that are read; a variable is set that programs or the shell obey; the
// directory is not known. All commands of a line are when bash and POSIX sh read it
// differently, or a here-document or comment of it, when it changes what names mean (alias, enable, functions that change
// the directory), or when it has characters that do not show.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable] for a line that is not one, that runs
// nothing, that has control characters or characters that turn around text, or that
// is over the limits above. Its Detail says what is wrong and holds nothing of the
// line.
func ParseShell(line string) ([]call.Command, error) {
	if fault := shellTextFault(line); fault != "" {
		return refuseShell(fault)
	}
	bash, fault := readShell(line, syntax.LangBash)
	if fault == "" && len(bash) == 0 {
		fault = "runs nothing"
	}
	if fault != "" {
		return refuseShell(fault)
	}
	posix, posixFault := readShell(line, syntax.LangPOSIX)
	if posixFault != "" || !reflect.DeepEqual(bash, posix) {
		for _, c := range posix {
			if !slices.ContainsFunc(bash, func(b call.Command) bool { return reflect.DeepEqual(b, c) }) {
				bash = append(bash, c)
			}
		}
		obscure(bash)
	}
	if strings.ContainsFunc(line, unshown) {
		obscure(bash)
	}
	if len(bash) > MaxCommands {
		return refuseShell("has too many commands")
	}
	return bash, nil
}

// ParseArgv reads an argument vector that is run as it stands, without a shell, and
// returns its command, or those that the programs in it run in turn, as
// [ParseShell] does.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable] for a vector that is empty, names no
// program, has a NUL or text that is not UTF-8, or is over the limits.
func ParseArgv(argv []string) ([]call.Command, error) {
	size := 0
	words := make([]word, len(argv))
	odd := false
	for i, a := range argv {
		size += len(a) + 1
		if !utf8.ValidString(a) || strings.ContainsRune(a, 0) {
			return refuseShell("has a word that is not text")
		}
		odd = odd || strings.ContainsFunc(a, unshown) || strings.ContainsFunc(a, turning)
		words[i] = word{a, true}
	}
	switch {
	case size > MaxShellBytes:
		return refuseShell("is too long")
	case len(argv) == 0 || argv[0] == "":
		return refuseShell("names no program")
	}
	res := &reading{}
	r := reader{lang: syntax.LangBash, res: res}
	r.run(simple{words: words, at: here})
	if res.fault != "" {
		return refuseShell(res.fault)
	}
	if odd || res.opaque() {
		obscure(res.commands)
	}
	return res.commands, nil
}

func refuseShell(fault string) ([]call.Command, error) {
	return nil, &call.Error{Code: call.CodeFactsUnparsable, Detail: "the command " + fault}
}

func obscure(commands []call.Command) {
	for i := range commands {
		commands[i].Opaque = true
	}
}

func shellTextFault(line string) string {
	switch {
	case len(line) > MaxShellBytes:
		return "is too long"
	case !utf8.ValidString(line):
		return "is not UTF-8"
	case strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "has a control character"
	case strings.ContainsFunc(line, turning):
		return "has characters that turn around text"
	case tooNested(line):
		return "has too many open brackets"
	}
	return ""
}

// turning reports whether r changes the direction of the text around it: whoever is
// asked to approve would read another command.
func turning(r rune) bool { return unicode.In(r, unicode.Bidi_Control) }

// unshown reports whether r shows as nothing or as a space without being the space
// that divides words.
func unshown(r rune) bool {
	return r != ' ' && unicode.In(r, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp) || r == '\u3164' || r == '\uffa0' || r == '\u2800'
}

// tooNested keeps from the parser what it would take long for.
func tooNested(line string) bool {
	open := 0
	for i := range len(line) {
		switch line[i] {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(open-1, 0)
		}
		if open > maxBrackets {
			return true
		}
	}
	return false
}

// reading is what is found in a line, with all the code within it.
type reading struct {
	commands []call.Command
	fault    string
	taken    bool // something changes what the rest means
	later    bool // something runs at another time than it stands: functions, traps
	moved    bool // the directory changes
}

func (r *reading) opaque() bool { return r.taken || r.later && r.moved }

// readShell returns the commands of a line in one language, or why there are none.
func readShell(line string, lang syntax.LangVariant) ([]call.Command, string) {
	res := &reading{}
	r := reader{lang: lang, res: res}
	r.code(line, here)
	if res.fault != "" {
		return nil, res.fault
	}
	if res.opaque() {
		obscure(res.commands)
	}
	return res.commands, ""
}

// parse never lets a fault of the parser out as a panic.
func parse(line string, lang syntax.LangVariant) (file *syntax.File, ok bool) {
	defer func() {
		if recover() != nil {
			file, ok = nil, false
		}
	}()
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(line), "")
	return file, err == nil
}
