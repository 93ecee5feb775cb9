package facts

import (
	"path"
	"slices"
	"strings"
)

// gitFiles says what git commands do with files that their arguments name. What is
// only in the repository is not among them.
var gitFiles = map[string]program{
	"add":                uses("", "--pathspec-from-file<"),
	"am":                 uses("r", "--directory: -p: -C: --exclude: --include: --whitespace: --patch-format:"),
	"annotate":           uses("", "--contents< --ignore-revs-file< -S< -L:"),
	"apply":              uses("r", "--build-fake-ancestor> --directory: -p: -C: --exclude: --include: --whitespace:"),
	"archive":            uses("", "--add-file< --add-virtual-file: --prefix: -o: --output:"),
	"blame":              uses("", "--contents< --ignore-revs-file< -S< -L:"),
	"checkout":           uses("", "--pathspec-from-file<"),
	"clone":              uses("", "-o: --origin: -b: --branch: -u: --upload-pack: --depth: -j: --jobs: --filter: --shallow-since: --shallow-exclude: --server-option: --bundle-uri: --reference< --reference-if-able< --separate-git-dir: --template: -c: --config: --recurse-submodules? --ref-format: --revision: --bare --mirror"),
	"commit":             uses("", "-F< --file< -t< --template< --pathspec-from-file< -m: --message: -C: --reuse-message: -c: --reedit-message: --author: --date: --fixup: --squash: --trailer: --cleanup:"),
	"diff":               uses("", "-O< -S: -G: -U: -l:"),
	"grep":               uses("-r", "-f< -e: -A: -B: -C: -m: --max-depth: --threads:"),
	"hash-object":        uses("r", "-t: --path:"),
	"init":               uses("", "-b: --initial-branch: --template: --object-format: --ref-format: --shared? --separate-git-dir: --bare"),
	"interpret-trailers": uses("b", "--trailer: --where: --if-exists: --if-missing:"),
	"log":                uses("", "-O< -S: -G: -L: -U: -n: -l:"),
	"ls-files":           uses("", "-X< --exclude-from< -x: --exclude:"),
	"merge":              uses("", "-F< --file< -m: -s: -X: --strategy: --strategy-option: --into-name:"),
	"merge-file":         uses("b", "-L: --marker-size:"),
	"mv":                 uses("m", ""),
	"notes":              uses("", "-F< --file< -m: -C: -c: --ref:"),
	"reset":              uses("", "--pathspec-from-file<"),
	"restore":            uses("", "--pathspec-from-file< -s: --source:"),
	"rm":                 uses("w", "--pathspec-from-file<"),
	"show":               uses("", "-O< -S: -G: -L: -U: -n: -l:"),
	"stash":              uses("", "--pathspec-from-file< -m: --message:"),
	"tag":                uses("", "-F< --file< -m: -u: --message:"),
	"update-index":       uses("r", "--cacheinfo: --chmod: --index-version:"),
}

// gitTrees are the commands that change the work tree as a whole, and the words after
// them with which they do not.
var gitTrees = map[string][]string{
	"am": nil, "apply": nil, "bisect": {"log", "terms"}, "checkout": nil, "cherry-pick": nil, "clean": nil, "merge": nil, "pull": nil, "rebase": nil, "restore": nil, "revert": nil,
	"sparse-checkout": {"list"}, "stash": {"list", "show"}, "submodule": {"status", "summary"}, "switch": nil,
}

// gitUses are the paths that a git command is told to read and write.
func gitUses(command string, args []word) (uses simple) {
	use := gitFiles[command]
	opts, operands := use.options.scan(args, false)
	uses.words = []word{{"git", true}}
	uses.files(opts)
	at := func(i int) []word { return operands[min(i, len(operands)):min(i+1, len(operands))] }
	sub := strings.Join(texts(at(0)), "")
	switch command {
	case "grep":
		if anyText(args, "--no-index", "--no-ind", "--untracked") {
			uses.operands(use.use, opts, operands)
		}
	case "clone":
		uses.clone(opts, operands)
	case "init":
		uses.writes = append(uses.writes, slices.Concat(at(0), []word{{".", true}})[0])
	case "config":
		uses.settings(args)
	case "bundle":
		if slices.Contains([]string{"unbundle", "verify", "list-heads"}, sub) {
			uses.reads = append(uses.reads, at(1)...)
		}
	case "worktree":
		if sub != "list" && sub != "prune" {
			uses.writes = append(uses.writes, operands[min(1, len(operands)):]...)
		}
	default:
		uses.operands(use.use, opts, operands)
	}
	if except, ok := gitTrees[command]; ok && !slices.Contains(except, sub) || command == "reset" && anyText(args, "--hard", "--merge", "--keep") {
		uses.writes = append(uses.writes, word{".", true})
	}
	return uses
}

// clone adds where a clone comes from, if that is here, and where it goes.
func (c *simple) clone(opts []option, operands []word) {
	if len(operands) == 0 {
		return
	}
	from, isFile := strings.CutPrefix(operands[0].text, "file://")
	head, _, _ := strings.Cut(from, "/")
	if isFile || !strings.Contains(head, ":") {
		c.reads = append(c.reads, word{from, operands[0].known})
	}
	if len(operands) > 1 {
		c.writes = append(c.writes, operands[1])
		return
	}
	name := strings.TrimSuffix(strings.TrimRight(from, "/"), "/.git")
	name = strings.TrimSuffix(strings.TrimSuffix(name[strings.LastIndexAny(name, "/:")+1:], ".git"), ".bundle")
	if anyOption(opts, "--bare", "--mirror") {
		name += ".git"
	}
	if name == "" || name == "." || name == ".." {
		c.opaque = true
	}
	c.writes = append(c.writes, word{path.Clean(name), operands[0].known})
}

// settings adds the file that git config is told to read or change.
func (c *simple) settings(args []word) {
	opts, _ := grammarOf("-f: --file: --blob: --type: --default: --comment: --value:").scan(args, false)
	for _, o := range opts {
		switch {
		case o.name == "-f" || o.name == "--file":
			c.reads, c.writes = append(c.reads, o.value), append(c.writes, o.value)
		case o.is(isCode):
			c.opaque = true
		}
	}
}
