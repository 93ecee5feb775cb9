package facts

import (
	"path"
	"slices"
	"strings"
)

var ddRoles = map[string]byte{"if": isRead, "of": isWritten}

func (r *reader) dd(c *simple) {
	for _, a := range c.args() {
		name, value, _ := strings.Cut(a.text, "=")
		c.files([]option{{kind: ddRoles[name], value: word{value, a.known}}})
	}
}

var tarOptions = grammarOf(`-A -c -d -r -t -u -x -k -U -W -O -m -o -p -S -l -h -i -n -M -v -w -z -j -J -Z -a -B -R -K: -L:
	--extract --get --create --list --append --update --diff --compare --gzip --gunzip --bzip2 --xz --zstd --auto-compress --verbose --keep-old-files --skip-old-files
	--exclude-vcs --totals --numeric-owner --same-owner --no-same-owner --preserve-permissions --no-same-permissions --wildcards --no-recursion --dereference --sort:
	--null --to-stdout --touch --sparse --ignore-failed-read --version --help -f: --file: -C> --directory> -T& --files-from& -X< --exclude-from< -I! --use-compress-program! --to-command! --checkpoint-action! --info-script! --new-volume-script! -F! --rsh-command! --rmt-command! -g> --listed-incremental> --index-file> --exclude: --transform! --xform! -b: -N: -V: -H: --format: --strip-components: --owner: --group: --mode: --mtime: -P --absolute-names`)

// tar reads its members or writes them, depending on a letter.
func (r *reader) tar(c *simple) {
	args := slices.Clone(c.args())
	if len(args) > 0 && args[0].known && args[0].text != "" && args[0].text[0] != '-' {
		// In the old form, values are words of their own, in the order of the letters.
		if at := strings.IndexAny(args[0].text, "bCfFgHIKLNTVX"); at >= 0 && at < len(args[0].text)-1 {
			c.opaque = true
		}
		args[0].text = "-" + args[0].text
	}
	opts, operands := tarOptions.scan(args, false)
	c.files(opts)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown)
	extracts := anyOption(opts, "-x", "--extract", "--get")
	lists := anyOption(opts, "-t", "--list", "-d", "--diff", "--compare")
	for _, o := range opts {
		if o.name != "-f" && o.name != "--file" || o.value.text == "-" {
			continue
		}
		if extracts || lists {
			c.reads = append(c.reads, o.value)
		} else {
			c.writes = append(c.writes, o.value)
		}
		if strings.Contains(o.value.text, ":") {
			c.opaque = true // another machine
		}
	}
	c.opaque = c.opaque || extracts && anyOption(opts, "-P", "--absolute-names")
	switch {
	case extracts && !anyOption(opts, "-C", "--directory"):
		c.writes = append(c.writes, word{".", true})
	case !extracts && !lists:
		c.reads = append(c.reads, operands...)
		c.reads = append(c.reads, c.from(opts, operands)...)
	}
}

// from is what the members of an archive are called where -C leads.
func (c *simple) from(opts []option, operands []word) (members []word) {
	dirs := 0
	for _, o := range opts {
		if o.name != "-C" && o.name != "--directory" {
			continue
		}
		if dirs++; dirs > 1 {
			c.opaque = true // each starts where the one before leads
		}
		for _, m := range operands {
			if !path.IsAbs(m.text) {
				members = append(members, word{o.value.text + "/" + m.text, o.value.known && m.known})
			}
		}
	}
	return members
}

// compilerRuns are beginnings of words that hold options of another program, options
// of an unseen file, or the names of files to write.
var compilerRuns = []string{"-Wl,", "-Wp,", "-Wa,", "@", "-MF", "-MJ", "-save-temps", "-fplugin", "-specs", "-fdump", "-fprofile", "-ftime-trace", "-fstack-usage", "-fcallgraph", "-gsplit-dwarf", "-dump", "--"}

func (r *reader) compiler(c *simple) {
	c.uses(programs[c.name()], c.args())
	for _, a := range c.args() {
		c.opaque = c.opaque || a.text != "-MF" && a.text != "-MJ" &&
			slices.ContainsFunc(compilerRuns, func(run string) bool { return strings.HasPrefix(a.text, run) })
	}
	c.made()
}

// make finds rules that come from the input, and variables, which hold code.
func (r *reader) make(c *simple) {
	use := programs[c.name()]
	c.uses(use, c.args())
	opts, operands := use.options.scan(c.args(), false)
	for _, o := range opts {
		c.opaque = c.opaque || o.is(isRead) && (o.value.text == "-" || strings.HasPrefix(o.value.text, "/dev/"))
	}
	c.opaque = c.opaque || slices.ContainsFunc(operands, func(w word) bool { return strings.Contains(w.text, "=") })
}

