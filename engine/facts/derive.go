package facts

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
)

// maxFacts is how many facts one declaration may give: reading and policy take time
// for each.
const maxFacts = 1024

// Derive returns the facts that d declares and the arguments with each URL and path
// in its canonical text. Only those arguments are to be used from here on: what
// policy reasons about is then what runs. Commands stay as they are, since a shell
// line has no other text that is sure to mean the same.
//
// Facts stand in the order of the declaration, then of the arrays. A family that d
// declares has at least one fact, one that it does not is nil.
//
// # Errors
//
// [*call.Error] with [call.CodeFactsUnparsable] for an argument that is missing, is
// not a string or is none that [ParseURL], [ParsePath], [ParseShell] or [ParseArgv]
// takes, for an array without items, for more than [MaxCommands] commands, and for a
// method or mode that is not known. Its Detail names the
// pointer as the declaration writes it and holds nothing of the arguments. A
// declaration that is not valid derives nothing. [call.CodeArgsTooLarge] when the
// canonical texts make the arguments too large.
func (d Declaration) Derive(args call.Args) (call.Facts, call.Args, error) {
	if d.IsZero() {
		return call.Facts{}, args, nil
	}
	f, out, err := d.derive(args)
	if err != nil {
		return call.Facts{}, call.Args{}, err
	}
	return f, out, nil
}

func (d Declaration) derive(args call.Args) (f call.Facts, out call.Args, err error) {
	if d.Validate() != nil || args.IsZero() {
		return f, out, &call.Error{Code: call.CodeFactsUnparsable, Detail: "no valid declaration, or no arguments"}
	}
	var w rewriter // every number of canonical arguments is exact as a float64
	if err := json.Unmarshal(args.Bytes(), &w.root); err != nil {
		return f, out, &call.Error{Code: call.CodeArgsInvalid, Err: err}
	}
	for _, u := range d.URLs {
		err := w.rewrite(u.source(), func(raw, method string) (string, error) {
			fact, text, err := ParseURL(raw)
			fact.Method = method
			f.URLs = append(f.URLs, fact)
			return text, err
		})
		if err != nil {
			return f, out, err
		}
	}
	for _, p := range d.Paths {
		err := w.rewrite(p.source(), func(raw, mode string) (string, error) {
			fact, text, err := ParsePath(raw)
			fact.Mode = mode
			f.Paths = append(f.Paths, fact)
			return text, err
		})
		if err != nil {
			return f, out, err
		}
	}
	for _, c := range d.Commands {
		if f.Commands, err = w.commands(c, f.Commands); err != nil {
			return f, out, err
		}
	}
	if !w.changed {
		return f, args, nil
	}
	raw, err := json.Marshal(w.root)
	if err != nil {
		return f, out, &call.Error{Code: call.CodeArgsInvalid, Err: err}
	}
	out, err = call.Canonical(raw)
	return f, out, err
}

// rewriter holds decoded arguments while canonical texts are put into them.
type rewriter struct {
	root    any
	changed bool
}

// rewrite hands every string that s declares to read, with its method or mode, and
// puts the canonical text that read returns in its place.
func (w *rewriter) rewrite(s source, read func(raw, word string) (text string, err error)) error {
	at, wordAt := newPointer(s.at), newPointer(s.wordAt)
	n := 0
	return at.each(found{value: w.root}, 0, func(f found) error {
		if n++; n > maxFacts {
			return at.refuse(fmt.Sprintf("stands for more than %d items", maxFacts))
		}
		raw, ok := f.value.(string)
		if !ok {
			return at.refuse("is not a string")
		}
		word := s.word
		if s.wordAt != "" {
			var err error
			if word, err = wordAt.at(w.root, f.items); err != nil {
				return err
			}
			if !s.isWord(word) {
				return wordAt.refuse("is not a " + s.noun + " that is known")
			}
		}
		text, err := read(raw, word)
		if e, ok := errors.AsType[*call.Error](err); ok {
			return at.refuse(e.Detail)
		}
		if text != raw {
			f.set(text)
			w.changed = true
		}
		return nil
	})
}

// commands appends the commands that c declares to list.
func (w *rewriter) commands(c CommandAt, list []call.Command) ([]call.Command, error) {
	at := newPointer(c.at())
	err := at.each(found{value: w.root}, 0, func(f found) error {
		commands, err := c.parse(f.value)
		if e, ok := errors.AsType[*call.Error](err); ok {
			return at.refuse(e.Detail)
		}
		if list = append(list, commands...); len(list) > MaxCommands {
			return at.refuse("has too many commands")
		}
		return nil
	})
	return list, err
}

func (c CommandAt) parse(value any) ([]call.Command, error) {
	if c.At != "" {
		line, ok := value.(string)
		if !ok {
			return nil, &call.Error{Detail: "is not a string"}
		}
		return ParseShell(line)
	}
	items, ok := value.([]any)
	argv := make([]string, len(items))
	for i, item := range items {
		if argv[i], ok = item.(string); !ok {
			break
		}
	}
	if !ok {
		return nil, &call.Error{Detail: "is not an array of strings"}
	}
	return ParseArgv(argv)
}
