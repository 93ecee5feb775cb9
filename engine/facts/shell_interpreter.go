package facts

import (
	"slices"
	"strings"
)

var (
	interpreterOptions = grammarOf("-v. --version. -h. --help.")
	pythonOptions      = grammarOf("-V. --version. -h. --help. -u -B -I -s -S -E -O -q")

	pytest = uses("!", `-q -v -x -s -l -k: -m: -n: -r: -h --help --version --quiet --verbose --exitfirst --showlocals --capture: --lf --last-failed --ff --failed-first --nf --new-first
		--sw --stepwise --tb: --maxfail: --durations: --co --collect-only --no-header --no-summary --disable-warnings --strict-markers --color: --cov:
		--junitxml> --junit-xml> --basetemp> --log-file> --report-log> --resultlog>`)

	// modules are those of python that are programs of their own.
	modules = map[string]program{
		"pytest":    pytest,
		"unittest":  uses("!", "-v --verbose -q --quiet -f --failfast -b --buffer -c --catch -k: -s: --start-directory: -p: --pattern: -t: --top-level-directory: -h --help --locals"),
		"json.tool": uses("!o", "--indent: --tab --no-indent --compact --sort-keys --json-lines --no-ensure-ascii -h --help"),
		"venv":      uses("!w", "--clear --upgrade --upgrade-deps --without-pip --system-site-packages --copies --symlinks --prompt: -h --help"),
	}
)

// interpreter reads the arguments of a program that runs code: of a file, of the
// arguments or of the input.
func (r *reader) interpreter(c *simple) { c.interprets(interpreterOptions) }

func (c *simple) interprets(options grammar) {
	opts, operands := options.scan(c.args(), true)
	c.reads = append(c.reads, operands[:min(1, len(operands))]...)
	stops := slices.ContainsFunc(opts, func(o option) bool { return o.is(isStop) })
	c.opaque = c.opaque || !stops || slices.ContainsFunc(opts, option.unknown)
}

// python finds the module that python -m runs.
func (r *reader) python(c *simple) {
	args := c.args()
	for i, a := range args {
		if !strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "--") {
			break
		}
		before, module, ok := strings.Cut(a.text[1:], "m")
		if !ok || strings.Trim(before, "uBIsSEOq") != "" {
			continue
		}
		known, rest := a.known, args[i+1:]
		if module == "" && len(rest) > 0 {
			module, known, rest = rest[0].text, rest[0].known, rest[1:]
		}
		opts, _ := pythonOptions.scan(args[:i], true)
		use, ok := modules[module]
		c.opaque = c.opaque || !ok || !known || slices.ContainsFunc(opts, option.unknown)
		c.uses(use, rest)
		c.opaque = c.opaque || module == "pytest" && named(rest)
		return
	}
	c.interprets(pythonOptions)
}

// evaluator reads the arguments of a runtime that has commands besides running code.
func (r *reader) evaluator(c *simple) {
	args := c.args()
	c.opaque = c.opaque || len(args) == 0 || !slices.Contains(strings.Fields("--version --help -v -V -h test fmt lint check task install add remove build pm outdated info doc types"), args[0].text) ||
		anyText(args, "-e", "--eval", "-p", "--print", "-r", "--preload", "-")
}

// pytest takes more arguments from the files that @ is in front of.
func (r *reader) pytest(c *simple) {
	c.uses(pytest, c.args())
	c.opaque = c.opaque || named(c.args())
}

func named(args []word) bool {
	return slices.ContainsFunc(args, func(w word) bool { return strings.HasPrefix(w.text, "@") })
}