var curlOptions = grammarOf(`-o> --output> --output-dir> -D> --dump-header> -c> --cookie-jar> --trace> --trace-ascii> --stderr> --hsts> --etag-save> --libcurl> --alt-svc> --ssl-sessions>
	-T< --upload-file< -E< --cert< --key< --cacert< --capath< --proxy-cert< --proxy-key< --crlfile< --netrc-file< --etag-compare< -K! --config! -O --remote-name --remote-name-all -J
	-d: --data: --data-raw: --data-binary: --data-urlencode: --data-ascii: --json: --variable: -F: --form: --form-string: -b: --cookie: -H: --header: --proxy-header: --url:
	-A: --user-agent: -C: -e: --referer: -m: --max-time: --connect-timeout: -P: -Q: --quote: -r: --range: -t: -u: --user: -U: --proxy-user: -w: --write-out: -x: --proxy: -X: --request: -y: -Y: -z:
	--retry: --retry-delay: --retry-max-time: --resolve: --connect-to: --interface: --limit-rate: --max-filesize: --max-redirs: --proto: --proto-default: --tls-max: --ciphers: --engine! --dns-servers: --doh-url: --noproxy: --socks5: --socks5-hostname: --unix-socket: --abstract-unix-socket: --aws-sigv4: --oauth2-bearer: --request-target: --rate: --pass: --pubkey<`)

// curl reads files where a value begins with @, and <.
func (r *reader) curl(c *simple) {
	opts, operands := curlOptions.scan(c.args(), false)
	c.files(opts)
	for _, o := range opts {
		v := o.value.text
		c.opaque = c.opaque || strings.HasPrefix(o.name, "--expand-") // of variables
		switch o.name {
		case "-d", "--data", "--data-binary", "--data-ascii", "--json", "-H", "--header", "--proxy-header", "-w", "--write-out", "--variable", "--data-urlencode":
			if _, file, ok := strings.Cut(v, "@"); ok && (strings.HasPrefix(v, "@") || o.name == "--data-urlencode" || o.name == "--variable") {
				c.reads = append(c.reads, word{file, o.value.known})
			}
			if o.name == "-w" || o.name == "--write-out" {
				if _, file, ok := strings.Cut(v, "%output{"); ok {
					file, _, _ = strings.Cut(file, "}")
					c.writes = append(c.writes, word{strings.TrimPrefix(file, ">>"), o.value.known})
				}
			}
		case "-F", "--form":
			for _, mark := range []string{"=@", "=<", ",", ";headers=@", ";headers=<"} {
				if _, file, ok := strings.Cut(v, mark); ok {
					file, _, _ = strings.Cut(file, ";")
					c.reads = append(c.reads, word{strings.Trim(file, `"`), o.value.known})
				}
			}
		case "-b", "--cookie":
			if !strings.Contains(v, "=") {
				c.reads = append(c.reads, o.value)
			}
		case "-O", "--remote-name", "--remote-name-all", "-J":
			c.writes = append(c.writes, word{".", true})
		case "-n", "--netrc", "--netrc-optional":
			c.reads = append(c.reads, word{"~/.netrc", true})
		case "--url":
			operands = append(operands, o.value)
		}
	}
	for _, u := range operands {
		if len(u.text) > 5 && strings.EqualFold(u.text[:5], "file:") {
			c.reads = append(c.reads, word{path.Clean("/" + strings.TrimLeft(strings.TrimPrefix(u.text[5:], "//localhost"), "/")), u.known})
		}
		c.opaque = c.opaque || strings.ContainsAny(u.text, "{}[]") || strings.HasPrefix(u.text, "@") // curl makes several URLs of these
	}
}

// container finds what runs within a container; all of it is opaque.
func (r *reader) container(c *simple) {
	for _, a := range c.args() {
		if slices.Contains([]string{"exec", "run", "create", "start", "debug", "attach", "cp", "compose", "shell", "import", "load", "apply", "buildx", "plugin", "config", "context"}, a.text) {
			c.opaque = true
		}
	}
}

var databaseOptions = grammarOf("-c: --command: -e: --execute: -h: --host: -p: --port: -P: -U: -u: --username: --user: -d: -D: --dbname: --database: -t -A -q -x -w -W -l -n: -X -1 -b -a: -F: -N -B -s -r: --no-psqlrc --tuples-only --no-align --csv --batch --silent --version --help -V")

// database finds the words by which database clients run a shell.
func (r *reader) database(c *simple) {
	opts, _ := databaseOptions.scan(c.args(), false)
	_, operands := grammarOf("").scan(c.args(), false)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown) || len(operands) == 0 && !anyText(c.args(), "--version", "--help", "-V")
	for _, a := range c.args() {
		t := strings.ToLower(a.text)
		for _, run := range []string{`\`, "system", "program", "readfile", "writefile", "load_extension", "outfile", "edit(", "eval", "source", "pager", "tee", "-f", "--file"} {
			c.opaque = c.opaque || strings.Contains(t, run)
		}
	}
}

func anyText(words []word, texts ...string) bool {
	return slices.ContainsFunc(words, func(w word) bool { return slices.Contains(texts, w.text) })
}
