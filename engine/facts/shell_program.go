package facts

import (
	"regexp"
	"slices"
	"strings"
)

// program says what a well-known program does with its arguments.
type program struct {
	use     string // of operands: see files
	options grammar
}

func uses(use, options string) program { return program{use, grammarOf(options)} }

// alwaysOpaque are programs whose arguments, input or files are commands for a
// machine, container, editor or shell that is not read here.
var alwaysOpaque = wordSet(`ssh mosh su chroot unshare nsenter setpriv runuser pkexec script scriptreplay parallel entr strace ltrace gdb lldb screen tmux
		expect at batch osascript powershell pwsh cmd wsl systemd-run vagrant fish csh tcsh nu xonsh elvish rc es vi vim nvim view ex ed emacs
		emacsclient nano pico socat m4 dc rlwrap dbus-send gdbus crontab fc history bind complete compgen compopt source . coproc mapfile readarray jobs
		run-parts start-stop-daemon daemonize chpst s6-setuidgid gosu su-exec fakeroot proot bwrap firejail uwsgi sshpass telnet sqlite sqlite3 mongo mongosh
		taskset chrt prlimit setarch linux32 linux64 i386 x86_64 uname26 choom uclampset numactl cgexec capsh sg newgrp ssh-agent dbus-run-session dbus-launch xvfb-run
		unbuffer npx bunx pnpx sftp ftp lftp ncftp tftp autossh sshfs dbclient plink ssh-copy-id run0 dzdo please systemd-nspawn machinectl aa-exec runcon ansible ansible-playbook
		nix-shell nix watchexec nodemon reflex xterm konsole gnome-terminal alacritty kitty pee vipe vidir sem tsp fzf dotenv cross-env env-cmd xdg-open open valgrind perf rr hyperfine faketime torsocks tsocks proxychains proxychains4 chronic ifne cpulimit catchsegv ld.so`)

// loader is the name of the program that loads others.
var loader = regexp.MustCompile(`^ld-(linux|musl)`)

func isAlwaysOpaque(name string) bool { return alwaysOpaque[name] || loader.MatchString(name) }

// assigners are builtins that set the variables which their arguments name.
var assigners = wordSet("read printf getopts unset export readonly declare typeset local nameref wait let test [ vared")

// changers are builtins that change what the rest of the line means.
var changers = wordSet("alias unalias enable hash shopt set setopt unsetopt emulate zmodload autoload disable")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// family is a kind of programs with a way of their own.
type family struct {
	name *regexp.Regexp
	read func(r *reader, c *simple)
}

var families = []family{
	{regexp.MustCompile(`^(python|pypy|ipython)[0-9.]*$`), (*reader).python},
	{regexp.MustCompile(`^(node|nodejs|ruby|perl|php|lua|luajit|Rscript|julia|tclsh|wish|guile|swipl|ghci|jshell|irb|erl|iex|elixir|osascript|groovy|scala)[0-9.]*$`), (*reader).interpreter},
	{regexp.MustCompile(`^(awk|gawk|mawk|nawk|original-awk)$`), (*reader).awk},
	{regexp.MustCompile(`^g?sed$`), (*reader).sed},
	{regexp.MustCompile(`^git$`), (*reader).git},
	{regexp.MustCompile(`^g?dd$`), (*reader).dd},
	{regexp.MustCompile(`^(g|bsd)?tar$`), (*reader).tar},
	{regexp.MustCompile(`^([gb]?make|just|ninja|task)$`), (*reader).make},
	{regexp.MustCompile(`^(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)$`), (*reader).compiler},
	{regexp.MustCompile(`^curl$`), (*reader).curl},
	{regexp.MustCompile(`^(docker|podman|nerdctl|kubectl|oc|lxc|crictl|docker-compose|incus)$`), (*reader).container},
	{regexp.MustCompile(`^(psql|mysql|mariadb|redis-cli)$`), (*reader).database},
	{regexp.MustCompile(`^(deno|bun)$`), (*reader).evaluator},
	{regexp.MustCompile(`^(npm|yarn|pnpm|poetry|pipenv|uv|conda|mamba|bundle|composer|direnv|asdf|mise|rbenv|pyenv|nodenv|hatch|pdm|rye|pipx|uvx)$`), (*reader).packages},
	{regexp.MustCompile(`^(gzip|gunzip|pigz|unpigz|bzip2|bunzip2|xz|unxz|lzma|unlzma|zstd|unzstd|lz4|unlz4|compress|uncompress)$`), (*reader).compressor},
	{regexp.MustCompile(`^(pytest|py\.test)$`), (*reader).pytest},
	{regexp.MustCompile(`^gpg2?$`), (*reader).gpg},
	{regexp.MustCompile(`^zip$`), (*reader).zip},
	{regexp.MustCompile(`^patch$`), (*reader).patch},
	{regexp.MustCompile(`^g?mktemp$`), (*reader).temporary},
	{regexp.MustCompile(`^ssh-keygen$`), (*reader).keys},
}

