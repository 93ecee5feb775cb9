package facts

import (
	"regexp"
	"slices"
	"strings"
)

var (
	sedOptions = grammarOf("-n --quiet --silent -E -r --regexp-extended -s --separate -u --unbuffered -z --null-data --posix --debug -b -e: --expression: -i? --in-place? -l: --line-length: -f! --file! --version. --help.")
	// Prints, deletes, and substitutions that neither run nor write anything.
	sedHarmless = regexp.MustCompile(`^([0-9$,~+ ]*|/[^/\\]*/(,/[^/\\]*/)?)!?([pdqD=]|s/([^/\\\n]|\\[^\n])*/([^/\\\n]|\\[^\n])*/[gpiI0-9]*|s\|([^|\\\n]|\\[^\n])*\|([^|\\\n]|\\[^\n])*\|[gpiI0-9]*|s#([^#\\\n]|\\[^\n])*#([^#\\\n]|\\[^\n])*#[gpiI0-9]*|s,([^,\\\n]|\\[^\n])*,([^,\\\n]|\\[^\n])*,[gpiI0-9]*)$`)
)

func (r *reader) sed(c *simple) {
	opts, operands := sedOptions.scan(c.args(), false)
	c.files(opts)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown)
	inPlace, kept := false, word{"", true}
	for _, o := range opts {
		if o.is(isSuffix) {
			inPlace, kept = true, o.value
			c.opaque = c.opaque || strings.ContainsAny(o.value.text, "/*") // the copy goes elsewhere
		}
	}
	scripts := []word{}
	for _, o := range opts {
		if o.name == "-e" || o.name == "--expression" {
			scripts = append(scripts, o.value)
		}
	}
	if len(scripts) == 0 && len(operands) > 0 {
		scripts, operands = operands[:1], operands[1:]
	}
	for _, s := range scripts {
		c.opaque = c.opaque || !sedHarmless.MatchString(s.text)
	}
	c.reads = append(c.reads, operands...)
	if inPlace {
		c.writes = append(c.writes, operands...)
	}
	for _, f := range operands {
		if inPlace && kept.text != "" {
			c.writes = append(c.writes, word{f.text + kept.text, f.known && kept.known})
		}
	}
}
