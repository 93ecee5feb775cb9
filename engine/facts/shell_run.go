package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// simple is one command that is being taken apart.
type simple struct {
	words  []word
	via    []string
	reads  []word
	writes []word
	at     places
	opaque bool
}

func (c simple) name() string { return path.Base(c.words[0].text) }

func (c simple) args() []word { return c.words[1:] }

// emit adds c to what is found.
func (r *reader) emit(c simple) {
	if len(r.res.commands) >= MaxCommands {
		r.refuse("has too many commands")
		return
	}
	f := call.Command{Argv: texts(c.words), Via: append([]string{}, c.via...), Opaque: c.opaque || c.at == nil || !allKnown(c.words)}
	if len(c.words) > 0 {
		f.Name = c.name()
	}
	var readsKnown, writesKnown bool
	f.Reads, readsKnown = c.at.paths(c.reads)
	f.Writes, writesKnown = c.at.paths(c.writes)
	f.Opaque = f.Opaque || !readsKnown || !writesKnown
	r.res.commands = append(r.res.commands, f)
}

// run takes c apart as far as its words say what runs, and returns where the shell
// is then.
func (r *reader) run(c simple) (success, any places) {
	if len(c.words) == 0 {
		r.emit(c)
		return c.at, c.at
	}
	c.opaque = c.opaque || r.opaque
	if !c.words[0].known || oddProgram(c.words[0].text) || len(c.via) > maxVia {
		c.opaque = true
		r.emit(c)
		return c.at, c.at
	}
	name := c.name()
	if slices.Contains([]string{"cd", "pushd", "popd", "chdir"}, name) {
		return r.changeDirectory(c)
	}
	if name == "[[" {
		c.words = c.words[:1]
	}
	end := c.at
	if w, ok := wrappers[name]; ok {
		end = r.unwrap(c, w)
	} else if read, ok := readers[name]; ok {
		end = read(r, c)
	} else {
		r.program(c)
	}
	return end, end.or(c.at)
}

// oddProgram reports whether arg0 names no program, or a well-known one at a place
// where another may stand.
func oddProgram(arg0 string) bool {
	dir, base := path.Split(arg0)
	if arg0 == "." {
		return false // reads a file as code
	}
	if base == "" || base == "." || base == ".." {
		return true
	}
	return dir != "" && wellKnown(base) && !slices.Contains(systemDirs, path.Clean(dir))
}

var systemDirs = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

func wellKnown(name string) bool {
	_, wraps := wrappers[name]
	_, reads := readers[name]
	_, uses := programs[name]
	return wraps || reads || uses || familyOf(name) != nil || isAlwaysOpaque(name) || assigners[name]
}

func (r *reader) changeDirectory(c simple) (success, any places) {
	r.res.moved = true
	opts, dirs := grammarOf("-P -L -e -@ -n").scan(c.args(), false)
	if len(dirs) != 1 || !dirs[0].known || strings.Trim(dirs[0].text, "+-0123456789") == "" || slices.ContainsFunc(opts, option.unknown) {
		c.opaque = true
		r.emit(c)
		return nil, nil
	}
	c.reads = append(c.reads, dirs[0])
	r.emit(c)
	success = c.at.to(dirs[0].text)
	return success, success.or(c.at)
}

// inner runs what stands behind a wrapper.
func (r *reader) inner(c simple, words []word) places {
	c.via = append(slices.Clip(c.via), c.name())
	c.words = words
	end, _ := r.run(c)
	return end
}

// lines reads code that c hands to a shell as words.
func (r *reader) lines(c simple, code []word, at places) places {
	if !allKnown(code) || len(code) == 0 {
		c.opaque = true
		r.res.taken = r.res.taken || len(code) > 0 && c.name() == "eval"
		r.emit(c)
		return nil
	}
	if len(c.reads)+len(c.writes) > 0 {
		r.emit(simple{via: c.via, reads: c.reads, writes: c.writes, at: c.at, opaque: c.opaque})
	}
	text := strings.Join(texts(code), " ")
	if fault := shellTextFault(text); fault != "" {
		r.refuse("has code that " + fault)
		return nil
	}
	before := len(r.res.commands)
	n := reader{lang: r.lang, via: append(slices.Clip(c.via), c.name()), within: r.within + 1, opaque: c.opaque, res: r.res}
	end := n.code(text, at)
	if len(r.res.commands) == before { // nothing but comments
		r.emit(c)
	}
	return end
}
