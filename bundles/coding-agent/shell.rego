# Commands of coding agents.
#
# Two tools, whose manifests declare commands: shell takes a line, git an argument
# vector. Routine commands run, some are refused whoever asks, and everything else
# asks a person.
package callgate.rules

import data.agent.commands
import data.agent.danger
import data.agent.git
import data.agent.network
import data.agent.paths
import data.agent.settings
import data.callgate.budget
import data.callgate.lib
import rego.v2

_developer if {
	settings.sound
	some r in data.coding.roles
	lib.role(r)
}

# METADATA
# title: Developers' agents run commands
allow contains {"id": "coding.command"} if {
	input.tool.name in {"git", "shell"}
	_developer
	is_array(input.facts.commands)
	count(input.facts.commands) > 0
}

# METADATA
# title: Routine commands ask nobody
waive contains "ask" if {
	input.tool.name in {"git", "shell"}
	settings.sound
	commands.routine
}

# METADATA
# title: Routine commands have a budget of their own in place of the library's
waive contains "limit" if {
	input.tool.name in {"git", "shell"}
	settings.sound
	commands.routine
}

# METADATA
# title: Sixty commands a minute
limit contains object.union(budget.at_most(60, "1m"), {"name": "commands", "key": budget.key("principal")}) if {
	input.tool.name in {"git", "shell"}
}

# METADATA
# title: A person looks at all other commands
ask contains {
	"name": "coding",
	"count": 1,
	"from": {"roles": data.coding.approvers},
	"reason": concat("; ", sort(commands.doubts | {"not every command is a routine one"})),
} if {
	input.tool.name in {"git", "shell"}
	settings.sound
	not commands.routine
}

# METADATA
# title: Nothing runs on settings that are not sound
deny contains {"code": "coding_settings", "message": "what data.coding says is malformed"} if {
	input.tool.name in {"edit-file", "fetch", "git", "list-dir", "read-file", "shell", "write-file"}
	not settings.sound
}

# METADATA
# title: Nobody reads credentials
deny contains {"code": "credentials", "message": "the command names a place of credentials"} if {
	input.tool.name in {"git", "shell"}
	danger.credentials
}

# METADATA
# title: Nothing is left behind that runs by itself
deny contains {"code": "persistence", "message": "the command would make something run later"} if {
	input.tool.name in {"git", "shell"}
	danger.persists
}

# METADATA
# title: No code runs that comes from the network
deny contains {"code": "fetched_code", "message": "the line fetches something and runs it"} if {
	input.tool.name in {"git", "shell"}
	network.fetched_code
}

# METADATA
# title: No local file is sent anywhere
deny contains {"code": "upload", "message": "the command would send local data to another machine"} if {
	input.tool.name in {"git", "shell"}
	network.uploads
}

# METADATA
# title: No data leaves by looking up names
deny contains {"code": "tunnel", "message": "the command would look up a name that is made of data"} if {
	input.tool.name in {"git", "shell"}
	network.tunnels
}

# METADATA
# title: After private data nothing goes out
deny contains {"code": "after_private", "message": "this session has read private data"} if {
	input.tool.name in {"git", "shell"}
	network.outbound
	not lib.untouched({"private-data"})
}

# METADATA
# title: What reads private data sends nothing in the same breath
deny contains {"code": "after_private", "message": "the line reads private data"} if {
	input.tool.name in {"git", "shell"}
	network.outbound
	_private
}

# METADATA
# title: Nobody gets the rights of another user
deny contains {"code": "privilege", "message": "the command would run with the rights of another user"} if {
	input.tool.name in {"git", "shell"}
	danger.privileged
}

# METADATA
# title: No container gets at its host
deny contains {"code": "container_escape", "message": "the container would get at its host"} if {
	input.tool.name in {"git", "shell"}
	danger.escapes
}

# METADATA
# title: Nothing outside the workspace is destroyed, and not all of it
deny contains {"code": "destructive", "message": "the command would destroy what is not its own"} if {
	input.tool.name in {"git", "shell"}
	danger.destroys
}

# METADATA
# title: Nobody rewrites a protected branch
deny contains {"code": "protected_branch", "message": "the push would rewrite or remove a protected branch"} if {
	input.tool.name in {"git", "shell"}
	git.overwrites
}

# METADATA
# title: What comes from the network is untrusted
label contains "untrusted-input" if {
	input.tool.name in {"git", "shell"}
	network.outbound
}

# METADATA
# title: What lies in private places is private
label contains "private-data" if {
	input.tool.name in {"git", "shell"}
	_private
}

_private if {
	some c in input.facts.commands
	some word in array.concat(c.writes, array.concat(c.reads, c.argv))
	paths.private(word)
}

# Who looks at more than what is named looks at what is private too.
_private if {
	count(data.coding.private) > 0
	commands.searches
}
