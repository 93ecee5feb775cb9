# METADATA
# title: Matchers over what the call would touch
# description: >-
#   Each holds when there is something to look at and all of it fits. Where there
#   are no facts, nothing fits.
package callgate.facts

import data.callgate.shape
import rego.v2

# METADATA
# title: Every URL is on one of these hosts
# description: >-
#   Written as in a grant: a host's full name, or *.x.y for exactly one label
#   before x.y.
hosts(patterns) if {
	_some("urls")
	every u in input.facts.urls { _on(u, patterns) }
}

_on(u, patterns) if {
	shape.text(u.host)
	u.host in patterns
}

_on(u, patterns) if {
	shape.text(u.wildcard)
	u.wildcard in patterns
}

# METADATA
# title: Every URL has one of these methods
methods(names) if {
	_some("urls")
	every u in input.facts.urls { u.method in names }
}

# METADATA
# title: Every path is in one of these directories, and nothing else is done to it than this
# description: >-
#   The directories are given by root: {"docs": ["inbox", "reports/2026"]}, where
#   "." is all of a root. The modes are those of a grant.
paths(directories, modes) if {
	_some("paths")
	every p in input.facts.paths {
		p.mode in modes
		some directory in directories[p.root]
		within(p, directory)
	}
}

# METADATA
# title: The path is this directory or below it, by whole segments
within(p, directory) if {
	is_array(p.segments)
	is_string(directory)
	directory == "."
}

within(p, directory) if {
	shape.text(directory)
	is_array(p.segments)
	parts := split(directory, "/")
	array.slice(p.segments, 0, count(parts)) == parts
}

# METADATA
# title: Every command, and all that runs it, is one of these; no file is written
# description: >-
#   Programs count as they are called: /tmp/git is not git. A command that could
#   not be read is none of them. Of files, those that Callgate knows a program to
#   write are seen, and those of redirections.
commands(names) if {
	commands_writing(names, [])
}

# METADATA
# title: As commands, and files are written below these directories only
commands_writing(names, directories) if {
	_some("commands")
	every c in input.facts.commands {
		c.opaque == false
		shape.text(c.name)
		every name in array.concat([c.argv[0]], c.via) { name in names }
		every file in c.writes { _below(file, directories) }
	}
}

_below(file, directories) if {
	is_string(file)
	some directory in directories
	shape.text(directory)
	startswith(file, $"{trim_suffix(directory, "/")}/")
	parts := {part | some part in split(file, "/")}
	count(parts & {".", ".."}) == 0
}

# METADATA
# title: Every run of this command has arguments that begin so
# description: >-
#   The command's own name is not among them, and other commands are not looked
#   at: facts.commands({"git"}) and facts.argv("git", [["status"], ["log", "--oneline"]])
argv(command, beginnings) if {
	_some("commands")
	every c in input.facts.commands { _begins(c, command, beginnings) }
}

_begins(c, command, _) if {
	shape.text(c.name)
	c.name != command
}

_begins(c, command, beginnings) if {
	c.name == command
	some beginning in beginnings
	array.slice(c.argv, 1, 1 + count(beginning)) == beginning
}

_some(family) if {
	shape.facts(input.facts)
	count(input.facts[family]) > 0
}
