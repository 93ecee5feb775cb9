package facts

import (
	"slices"
	"strings"
)

// wrapper is a program that runs the command in its arguments.
type wrapper struct {
	options  grammar
	operands int  // before the command
	assigns  bool // NAME=value may stand before the command
	more     bool // the command gets arguments that are not in the line
	digits   bool // -10 is an option
	itself   bool // does something without a command too
	shell    bool // the command is a line for a shell
}

var wrappers = map[string]wrapper{
	"env":        {options: grammarOf("-i --ignore-environment -0 --null -v --debug -u: --unset: -C! --chdir! -S! --split-string! -P! --help. --version."), assigns: true, itself: true},
	"sudo":       {options: grammarOf("-n --non-interactive -E --preserve-env -H --set-home -A -S --stdin -B -P -b --background -k --reset-timestamp -K. -v. -V. -l. --list. --version. --help. -u: --user: -g: --group: -p: --prompt: -C: -T: -h: --host! -D! --chdir! -R! --chroot! -r: -t: -i! -s! -e! --login! --shell! --edit!"), assigns: true, itself: true},
	"doas":       {options: grammarOf("-n -L. -u: -C! -s!"), itself: true},
	"xargs":      {options: grammarOf("-0 --null -r --no-run-if-empty -t --verbose -p --interactive -x --exit -o --open-tty -I: -J: --replace -i -n: --max-args: -P: --max-procs: -L: --max-lines: -d: --delimiter: -s: --max-chars: -E: -R: -S: -a< --arg-file< --version. --help."), more: true, itself: true},
	"nice":       {options: grammarOf("-n: --adjustment: --help. --version."), digits: true, itself: true},
	"ionice":     {options: grammarOf("-c: --class: -n: --classdata: -t --ignore -p. --pid. -P. -u.")},
	"nohup":      {options: grammarOf("--help. --version.")},
	"setsid":     {options: grammarOf("-c --ctty -f --fork -w --wait -h. -V. --help. --version.")},
	"stdbuf":     {options: grammarOf("-i: --input: -o: --output: -e: --error: --help. --version.")},
	"time":       {options: grammarOf("-p --portability -v --verbose -q --quiet -a --append -o> --output> -f: --format: -l -h -V. --version."), itself: true},
	"timeout":    {options: grammarOf("-k: --kill-after: -s: --signal: -f --foreground -p --preserve-status -v --verbose --help. --version."), operands: 1},
	"gtimeout":   {options: grammarOf("-k: --kill-after: -s: --signal: --foreground --preserve-status -v --verbose --help. --version."), operands: 1},
	"watch":      {options: grammarOf("-n: --interval: -d --differences -t --no-title -b --beep -e --errexit -g --chgexit -c --color -p --precise -x! --exec! -v. -h. --version. --help."), shell: true},
	"command":    {options: grammarOf("-p -v. -V."), itself: true},
	"builtin":    {options: grammarOf(""), itself: true},
	"exec":       {options: grammarOf("-c -l -a:"), itself: true},
	"busybox":    {options: grammarOf("--list. --list-full. --help. --install!"), itself: true},
	"toybox":     {options: grammarOf("--help. --version."), itself: true},
	"flock":      {options: grammarOf("-s --shared -x -e --exclusive -n --nb --nonblock -w: --wait: --timeout: -E: --conflict-exit-code: -o --close -F --no-fork --verbose -u! --unlock! -c! --command! -h. -V."), operands: 1},
	"caffeinate": {options: grammarOf("-d -i -m -s -u -t: -w:"), itself: true},
	"eatmydata":  {options: grammarOf("")},
	"noglob":     {options: grammarOf("")},
	"nocorrect":  {options: grammarOf("")},
}

