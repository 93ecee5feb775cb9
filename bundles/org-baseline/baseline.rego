# A restrict layer for an organisation: what no policy of its teams can permit.
# data.org configures it; see settings.rego. Whatever is not sound refuses.
package callgate.rules

import data.callgate.approval
import data.callgate.budget
import data.callgate.facts
import data.callgate.flow
import data.callgate.lib
import data.callgate.shape
import data.org_settings
import rego.v2

_org := org_settings.all if org_settings.sound

# METADATA
# title: Settings that are not of the documented shape let nothing through
deny contains {"code": "org_malformed", "message": "what data.org says is malformed"} if not org_settings.sound

# METADATA
# title: A call that is not of the documented shape is not let through
deny contains {"code": "input_malformed", "message": "the call is not one that Callgate makes"} if not shape.input_sound

# METADATA
# title: Calls of this class are frozen
deny contains {"code": "org_frozen", "message": $"all {lib.class} calls are frozen"} if lib.class in _org.freeze

# METADATA
# title: Nobody calls a forbidden tool, in whichever spelling
deny contains {"code": "org_forbidden", "message": "the organisation forbids this tool"} if _forbidden

_forbidden if lib.tool(_org.forbidden.tools)

_forbidden if {
	some pattern in _org.forbidden.tools
	some name in _names
	glob.match(lower(pattern), ["."], name)
}

# What looks like a forbidden name might be any of them.
_forbidden if {
	count(_org.forbidden.tools) > 0
	not regex.match(`^[A-Za-z0-9._:/-]+$`, input.tool.name)
}

# A server's tool may have the server's name in front, and servers several.
_names := {concat("__", array.slice(parts, n, count(parts))) |
	parts := split(lower(input.tool.name), "__")
	some n, _ in parts
}

# METADATA
# title: Nobody calls a tool of a forbidden kind
deny contains {"code": "org_forbidden", "message": "the organisation forbids tools of this kind"} if {
	input.tool.kind in _org.forbidden.kinds
}

# METADATA
# title: Nobody calls a tool of a forbidden server
deny contains {"code": "org_forbidden", "message": "the organisation forbids tools of this server"} if {
	input.tool.server in _org.forbidden.servers
}

# METADATA
# title: Nobody calls a tool with a forbidden tag
deny contains {"code": "org_forbidden", "message": "the organisation forbids tools with such a tag"} if {
	some tag in input.tool.tags
	tag in _org.forbidden.tags
}

# METADATA
# title: Nobody runs a tool with findings that the organisation does not tolerate
deny contains {"code": "org_findings", "message": "the tool has open findings"} if not _tolerated

_tolerated if {
	every finding in input.tool.findings { finding in _org.findings }
}

# METADATA
# title: Callers have proved who they are
deny contains {"code": "org_auth", "message": "the organisation does not take this proof of identity"} if {
	not input.principal.auth.method in _org.auth
}

# METADATA
# title: Callers belong to a tenant
deny contains {"code": "org_tenant", "message": "callers without a tenant are not let through"} if {
	not _org.tenants.required == false
	not lib.tenanted
}

# METADATA
# title: Callers belong to a tenant that there is
deny contains {"code": "org_tenant", "message": "no such tenant"} if {
	_org.tenants.known
	not input.principal.tenant in _org.tenants.known
}

# METADATA
# title: No argument names another tenant
deny contains {"code": "org_tenant_argument", "message": "an argument names another tenant than the caller's"} if {
	some place, value
	walk(input.args, [place, value])
	key := place[count(place) - 1]
	is_string(key)
	_plain(key) in {_plain(name) | some name in _org.tenants.args}
	not value == input.principal.tenant
}

# tenantId is tenant_id.
_plain(key) := regex.replace(lower(key), `[-_]`, "")

# METADATA
# title: Requests go where the organisation lets them
deny contains {"code": "org_outbound", "message": "the organisation lets no request go there"} if {
	some u in input.facts.urls
	not _reachable(u)
}

_reachable(u) if {
	some entry in _org.outbound
	_on(u, entry)
	_scheme(u, entry)
	u.port in entry.ports
	u.method in entry.methods
	some prefix in entry.paths
	_below(u, prefix)
}

_on(u, entry) if u.host in entry.hosts

_on(u, entry) if {
	u.wildcard != ""
	u.wildcard in entry.hosts
}

_scheme(u, _) if u.scheme == "https"

_scheme(u, entry) if {
	u.scheme == "http"
	object.get(entry, "plain", false) == true
}

_below(_, "/")

_below(u, prefix) if {
	prefix != "/"
	facts.within(u, trim_prefix(prefix, "/"))
}

# METADATA
# title: No path has a protected name in it
# description: Whatever its case, for file systems differ.
deny contains {"code": "org_protected", "message": "the path is protected"} if {
	some p in input.facts.paths
	some part in p.segments
	_secret(part)
}

