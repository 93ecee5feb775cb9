package facts

import (
	"path"
	"slices"
	"strings"
)

// What programs write that their arguments do not name.

var compressorOptions = grammarOf(`-c --stdout --to-stdout -d --decompress --uncompress -z --compress -k --keep -f --force -r --recursive -v --verbose -q --quiet -t --test -l --list
	-n --no-name -h -H --help -V --version -L --license -1 -2 -3 -4 -5 -6 -7 -8 -9 -0 --fast? --best -e --extreme --rm --ultra --long? -m -T: --threads: -C: --check: --format:
	-o> -D< --output-dir-flat> --output-dir-mirror>`)

// endings are those of compressed files. A program may give a file any that is its
// own, and takes any away.
var endings = map[string]string{
	".gz": "", ".z": "", ".Z": "", ".bz2": "", ".bz": "", ".xz": "", ".lzma": "", ".zst": "", ".lz4": "", ".gpg": "", ".asc": "", ".sig": "", ".pgp": "",
	".tgz": ".tar", ".taz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".tlz": ".tar", ".tzst": ".tar",
}

var compressed = map[string][]string{
	"gzip": {".gz"}, "pigz": {".gz", ".zz", ".zip"}, "bzip2": {".bz2"}, "xz": {".xz", ".lzma"}, "lzma": {".lzma"}, "zstd": {".zst", ".gz", ".xz", ".lzma", ".lz4"},
	"lz4": {".lz4"}, "compress": {".Z"}, "bunzip2": {".out"}, "gpg": {".gpg", ".asc", ".sig"}, "gpg2": {".gpg", ".asc", ".sig"},
}

// renamed adds the names that the program makes of those of files.
func (c *simple) renamed(files []word) {
	for _, f := range files {
		for _, end := range compressed[c.name()] {
			c.writes = append(c.writes, word{f.text + end, f.known})
		}
		if end, ok := endings[path.Ext(f.text)]; ok {
			c.writes = append(c.writes, word{strings.TrimSuffix(f.text, path.Ext(f.text)) + end, f.known})
		}
	}
}

// compressor puts a file in the place of another, with or without an ending.
func (r *reader) compressor(c *simple) {
	opts, operands := compressorOptions.scan(c.args(), false)
	c.files(opts)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown)
	c.reads = append(c.reads, operands...)
	if anyOption(opts, "-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list") && !anyOption(opts, "-o") {
		if c.name() != "lz4" && c.name() != "unlz4" { // the second operand is written
			return
		}
	}
	c.writes = append(c.writes, operands...)
	c.renamed(operands)
}

func (r *reader) gpg(c *simple) {
	use := programs[c.name()]
	c.uses(use, c.args())
	opts, operands := use.options.scan(c.args(), false)
	if !anyOption(opts, "-o", "--output") {
		c.renamed(operands)
	}
}

// zip writes x.zip where it is told x.
func (r *reader) zip(c *simple) {
	use := programs[c.name()]
	c.uses(use, c.args())
	if _, operands := use.options.scan(c.args(), false); len(operands) > 0 && operands[0].text != "-" {
		c.writes = append(c.writes, word{operands[0].text + ".zip", operands[0].known})
	}
}

// patch keeps what was there, and what did not fit.
func (r *reader) patch(c *simple) {
	use := programs[c.name()]
	c.uses(use, c.args())
	opts, operands := use.options.scan(c.args(), false)
	for _, o := range opts {
		if o.name == "-o" || o.name == "--output" {
			operands = append(operands, o.value)
		}
	}
	for _, f := range operands {
		c.writes = append(c.writes, word{f.text + ".orig", f.known}, word{f.text + ".rej", f.known})
	}
}

var temporaryOptions = grammarOf("-d --directory -q --quiet -u --dry-run -p> --tmpdir? -t --suffix: --help. --version.")

// temporary writes a name of its own in a directory.
func (r *reader) temporary(c *simple) {
	opts, operands := temporaryOptions.scan(c.args(), false)
	c.files(opts)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown)
	for _, o := range opts {
		if o.name == "--tmpdir" && o.value.text != "" {
			c.writes = append(c.writes, o.value)
		}
	}
	for _, o := range operands {
		c.writes = append(c.writes, word{path.Dir(o.text), o.known})
	}
	if len(operands) == 0 || anyOption(opts, "-t", "--tmpdir") {
		c.writes = append(c.writes, word{"/tmp", true})
	}
}

var keyOptions = grammarOf("-q -l -v -y -e -p -B -t: -b: -C: -N: -P: -E: -m: -a: -f: -i -c")

// keys writes to the home directory when it is not told where.
func (r *reader) keys(c *simple) {
	opts, operands := keyOptions.scan(c.args(), false)
	given := false
	for _, o := range opts {
		if o.name == "-f" {
			given = true
			operands = append(operands, o.value, word{o.value.text + ".pub", o.value.known})
		}
	}
	c.opaque = c.opaque || !given || slices.ContainsFunc(opts, option.unknown)
	c.reads = append(c.reads, operands...)
	c.writes = append(c.writes, operands...)
}

// made adds what a compiler writes when it is not told where.
func (c *simple) made() {
	opts, operands := programs[c.name()].options.scan(c.args(), false)
	is := func(flags ...string) bool { return anyText(c.args(), flags...) }
	ending := func(end string) {
		for _, o := range operands {
			c.writes = append(c.writes, word{strings.TrimSuffix(path.Base(o.text), path.Ext(o.text)) + end, o.known})
		}
	}
	if is("-MD", "-MMD") && !is("-MF") {
		ending(".d")
	}
	switch {
	case anyOption(opts, "-o") || is("-E", "-M", "-MM", "-fsyntax-only", "-###") || len(operands) == 0:
	case is("-c"):
		ending(".o")
	case is("-S"):
		ending(".s")
	default:
		c.writes = append(c.writes, word{"a.out", true})
	}
}

// packages finds the commands that a manager of packages runs in an environment.
func (r *reader) packages(c *simple) {
	if use, ok := programs[c.name()]; ok {
		c.uses(use, c.args())
	}
	run := []string{"exec", "x", "dlx", "explore", "shell"}
	if !slices.Contains([]string{"npm", "yarn", "pnpm", "composer", "mise"}, c.name()) {
		run = append(run, "run") // there, the name of a script
	}
	args := c.args()
	if end := slices.IndexFunc(args, func(w word) bool { return w.text == "--" }); end >= 0 {
		args = args[:end]
	}
	c.opaque = c.opaque || c.name() == "uvx" || anyText(args, run...)
}