// unwrap runs the command that c wraps. When that cannot be found, c itself is what
// is known, and opaque.
func (r *reader) unwrap(c simple, w wrapper) places {
	args := c.args()
	for w.digits && len(args) > 0 && args[0].known && len(args[0].text) > 1 && strings.Trim(args[0].text, "-+0123456789") == "" {
		args = args[1:]
	}
	opts, rest := w.options.scan(args, true)
	if slices.ContainsFunc(opts, option.unknown) || slices.ContainsFunc(opts, func(o option) bool { return o.is(isCode) }) {
		return r.asItIs(c, true)
	}
	c.files(opts)
	if slices.ContainsFunc(opts, func(o option) bool { return o.is(isStop) }) {
		return r.asItIs(c, false)
	}
	if c.name() == "env" && len(rest) > 0 && rest[0].text == "-" {
		rest = rest[1:] // -i
	}
	for w.assigns && len(rest) > 0 {
		name, _, ok := strings.Cut(rest[0].text, "=")
		if !ok {
			break
		}
		c.opaque = c.opaque || !rest[0].known || !harmless(name)
		rest = rest[1:]
	}
	for _, o := range rest[:min(w.operands, len(rest))] {
		c.opaque = c.opaque || !o.known
	}
	if own := c.own(rest); len(own) > 0 { // by itself, since the command does not get it
		r.emit(simple{via: append(slices.Clip(c.via), c.name()), writes: own, at: c.at})
	}
	rest = rest[min(w.operands, len(rest)):]
	if len(rest) == 0 {
		return r.asItIs(c, !w.itself)
	}
	if strings.HasPrefix(rest[0].text, "-") {
		return r.asItIs(c, true) // an option where this expects none
	}
	if w.more {
		c.opaque = true
	}
	if w.shell {
		return r.lines(c, rest, c.at)
	}
	end := r.inner(c, rest)
	if c.name() == "command" || c.name() == "builtin" || c.name() == "noglob" {
		return end // the only ones that run builtins of this shell
	}
	return c.at
}

// own is what a wrapper writes besides the command in it.
func (c *simple) own(rest []word) []word {
	switch {
	case c.name() == "nohup" && len(rest) > 0:
		return []word{{"nohup.out", true}}
	case c.name() == "flock":
		return rest[:min(1, len(rest))]
	}
	return nil
}

func (r *reader) asItIs(c simple, opaque bool) places {
	c.opaque = c.opaque || opaque
	r.emit(c)
	return c.at
}

// readers read the arguments of programs that take code or run commands in a way of
// their own.
var readers map[string]func(*reader, simple) places

func init() { // not a literal, since readers run commands, which looks here
	readers = map[string]func(*reader, simple) places{
		"sh": (*reader).shell, "bash": (*reader).shell, "dash": (*reader).shell, "ash": (*reader).shell, "rbash": (*reader).shell,
		"zsh": (*reader).otherShell, "ksh": (*reader).otherShell, "mksh": (*reader).otherShell, "pdksh": (*reader).otherShell, "yash": (*reader).otherShell,
		"eval": (*reader).eval, "trap": (*reader).trap, "find": (*reader).find, "gfind": (*reader).find,
	}
}

var shellOptions = grammarOf("-c: -e -u -x -f -v -n -l! -i! -p -a -b -h -m -o: --norc --noprofile --posix --login! --version. --help.")

// shell reads sh -c code. A shell with any other input is opaque.
func (r *reader) shell(c simple) places {
	args := c.args()
	var code []word
	given := false
	for len(args) > 0 && args[0].known && len(args[0].text) > 1 && (args[0].text[0] == '-' || args[0].text[0] == '+') {
		a := args[0].text
		args = args[1:]
		if a == "--version" || a == "--help" {
			return r.asItIs(c, false)
		}
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "--") {
			kind, ok := shellOptions[a]
			if !ok {
				return r.asItIs(c, true)
			}
			c.opaque = c.opaque || kind == isCode // reads its start-up files
			continue
		}
		for _, letter := range a[1:] {
			kind, ok := shellOptions["-"+string(letter)]
			switch {
			case !ok:
				return r.asItIs(c, true)
			case letter == 'c':
				given = true
			case kind == isCode:
				c.opaque = true
			case kind == isValue: // -o name, also within a cluster
				if len(args) == 0 || args[0].text == "history" || args[0].text == "posix" || !args[0].known {
					return r.asItIs(c, true)
				}
				args = args[1:]
			}
		}
	}
	if !given {
		if len(args) > 0 {
			c.reads = append(c.reads, args[0])
		}
		return r.asItIs(c, true)
	}
	code = args[:min(1, len(args))]
	r.lines(c, code, c.at)
	return c.at
}

