package facts

import (
	"slices"
	"strings"
)

// grammar says what options a program has: their names with hyphens, each mapped to
// what its value is.
type grammar map[string]byte

// What the value of an option is. Zero is no value.
const (
	isFlag    = 0
	isValue   = ':'
	isRead    = '<'
	isList    = '&' // read, and names other files
	isWritten = '>'
	isCode    = '!' // the program runs what the value says
	isStop    = '.' // no value, and no command is run
	isSuffix  = '?' // in the same word or none
)

// grammarOf reads "-x -o> --output> -k:".
func grammarOf(spec string) grammar {
	g := grammar{}
	for name := range strings.FieldsSeq(spec) {
		kind := byte(isFlag)
		if last := name[len(name)-1]; strings.IndexByte(":<>!.?&", last) >= 0 {
			name, kind = name[:len(name)-1], last
		}
		g[name] = kind
	}
	return g
}

// option is an option that was given.
type option struct {
	name  string
	kind  byte
	value word
	known bool // the grammar has it
}

func (o option) unknown() bool { return !o.known }

func (o option) is(kind byte) bool { return o.kind == kind }

// takesNext reports whether an option whose value is of this kind has it in the next
// word, if not in its own.
func takesNext(kind byte) bool { return kind != isFlag && kind != isStop && kind != isSuffix }

// scan divides args into options and operands. Operands end the options when they
// are a command, and do not otherwise.
func (g grammar) scan(args []word, command bool) (opts []option, operands []word) {
	whole := g.whole()
	for i := 0; i < len(args); i++ {
		a := args[i].text
		switch {
		case a == "--" && args[i].known:
			return opts, append(operands, args[i+1:]...)
		case !strings.HasPrefix(a, "-") || a == "-":
			if command {
				return opts, append(operands, args[i:]...)
			}
			operands = append(operands, args[i])
		case strings.HasPrefix(a, "--"):
			name, value, attached := strings.Cut(a, "=")
			o := g.long(name)
			o.known = o.known && args[i].known
			o.value = word{value, args[i].known}
			if !attached && takesNext(o.kind) && i+1 < len(args) {
				i++
				o.value = args[i]
			}
			opts = append(opts, o)
		default:
			name, value, attached := strings.Cut(a, "=")
			if kind, ok := g[name]; ok && len(name) > 2 { // -name, as go has them
				o := option{name, kind, word{value, args[i].known}, args[i].known}
				if !attached && takesNext(kind) && i+1 < len(args) {
					i++
					o.value = args[i]
				}
				opts = append(opts, o)
				continue
			}
			for n := 1; n < len(a) && (n == 1 || !whole); n++ {
				kind, ok := g["-"+a[n:n+1]]
				o := option{"-" + a[n:n+1], kind, word{"", true}, ok && args[i].known && !(whole && len(name) > 2)}
				if kind != isFlag && kind != isStop {
					if n+1 < len(a) {
						o.value = word{a[n+1:], args[i].known}
					} else if takesNext(kind) && i+1 < len(args) {
						i++
						o.value = args[i]
					}
					n = len(a)
				}
				if rest, ok := strings.CutPrefix(o.value.text, "="); ok { // of programs that read -o=x as -o x
					opts = append(opts, option{o.name, o.kind, word{rest, o.value.known}, o.known})
				}
				opts = append(opts, o)
			}
		}
	}
	return opts, operands
}

// whole reports whether letters after one hyphen are one option, as those of go are,
// and not several.
func (g grammar) whole() bool {
	for name := range g {
		if len(name) > 3 && name[1] != '-' {
			return true
		}
	}
	return false
}

// long finds a long option. What may be the abbreviation of one is taken for code.
func (g grammar) long(name string) option {
	if kind, ok := g[name]; ok {
		return option{name: name, kind: kind, known: true}
	}
	if kind, ok := g[name[1:]]; ok && len(name) > 3 {
		return option{name: name[1:], kind: kind, known: true}
	}
	for full := range g {
		if strings.HasPrefix(full, name) {
			return option{name: name, kind: isCode}
		}
	}
	return option{name: name}
}

// files adds the paths that options name to c, and makes c opaque where one is code.
func (c *simple) files(opts []option) {
	for _, o := range opts {
		switch o.kind {
		case isRead, isList:
			c.reads = append(c.reads, o.value)
			c.opaque = c.opaque || o.is(isList)
		case isWritten:
			c.writes = append(c.writes, o.value)
		case isCode:
			c.opaque = true
		}
	}
}

func anyOption(opts []option, names ...string) bool {
	return slices.ContainsFunc(opts, func(o option) bool { return slices.Contains(names, o.name) })
}
