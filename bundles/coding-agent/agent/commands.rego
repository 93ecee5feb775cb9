# METADATA
# title: What commands are, and which of them need no second look
package agent.commands

import data.agent.danger
import data.agent.git
import data.agent.network
import data.agent.paths
import rego.v2

# METADATA
# title: Every command is known, listed, and stays in the workspace
# description: >-
#   These run without anybody being asked. What could not be reduced to a program
#   and its words is never among them.
routine if {
	is_array(input.facts.commands)
	count(input.facts.commands) > 0
	count(doubts) == 0
	every c in input.facts.commands { _routine(c) }
}

_routine(c) if {
	c.opaque == false
	_listed(c)
	every wrapper in c.via { wrapper in data.coding.wrappers }
	every path in c.reads { paths.inside(path) }
	every path in c.writes { paths.inside(path) }
}

# An assignment or a redirection by itself.
_listed(c) if {
	c.name == ""
	c.argv == []
}

_listed(c) if {
	_plain(c)
	some pattern in data.coding.commands[c.name]
	_fits(pattern, _words(c))
}

# The program is spelled by its name, or lies where the system keeps it.
_plain(c) if c.argv[0] == c.name

_plain(c) if c.argv[0] == $"/usr/bin/{c.name}"

_plain(c) if c.argv[0] == $"/bin/{c.name}"

# Another repository may say itself what its commands run, so -C is left standing.
_words(c) := git.words(c) if {
	c.name == "git"
	c.argv[1] != "-C"
} else := array.slice(c.argv, 1, count(c.argv))

_fits(pattern, words) if {
	is_array(pattern)
	count(pattern) == count(words)
	every i, p in pattern { _word(p, words[i]) }
}

# A list at the end of a pattern says what each of the other words is.
_fits(pattern, words) if {
	is_array(pattern)
	last := count(pattern) - 1
	is_array(pattern[last])
	count(words) >= last
	every i, p in array.slice(pattern, 0, last) { _word(p, words[i]) }
	every w in array.slice(words, last, count(words)) {
		some p in pattern[last]
		_word(p, w)
	}
}

_fits(pattern, words) if {
	is_array(pattern)
	last := count(pattern) - 1
	pattern[last] == "**"
	count(words) >= last
	every i, p in array.slice(pattern, 0, last) { _word(p, words[i]) }
}

_word(p, w) if p == w

_word("*", w) if not startswith(w, "-")

_word(p, w) if {
	is_string(p)
	count(p) > 1
	endswith(p, "*")
	startswith(w, trim_suffix(p, "*"))
}

# METADATA
# title: A command could not be reduced to a program and its words
doubts contains "a command could not be reduced to a program and its words" if {
	some c in input.facts.commands
	not c.opaque == false
}

# METADATA
# title: A command reaches beyond the workspace
doubts contains "a path is outside the workspace" if {
	some c in input.facts.commands
	some path in array.concat(c.reads, c.writes)
	not paths.inside(path)
}

# Where what a program reads is not known, any word may be a path.
doubts contains "a path is outside the workspace" if {
	some c in input.facts.commands
	not c.name in _texts
	some word in array.slice(c.argv, 1, count(c.argv))
	some form in _forms(word)
	regex.match(`(?s)^[/~].*$`, form)
	not paths.inside(form)
}

doubts contains "a path is outside the workspace" if {
	some c in input.facts.commands
	not c.name in _texts
	some word in array.slice(c.argv, 1, count(c.argv))
	some form in _forms(word)
	paths.up(form)
}

# The word, and what may follow an option's letter or name in it.
_forms(word) := {word, regex.replace(word, `^(?:-[a-zA-Z]|@)`, ""), regex.replace(word, `^[^=]*=`, "")}

# The words of these are texts and patterns.
_texts := {"ag", "awk", "echo", "find", "grep", "jq", "printf", "rg", "sed"}

# METADATA
# title: A command installs what others wrote
doubts contains "packages run scripts when they are installed" if danger.installs

# METADATA
# title: A command discards work
doubts contains "work that is not kept elsewhere would be lost" if git.discards

doubts contains "work that is not kept elsewhere would be lost" if {
	some c in input.facts.commands
	danger.removes(c)
	some path in c.writes
	paths.whole(path)
}

doubts contains "work that is not kept elsewhere would be lost" if {
	some c in input.facts.commands
	some path in c.writes
	regex.match(`(?i)(?:^|/)\.git(?:/|$)`, path)
}

# METADATA
# title: A command takes in files that are ignored, which may hold secrets
doubts contains "files that are ignored on purpose would be taken in" if {
	some c in input.facts.commands
	c.name == "git"
	"add" in c.argv
	some word in c.argv
	regex.match(`^(?:-[a-zA-Z]*f[a-zA-Z]*|--f.*)$`, word)
}