# METADATA
# title: No command names, reads or writes a file of a protected name
deny contains {"code": "org_protected", "message": "the path is protected"} if {
	some c in input.facts.commands
	some word in array.concat(c.argv, array.concat(c.reads, c.writes))
	some form in _forms(c, word)
	some part in regex.split(_between, form)
	_secret(part)
}

_between := `[/=:@,;"'\s]`

# The word, what may follow an option's letter in it, and what a shell may make of the
# source of one that it expands.
_forms(c, word) := _cut(word) if {
	c.opaque == false
} else := _cut(word) | {form |
	bare := regex.replace(word, `["'\\]`, "")
	some form in [bare, regex.replace(word, _signs, " "), regex.replace(bare, _signs, " ")]
}

_signs := `[()<>{}|&$\x60\[\]]`

_cut(word) := {word, regex.replace(word, `^-[a-zA-Z]`, "")}

_secret(part) if {
	some pattern in _org.protected.names
	glob.match(pattern, ["/"], lower(part))
}

# METADATA
# title: No path is in a protected directory, or is one above it
# description: Whatever its case.
deny contains {"code": "org_protected", "message": "the path is protected"} if {
	some p in input.facts.paths
	some directory in _org.protected.paths[p.root]
	_touches(p.mode, [lower(part) | some part in p.segments], split(lower(directory), "/"))
}

_touches(_, path, directory) if array.slice(path, 0, count(directory)) == directory

# Whoever removes or lists what is above it has it in hand as well.
_touches(mode, path, directory) if {
	not mode == "read"
	array.slice(directory, 0, count(path)) == path
}

# METADATA
# title: No command names, reads or writes what is in a protected directory
# description: >-
#   Where a root lies is not known, so the directory counts wherever it stands in a
#   path, whatever its case.
deny contains {"code": "org_protected", "message": "the path is protected"} if {
	some c in input.facts.commands
	some word in array.concat(c.argv, array.concat(c.reads, c.writes))
	some form in _forms(c, word)
	text := regex.replace(regex.replace(lower(form), _between, "/"), `/(?:\.?/)*`, "/")
	some directory in _directories
	contains($"/{text}/", $"/{directory}/")
}

# METADATA
# title: No command writes a directory above a protected one
deny contains {"code": "org_protected", "message": "the path is protected"} if {
	some c in input.facts.commands
	some path in c.writes
	some directory in _directories
	_holds(split(trim(lower(path), "/"), "/"), split(directory, "/"))
}

# The path ends in how the directory begins, or may be any place above.
_holds(path, directory) if {
	some n in numbers.range(1, min([count(path), count(directory)]))
	array.slice(path, count(path) - n, count(path)) == array.slice(directory, 0, n)
}

_holds(path, _) if {
	every part in path { part in {"", "*", ".", "..", "~"} }
}

_directories := {lower(directory) | some directories in _org.protected.paths; some directory in directories}

# METADATA
# title: No secret stands in what the caller asserts
deny contains {"code": "org_secret", "message": "what the caller asserts looks like a secret"} if {
	not "asserted" in _spared
	_leaks(input.asserted)
}

# METADATA
# title: No secret stands in the arguments
deny contains {"code": "org_secret", "message": "an argument looks like a secret"} if {
	not "args" in _spared
	_leaks(input.args)
}

_spared := {"args", "asserted"} - {place | some place in _org.secrets["in"]}

# Texts and keys as they are: encoded, what stands before a secret may look like part
# of it.
_leaks(given) if {
	some text in _texts(given)
	some pattern in _org.secrets.patterns
	regex.match(pattern, text)
}

_texts(given) := {text |
	walk(given, [place, value])
	some text in array.concat([value], place)
	is_string(text)
}

# METADATA
# title: Destructive calls run in working hours
deny contains {"code": "org_hours", "message": "destructive calls run in working hours only"} if {
	lib.destructive
	_org.hours
	not approval.hours(_org.hours.days, _org.hours.from, _org.hours.to, _org.hours.offset)
}

# METADATA
# title: The session holds what calls of this class need
deny contains {"code": "org_label", "message": $"the session does not hold {label}"} if {
	some label in _org.labels[lib.class]
	not label in input.session.labels
}

# METADATA
# title: Whoever the organisation wants to approve calls of this class
ask contains rule if some rule in _org.approvals[lib.class]

# METADATA
# title: Whoever must approve when private data could leave
ask contains rule if {
	not _org.flow == false
	some rule in flow.ask
}

# METADATA
# title: What a tenant's calls of this class take from its budget
limit contains object.union(budget.at_most(given.at_most, given.per), {"name": $"org:{lib.class}", "key": budget.key("tenant")}) if {
	given := _org.limits[lib.class]
}

# METADATA
# title: What a session is marked with that has seen private or untrusted content
label contains name if some name in flow.label

# METADATA
# title: The most that any call may do
cap contains _org.cap

# METADATA
# title: Requests go nowhere else, whatever their tool does
cap contains {"http": _org.outbound}