// otherShell reads what a shell that is neither bash nor sh is given, but does not
// trust what it reads.
func (r *reader) otherShell(c simple) places {
	c.opaque = true
	return r.shell(c)
}

func (r *reader) eval(c simple) places {
	args := c.args()
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	return r.lines(c, args, c.at)
}

// trap reads the code that runs at another time.
func (r *reader) trap(c simple) places {
	args := c.args()
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) < 2 || !args[0].known || args[0].text == "" || args[0].text == "-" || strings.HasPrefix(args[0].text, "-") {
		return r.asItIs(c, len(args) == 1 && !strings.HasPrefix(args[0].text, "-"))
	}
	r.res.later = true
	r.lines(c, args[:1], c.at)
	return c.at
}

// findTests are the words by which the expression of find may begin.
var findTests = wordSet(`-name -iname -path -ipath -wholename -type -xtype -maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newer -perm -user -group
	-uid -gid -nouser -nogroup -empty -regex -iregex -regextype -depth -xdev -mount -follow -prune -print -print0 -printf -ls -quit -exec -execdir -ok -okdir -delete
	-fprint -fprint0 -fprintf -fls -files0-from -not -true -false -links -inum -samefile -lname -ilname -readable -writable -executable -daystart -anewer -cnewer`)

// find reads the commands that find runs on what it finds.
func (r *reader) find(c simple) places {
	args := c.args()
	starts := []word{}
	i := 0
	for ; i < len(args); i++ {
		if a := args[i].text; a == "-D" {
			i++
		} else if !slices.Contains([]string{"-H", "-L", "-P", "--"}, a) && !strings.HasPrefix(a, "-O") {
			break
		}
	}
	if i < len(args) && strings.HasPrefix(args[i].text, "-") && !findTests[args[i].text] {
		c.opaque = true // perhaps an option, with start points behind it
	}
	for ; i < len(args) && !strings.HasPrefix(args[i].text, "-") && !slices.Contains([]string{"(", ")", "!", ","}, args[i].text); i++ {
		starts = append(starts, args[i])
	}
	if len(starts) == 0 {
		starts = append(starts, word{".", true})
	}
	found := c // what stands before the command that find runs
	c.reads = append(slices.Clip(c.reads), starts...)
	for ; i < len(args); i++ {
		next := func() word {
			if i+1 < len(args) {
				i++
			}
			return args[i]
		}
		switch args[i].text {
		case "-delete":
			c.writes = append(c.writes, starts...)
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			c.writes = append(c.writes, next())
		case "-newer", "-anewer", "-cnewer", "-samefile":
			c.reads = append(c.reads, next())
		case "-files0-from":
			c.reads = append(c.reads, next())
			c.opaque = true
		case "-exec", "-execdir", "-ok", "-okdir":
			from := i + 1
			for i++; i < len(args) && args[i].text != ";" && !(args[i].text == "+" && args[i-1].text == "{}"); i++ {
			}
			inner := found
			inner.opaque = c.opaque || i >= len(args) || strings.Contains(strings.Join(texts(args[from:i]), " "), "{}")
			if args[from-1].text == "-execdir" || args[from-1].text == "-okdir" {
				inner.at = nil
			}
			inner.reads, inner.writes = nil, nil
			if from < i {
				r.inner(inner, args[from:i])
			} else {
				c.opaque = true
			}
		}
	}
	r.emit(c)
	return c.at
}
