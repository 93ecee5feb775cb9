package facts

import (
	"path"
	"slices"
	"strings"
)

var (
	gitGlobal = grammarOf("-C< --git-dir< --work-tree< --namespace: -c! --config-env! --exec-path! --super-prefix! -p --paginate! -P --no-pager --bare --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --version. --help. -v. -h. --html-path. --man-path. --info-path. --list-cmds!")

	// gitCommands are those that no alias can stand for. Git does not let an alias
	// hide a command of its own; any other word may be an alias, and an alias a shell
	// line.
	gitCommands = wordSet(`add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-ref-format checkout cherry cherry-pick
		clean clone commit config count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc grep hash-object help init
		interpret-trailers log ls-files ls-remote ls-tree merge merge-base merge-file mktag mktree mv name-rev notes pack-objects prune pull push range-diff rebase
		reflog remote repack replace rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash status submodule
		switch symbolic-ref tag unpack-objects update-index update-ref verify-commit verify-pack verify-tag version whatchanged worktree write-tree`)

	// gitRuns are options and words by which a git command runs another one.
	gitRuns = map[string][]string{
		"rebase":      {"-x", "--exec", "-i", "--interactive", "--edit-todo"},
		"bisect":      {"run", "view", "visualize"},
		"submodule":   {"foreach"},
		"grep":        {"-O", "--open-files-in-pager"},
		"clone":       {"-u", "--upload-pack", "-c", "--config", "--template"},
		"fetch":       {"--upload-pack"},
		"pull":        {"--upload-pack", "-x"},
		"push":        {"--receive-pack", "--exec"},
		"ls-remote":   {"--upload-pack", "--exec"},
		"archive":     {"--exec", "--remote"},
		"init":        {"--template"},
		"diff":        {"--ext-diff"},
		"log":         {"--ext-diff"},
		"show":        {"--ext-diff"},
		"difftool":    {""},
		"mergetool":   {""},
		"send-email":  {""},
		"gui":         {""},
		"daemon":      {""},
		"instaweb":    {""},
		"shell":       {""},
		"hook":        {""},
		"upload-pack": {""}, "receive-pack": {""}, "remote-ext": {""}, "remote-fd": {""}, "filter-branch": {""}, "var": {""},
		"maintenance": {"start", "register"},
		"config":      {"-e", "--edit"},
		"add":         {"-e", "--edit"},
	}
)

// git finds the ways in which git runs other commands. Hooks and configuration
// that lie in the repository are not seen.
func (r *reader) git(c *simple) {
	opts, rest := gitGlobal.scan(c.args(), true)
	c.files(opts)
	c.opaque = c.opaque || slices.ContainsFunc(opts, option.unknown)
	if len(rest) == 0 {
		return
	}
	command := rest[0].text
	if !gitCommands[command] {
		c.opaque = true
	}
	runs := gitRuns[command]
	for _, a := range rest[1:] {
		name, _, _ := strings.Cut(a.text, "=")
		for _, run := range runs {
			// Git takes abbreviations of long options.
			if name == run || strings.HasPrefix(run, "--") && len(name) > 3 && strings.HasPrefix(run, name) ||
				len(run) == 2 && strings.HasPrefix(a.text, run) {
				c.opaque = true
			}
		}
		if strings.Contains(a.text, "ext::") || strings.Contains(a.text, "fd::") {
			c.opaque = true
		}
	}
	if len(runs) == 1 && runs[0] == "" {
		c.opaque = true
	}
	from := func(w word) word { // where -C leads
		for _, o := range slices.Backward(opts) {
			if o.name == "-C" && !path.IsAbs(w.text) && w.text != "" {
				w = word{o.value.text + "/" + w.text, o.value.known && w.known}
			}
		}
		return w
	}
	if command == "diff" && anyText(rest, "--no-index") {
		for _, a := range rest[1:] {
			if !strings.HasPrefix(a.text, "-") {
				c.reads = append(c.reads, from(a))
			}
		}
	}
	uses := gitUses(command, rest[1:])
	c.opaque = c.opaque || uses.opaque
	for _, w := range uses.reads {
		c.reads = append(c.reads, from(w))
	}
	for _, w := range slices.Concat(uses.writes, gitOutputs(command, rest[1:])) {
		c.writes = append(c.writes, from(w))
	}
}

// gitOutputs are the paths that a git command is told to write. Words behind -- are
// looked at too, since that may be the value of an option.
func gitOutputs(command string, args []word) (outputs []word) {
	for i, a := range args {
		name, value, attached := strings.Cut(a.text, "=")
		switch at := strings.IndexByte(name, 'o'); {
		case strings.HasPrefix(name, "--"):
			whole := name == "--output-directory" && command == "format-patch"
			for _, full := range []string{"--output", "--separate-git-dir"} {
				whole = whole || len(name) > 3 && strings.HasPrefix(full, name)
			}
			if !whole {
				continue
			}
		case strings.HasPrefix(name, "-") && at > 0 && (command == "archive" || command == "format-patch"):
			value, attached = a.text[at+1:], at+1 < len(a.text)
		case a.text == "create" && command == "bundle":
			for _, file := range args[i+1:] {
				if !strings.HasPrefix(file.text, "-") {
					outputs = append(outputs, file)
					break
				}
			}
			continue
		default:
			continue
		}
		if attached {
			outputs = append(outputs, word{value, a.known})
		} else if i+1 < len(args) {
			outputs = append(outputs, args[i+1])
		}
	}
	return outputs
}
