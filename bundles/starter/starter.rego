# The starter policy is configured by data.starter alone. A tool that is not in it,
# and a tool whose entry is not exactly of the documented shape, is denied to
# everybody.
package callgate.rules

import data.callgate.approval
import data.callgate.args
import data.callgate.budget
import data.callgate.flow
import data.callgate.lib
import data.callgate.sensitivity
import data.callgate.shape
import data.starter_shape
import rego.v2

_tool := data.starter.tools[input.tool.name]

# What need not be there.
_part[name] := object.get(data.starter, name, {}) if {
	some name in ["approvals", "limits", "roles"]
	is_object(data.starter)
}

# METADATA
# title: Whom a role's list or the tool's entry names gets what the tool is granted
allow contains object.union(_tool.grant, {"id": "starter"}) if {
	_sound
	_permitted
}

_settled if starter_shape.settings(data.starter)

_sound if {
	_settled
	starter_shape.tool(_tool, data.starter)
}

_permitted if lib.listed(_part.roles)

_permitted if {
	some who in _tool.who
	_is(who)
}

# Everything that the entry says must be true, and it says something.
_is(who) if {
	starter_shape.who(who)
	every what, names in who { _has(what, names) }
}

_has("roles", names) if {
	some role in names
	lib.role(role)
}

_has("ids", names) if _among(names, input.principal.id)

_has("kinds", names) if _among(names, input.principal.kind)

_has("tenants", names) if _among(names, input.principal.tenant)

_among(names, own) if count({own} & {name | some name in names}) > 0

# METADATA
# title: Whoever must approve, besides being allowed
ask contains object.union({"name": name}, object.remove(rule, ["outside"])) if {
	some name in _tool.approvals
	rule := _part.approvals[name]
	is_object(rule)
	not _spared(rule)
}

_spared(rule) if {
	shape.hours(rule.outside.days, rule.outside.from, rule.outside.to, rule.outside.offset)
	approval.hours(rule.outside.days, rule.outside.from, rule.outside.to, rule.outside.offset)
}

# METADATA
# title: Whoever must approve when private data could leave
ask contains entry if some entry in flow.ask

# METADATA
# title: The budgets of the tool, beside the defaults of the base library
limit contains object.union(_bucket(given), {"name": name, "key": budget.key(given.by), "cost": _cost(given)}) if {
	some name in _tool.limits
	given := _part.limits[name]
	is_object(given)
}

_bucket(given) := budget.at_most(given.at_most, given.per) if {
	given.at_most
} else := {"burst": given.burst, "per": given.per}

_cost(given) := budget.cost(given.cost_of) if {
	given.cost_of
} else := object.get(given, "cost", 1)

# METADATA
# title: What a session is marked with once the tool is admitted
label contains name if some name in _tool.labels

# METADATA
# title: What a session is marked with that has seen private or untrusted content
label contains name if some name in flow.label

# METADATA
# title: Only these fields are released, but to who may read personal data
fields contains _tool.fields if not lib.role("pii_reader")

# METADATA
# title: No more rows are released than the tool's entry says
rows contains _tool.rows if _tool.rows

# METADATA
# title: No more rows of personal data are released than the base library says
rows contains most if some most in sensitivity.rows

# METADATA
# title: What the principal is shown
visible contains name if {
	_settled
	some name in lib.shown(_part.roles)
}

# METADATA
# title: Tools whose entry names the principal are shown to it
visible contains name if {
	some name, entry in data.starter.tools
	some who in entry.who
	_is(who)
}

# METADATA
# title: Data that is not of the documented shape permits nothing
deny contains {"code": "starter_malformed", "message": "what data.starter says is malformed"} if not _settled

# METADATA
# title: An entry that is not of the documented shape permits nothing
deny contains {"code": "starter_malformed", "message": "what data.starter says of this tool is malformed"} if {
	count([_tool]) == 1
	not _sound
}

# METADATA
# title: A call that is not of the documented shape may do nothing
deny contains {"code": "input_malformed", "message": "the call is not one that Callgate makes"} if not shape.input_sound

# METADATA
# title: Everything is frozen
deny contains {"code": "frozen", "message": "all tools are frozen"} if {
	is_object(data.starter)
	not object.get(data.starter, "frozen", false) == false
}

# METADATA
# title: This tool is frozen
deny contains {"code": "tool_frozen", "message": "this tool is frozen"} if {
	is_object(_tool)
	not object.get(_tool, "frozen", false) == false
}

# METADATA
# title: Whoever is blocked may do nothing
deny contains {"code": "blocked", "message": "this principal is blocked"} if {
	some who in data.starter.blocked
	_is(who)
}

# METADATA
# title: Arguments are as the tool's entry wants them
deny contains {"code": "argument", "message": $"the argument {json.marshal(name)} is missing or not allowed"} if {
	some name in args.broken(_tool.args)
}

# METADATA
# title: Whoever calls this tool says why
deny contains {"code": "justification_missing", "message": "say why, in at least 15 characters"} if {
	is_object(_tool)
	not object.get(_tool, "justify", false) == false
	not lib.justified
}

# METADATA
# title: Not after what the session has seen
deny contains {"code": "not_after", "message": "this session holds something that this tool may not follow"} if {
	is_object(_tool)
	not lib.untouched(object.get(_tool, "not_after", []))
}

# METADATA
# title: Nobody runs a tool with open findings
# description: >-
#   raw alone is for the base library, which refuses such tools unless a rule waives
#   that. Not "if there are some": an input without the list must be refused too.
deny contains {"code": "tool_findings", "message": "the tool has open findings"} if {
	is_object(_tool)
	not input.tool.findings in [[], ["raw"]]
}

# METADATA
# title: Sensitive tools want what the base library says
deny contains reason if {
	is_object(_tool)
	some reason in sensitivity.deny
}
