package facts

import (
	"path"
	"slices"
	"strings"
)

// operands adds the paths among the operands by use:
//
//	r  read     w  written     b  both
//	c  the last is written, the others are read
//	m  the last is written, the others are both
//	o  the second is written, the first is read
//	s  read, and what split makes of it is written
//	.  also written is the directory, unless an option says another place
//	-  before one of these: the first operand is no path
func (c *simple) operands(use string, opts []option, operands []word) {
	if strings.HasPrefix(use, "-") {
		use = use[1:]
		if len(operands) > 0 && !anyOption(opts, "-e", "--regexp", "-f", "--file", "--reference", "--files") {
			operands = operands[1:]
		}
	}
	if before, ok := strings.CutSuffix(use, "."); ok {
		use = before
		if !slices.ContainsFunc(opts, func(o option) bool { return o.is(isWritten) && slices.Contains(elsewhere, o.name) }) {
			c.writes = append(c.writes, word{".", true})
		}
	}
	if len(operands) == 1 && (use == "c" || use == "m") && !anyOption(opts, "-t", "--target-directory") {
		operands = append(slices.Clip(operands), word{".", true}) // a link to it comes here
	}
	switch name := strings.TrimPrefix(c.name(), "g"); {
	case use == "c" && anyOption(opts, "--remove-source-files"),
		name == "cp" && anyOption(opts, "-l", "-s", "--link", "--symbolic-link"):
		use = "m" // what is linked to can be written by another name
	case use == "s":
		c.split(opts, operands)
		return
	}
	if use == "c" || use == "m" {
		c.into(opts, operands)
		c.pointed(opts, operands)
	}
	last := len(operands) - 1
	if (use == "c" || use == "m") && anyOption(opts, "-t", "--target-directory") {
		last = -1
	}
	for i, o := range operands {
		if strings.HasPrefix(o.text, "+") && strings.Contains("less more most", c.name()) {
			c.opaque = true // +!command
		}
		if use == "o" && i > 0 {
			c.writes = append(c.writes, o)
		} else if use == "o" {
			c.reads = append(c.reads, o)
		}
		if use == "r" || use == "b" || use == "m" && i != last || use == "c" && i != last {
			c.reads = append(c.reads, o)
		}
		if use == "w" || use == "b" || use == "m" || use == "c" && i == last {
			c.writes = append(c.writes, o)
		}
	}
}

// elsewhere are the options that say where what is fetched or unpacked is put.
var elsewhere = []string{"-O", "--output-document", "-P", "--directory-prefix", "-d", "--directory"}

// into adds the names that operands get in the directory where they are put, and
// those of what was there before.
func (c *simple) into(opts []option, operands []word) {
	before := len(c.writes)
	defer func() { c.kept(opts, operands, c.writes[before:]) }()
	add := func(dir word, sources []word) {
		for _, s := range sources {
			name := s.text
			if !anyOption(opts, "--parents") {
				name = path.Base(name)
			}
			if name != "." && name != ".." && name != "/" {
				c.writes = append(c.writes, word{dir.text + "/" + name, dir.known && s.known})
			}
		}
	}
	given := false
	for _, o := range opts {
		if o.name == "-t" || o.name == "--target-directory" {
			add(o.value, operands)
			given = true
		}
	}
	if last := len(operands) - 1; !given && last > 0 {
		add(operands[last], operands[:last])
	}
}

// split adds the files whose names begin with a prefix. Its directory stands for
// them.
func (c *simple) split(opts []option, operands []word) {
	prefix := word{"x", true}
	if c.name() == "split" && len(operands) > 1 {
		prefix = operands[1]
	}
	if len(operands) > 0 {
		c.reads = append(c.reads, operands[0])
	}
	for _, o := range opts {
		if o.is(isWritten) {
			prefix = o.value
		}
	}
	c.writes = append(c.writes, prefix, word{path.Dir(prefix.text), prefix.known})
}

// kept adds the names under which a program keeps what it overwrites.
func (c *simple) kept(opts []option, operands, into []word) {
	suffix := word{"", true}
	for _, o := range opts {
		switch o.name {
		case "-b", "--backup":
			if suffix.text == "" {
				suffix.text = "~"
			}
		case "-S", "--suffix":
			suffix = o.value
		}
	}
	if suffix.text == "" {
		return
	}
	for _, w := range slices.Concat(operands[max(len(operands)-1, 0):], into) {
		c.writes = append(c.writes, word{w.text + suffix.text, w.known && suffix.known})
	}
}

// pointed adds what symbolic links lead to: it is relative to where they lie.
func (c *simple) pointed(opts []option, operands []word) {
	if !anyOption(opts, "-s", "--symbolic", "--symbolic-link") || anyOption(opts, "-r", "--relative") {
		return
	}
	sources, dirs := operands, []word{}
	for _, o := range opts {
		if o.name == "-t" || o.name == "--target-directory" {
			dirs = append(dirs, o.value)
		}
	}
	if last := len(operands) - 1; len(dirs) == 0 && last > 0 {
		link := operands[last]
		sources, dirs = operands[:last], []word{link, {path.Dir(link.text), link.known}}
	}
	for _, dir := range dirs {
		for _, s := range sources {
			if s.known && !path.IsAbs(s.text) && dir.text != "." && s.text != "" {
				to := word{dir.text + "/" + s.text, dir.known && s.known}
				c.reads, c.writes = append(c.reads, to), append(c.writes, to)
			}
		}
	}
}
