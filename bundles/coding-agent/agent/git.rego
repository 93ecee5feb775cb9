# METADATA
# title: What git commands do
package agent.git

import rego.v2

# METADATA
# title: The words of a git command after its own options
words(c) := array.slice(c.argv, 3, count(c.argv)) if {
	c.argv[1] == "-C"
} else := array.slice(c.argv, 2, count(c.argv)) if {
	c.argv[1] in {"--no-pager", "-P"}
} else := array.slice(c.argv, 1, count(c.argv))

_runs contains w if {
	some c in input.facts.commands
	c.name == "git"
	w := words(c)
}

# From the word on, wherever it stands: what must be refused may hide behind options.
_from(word) := {w |
	some c in input.facts.commands
	c.name == "git"
	some i, x in c.argv
	x == word
	w := array.slice(c.argv, i, count(c.argv))
}

_pushes := _from("push")

_option(w, forms) if {
	some word in w
	regex.match(forms, word)
}

_forced(w) if _option(w, `^(?:-[a-zA-Z]*f[a-zA-Z]*|--force.*|--m.*|\+.+)$`)

_removing(w) if _option(w, `^(?:-[a-zA-Z]*d[a-zA-Z]*|--de.*|--pru.*|--m.*|:.+)$`)

_destinations(w) := {name |
	some i, word in array.slice(w, 1, count(w))
	not startswith(word, "-")
	some part in [p | some p in split(trim_left(word, "+:"), ":")]
	name := regex.replace(part, `^(?:refs/)?heads/`, "")
}

# METADATA
# title: A push rewrites or removes a protected branch, or does not say which
overwrites if {
	some w in _pushes
	_rewrites(w)
	some name in _destinations(w)
	some pattern in data.coding.protected_branches
	glob.match(pattern, ["/"], name)
}

overwrites if {
	some w in _pushes
	_rewrites(w)
	count([word | some word in w; not startswith(word, "-")]) < 3 # push, the remote, a branch
}

overwrites if {
	some w in _pushes
	_rewrites(w)
	_option(w, `^(?:--m.*|--al.*|--b.*|--pru.*)$`)
}

# What HEAD, @ and patterns stand for is not in the line.
overwrites if {
	some w in _pushes
	_rewrites(w)
	some word in array.slice(w, 1, count(w))
	parts := split(word, ":")
	regex.match(`^\+?(?:HEAD|@)|\*`, parts[count(parts) - 1])
}

_rewrites(w) if _forced(w)

_rewrites(w) if _removing(w)

# METADATA
# title: A git command discards what is nowhere else
discards if {
	some w in _runs
	_discards(w)
}

_discards(w) if {
	w[0] == "reset"
	_option(w, `^--(?:ha|me|k).*$`)
}

_discards(w) if {
	w[0] == "clean"
	_option(w, `^(?:-[a-zA-Z]*f[a-zA-Z]*|--f.*)$`)
}

_discards(w) if {
	w[0] in {"checkout", "restore", "switch"}
	_option(w, `^(?:\.|--|-[a-zA-Z]*f[a-zA-Z]*|--f.*|--di.*|--w.*)$`)
}

_discards(w) if {
	w[0] in {"branch", "tag", "worktree", "update-ref", "remote"}
	_option(w, `^(?:-[a-zA-Z]*[dDf][a-zA-Z]*|--de.*|--forc.*|remove|prune)$`)
}

_discards(w) if {
	w[0] in {"stash", "reflog"}
	w[1] in {"clear", "delete", "drop", "expire"}
}

_discards(w) if w[0] in {"filter-branch", "filter-repo", "gc", "prune", "rebase", "replace", "rm"}

_discards(w) if {
	w[0] == "push"
	_rewrites(w)
}

# METADATA
# title: A git setting would run a program or send data elsewhere
configures if {
	some w in _from("config")
	some word in w
	regex.match(`(?i)^(?:core\.(?:hookspath|sshcommand|fsmonitor|pager|editor|gitproxy|askpass|attributesfile|worktree)|alias\.|include|url\.|filter\.|diff\.|merge\.|credential|init\.templatedir|gpg\.|http\.|https\.|protocol\.|pager\.|sequence\.|remote\.|uploadpack\.|sendemail\.|browser\.|man\.|difftool\.|mergetool\.|submodule\.)`, word)
}