# METADATA
# title: A command changes what a pipeline or a hook runs
doubts contains "a pipeline or a hook would run it" if {
	some c in input.facts.commands
	some path in c.writes
	paths.pipeline(path)
}

# METADATA
# title: A command changes a database's shape
doubts contains "tables or databases would be dropped" if danger.drops

# METADATA
# title: A command talks to other machines
doubts contains "a command talks to other machines" if network.outbound

# METADATA
# title: A command shows the environment, which may hold secrets
doubts contains "the environment may hold secrets" if {
	some c in input.facts.commands
	c.name in {"declare", "env", "export", "printenv", "set"}
	count(c.argv) == 1
}

# METADATA
# title: A command shows what is in files that it does not name
# description: Those of credentials may be among them.
doubts contains "it may show files that it does not name" if {
	some c in input.facts.commands
	_sweeps(c)
}

_sweeps(c) if {
	c.name in {"diff", "egrep", "fgrep", "grep", "zgrep"}
	some word in c.argv
	regex.match(`^(?:-[a-zA-Z0-9]*[rR].*|--(?:re|der|di).*|-[a-zA-Z]*d|-drecurse)$`, word)
	not _narrowed(c)
}

_sweeps(c) if _fills(c)

# Searches of hidden and ignored files, and of those that a pattern takes back in. The
# letters behind -t and -T are a kind of files.
_sweeps(c) if {
	c.name == "rg"
	some word in c.argv
	regex.match(`^(?:-[a-su-zA-SU-Z0-9]*[gu.].*|--hidden|--no-ignore.*|--unrestricted|--i?glob.*)$`, word)
	not _narrowed(c)
}

# A kind of files may be one of hidden files.
_sweeps(c) if {
	c.name == "rg"
	regex.match(`(?s) (?:--type-add.*|(?:-[a-zA-Z0-9]*t|--type)[ =]?(?:all|sh) )`, $"{concat(" ", c.argv)} ")
}

_sweeps(c) if {
	c.name in {"ack", "ag"}
}

_sweeps(c) if {
	c.name == "git"
	some word in c.argv
	regex.match(`^--no-ind.*$`, word)
}

_sweeps(c) if {
	c.name == "git"
	"log" in c.argv
	some word in c.argv
	regex.match(`^(?:-[puSGLg].*|-U.*|--patch.*|--unified.*|-c|-m|--cc|--word-diff.*|--reflog|--walk-reflogs)$`, word)
	some range in c.argv
	regex.match(`^(?:--all|--branches.*|--remotes.*|--tags.*|--glob.*|--reflog|--walk-reflogs|-g)$`, range)
}

# Of two directories, what is in both is compared, or in one of them.
_fills(c) if {
	c.name == "diff"
	some path in c.reads
	paths.whole(path)
}

_fills(c) if {
	c.name == "diff"
	some word in c.argv
	regex.match(`^(?:-[a-zA-Z0-9]*[NP].*|--new-f.*|--unid.*)$`, word)
}

# Every pattern is one of files of some kind, and there is one.
_narrowed(c) if {
	patterns := {kind |
		some word in c.argv
		regex.match(`^--(?:include|glob)`, word)
		kind := regex.replace(word, `^--(?:include|glob)=`, "")
	}
	count(patterns) > 0
	every p in patterns {
		regex.match(`^\*\.[a-zA-Z0-9]+$`, p)
	}
	every word in c.argv { not regex.match(`^(?:-[a-su-zA-SU-Z0-9]*[gu.].*|--hidden|--no-ignore.*|--unrestricted|--iglob.*)$`, word) }
}

# METADATA
# title: A command may look at what is private without naming it
searches if {
	some c in input.facts.commands
	_searches(c)
}

_searches(c) if not c.opaque == false

_searches(c) if c.name in {"ack", "ag", "rg", "rsync", "tar", "zip"}

_searches(c) if {
	c.name in {"cp", "diff", "egrep", "fgrep", "grep", "mv", "zgrep"}
	some word in c.argv
	regex.match(`^(?:-[a-zA-Z0-9]*[rRa].*|--(?:re|der|di).*|--archive|-[a-zA-Z]*d)$`, word)
}

_searches(c) if _fills(c)

_searches(c) if {
	c.name == "git"
	some word in c.argv
	word in {"annotate", "archive", "blame", "cat-file", "diff", "format-patch", "grep", "log", "show", "stash", "whatchanged"}
}

# A directory's files are read with it.
_searches(c) if {
	some path in c.reads
	paths.whole(path)
}