func familyOf(name string) *family {
	for i := range families {
		if families[i].name.MatchString(name) {
			return &families[i]
		}
	}
	return nil
}

// program adds what is known of c's program and emits c.
func (r *reader) program(c simple) {
	name := c.name()
	switch {
	case isAlwaysOpaque(name):
		c.opaque = true
		if name == "." || name == "source" {
			c.reads = append(c.reads, c.args()[:min(1, len(c.args()))]...)
			r.res.taken = true
		}
	case changers[name]:
		c.opaque = c.opaque || len(c.args()) > 0
		// set -e and the like are for caution, and change no meaning.
		if name == "set" && len(c.args()) > 0 && harmlessSet(c.args()) {
			c.opaque = false
		}
		r.res.taken = r.res.taken || c.opaque
	case assigners[name]:
		r.assigner(&c)
	default:
		if f := familyOf(name); f != nil {
			f.read(r, &c)
		} else if p, ok := programs[name]; ok {
			c.uses(p, c.args())
		}
	}
	r.emit(c)
}

// uses adds what a well-known program does with args.
func (c *simple) uses(p program, args []word) {
	opts, operands := p.options.scan(args, false)
	c.files(opts)
	use, strict := strings.CutPrefix(p.use, "!")
	c.opaque = c.opaque || strict && slices.ContainsFunc(opts, option.unknown)
	c.operands(use, opts, operands)
}

func harmlessSet(args []word) bool {
	for _, a := range args {
		if !a.known || !slices.Contains([]string{"-e", "-u", "-x", "+x", "+e", "+u", "-o", "-eu", "-ex", "-ux", "-eux", "-euo", "-euxo", "-exo", "-eo", "pipefail"}, a.text) {
			return false
		}
	}
	return true
}

// assigner checks the names that a builtin sets.
func (r *reader) assigner(c *simple) {
	name := c.name()
	args := c.args()
	for i, a := range args {
		// bash evaluates an index, and runs the $(...) in it.
		if strings.Contains(a.text, "[") && a.text != "[" && name != "printf" {
			c.opaque = true
		}
		switch name {
		case "printf":
			if a.text == "-v" && i == 0 {
				c.opaque = c.opaque || len(args) < 2 || strings.Contains(args[1].text, "[") || !r.sets(args[1].text)
			} else if i == 0 && strings.HasPrefix(a.text, "-v") {
				c.opaque = true
			}
		case "read", "unset", "getopts", "vared":
			if !strings.HasPrefix(a.text, "-") && syntaxName(a.text) && !r.sets(a.text) {
				c.opaque = true
			}
		case "export", "readonly", "declare", "typeset", "local":
			if strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "+") {
				if strings.Trim(a.text[1:], "xrgp") != "" {
					c.opaque, r.res.taken = true, true // -i evaluates, -n and -f give names other meanings
				}
				continue
			}
			variable, _, given := strings.Cut(a.text, "=")
			if given && !harmless(variable) {
				c.opaque, r.res.taken = true, true // what runs later may obey it
			}
		case "wait", "let", "nameref":
			c.opaque = c.opaque || name != "wait" || strings.HasPrefix(a.text, "-")
		case "test", "[":
			c.opaque = c.opaque || a.text == "-v" || a.text == "-R"
		}
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func syntaxName(s string) bool { return nameForm.MatchString(s) }

var (
	awkOptions = grammarOf("-F: --field-separator: -v: --assign: --posix --version. --help. -f! --file! -e! -E! -i! -l! --exec! --include! --load! --source! -W! -o! -p! -d! --dump-variables! --profile!")
	awkRuns    = regexp.MustCompile(`system|getline|ARGV|ARGC|[|>@]`) // the last two read other files
)

// awk runs commands and writes files by words of its program.
func (r *reader) awk(c *simple) {
	opts, operands := awkOptions.scan(c.args(), true)
	c.files(opts)
	if len(operands) == 0 {
		c.opaque = c.opaque || !anyOption(opts, "--version", "--help")
		return
	}
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown) || awkRuns.MatchString(operands[0].text)
	for _, o := range operands[1:] {
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`).MatchString(o.text) {
			c.reads = append(c.reads, o)
		}
	}
}
