# The starter policy is configured by data.starter alone. A tool that is not in it,
# and a tool whose entry is not exactly of the documented shape, is denied to
# everybody.
package callgate.rules

import data.callgate.lib
import data.starter_shape
import rego.v2

_tool := data.starter.tools[input.tool.name]

# METADATA
# title: Whom the tool's entry names gets what it grants
allow contains object.union(_tool.grant, {"id": "starter"}) if {
	_sound
	starter_shape.principal(input.principal)
	some who in _tool.who
	_is(who)
}

_sound if {
	starter_shape.settings(data.starter)
	starter_shape.tool(_tool)
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

_has("ids", names) if input.principal.id in names

_has("kinds", names) if input.principal.kind in names

_has("tenants", names) if input.principal.tenant in names

# METADATA
# title: Whoever must approve, besides being allowed
ask contains object.union({"name": "approval"}, _tool.approval) if is_object(_tool.approval)

# METADATA
# title: The budgets of the tool, beside the defaults of the base library
limit contains object.union(object.remove(budget, ["by"]), {"key": _key[budget.by]}) if {
	some budget in _tool.limits
	is_object(budget)
}

_key := {
	"principal": json.marshal([input.principal.tenant, input.principal.kind, input.principal.id]),
	"tenant": json.marshal([input.principal.tenant]),
	"everybody": "",
}

# METADATA
# title: What a session is marked with once the tool is admitted
label contains name if some name in _tool.labels

# METADATA
# title: Without settings of the documented shape nothing at all is permitted
deny contains {"code": "starter_malformed", "message": "data.starter is missing or malformed"} if {
	not starter_shape.settings(data.starter)
}

# METADATA
# title: An entry that is not of the documented shape permits nothing
deny contains {"code": "starter_malformed", "message": "what data.starter says of this tool is malformed"} if {
	is_object(data.starter.tools)
	input.tool.name in object.keys(data.starter.tools)
	not _sound
}

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
# title: Not after what the session has seen
deny contains {"code": "not_after", "message": "this session holds something that this tool may not follow"} if {
	is_object(_tool)
	not _untouched
}

_untouched if {
	is_array(input.session.labels)
	every held in input.session.labels { is_string(held) }
	every name in object.get(_tool, "not_after", []) { _absent(name) }
}

_absent(name) if {
	every held in input.session.labels { held != name }
}

# METADATA
# title: Nobody runs a tool with open findings
# description: 'Not "if there are some": an input without the list must be refused too.'
deny contains {"code": "tool_findings", "message": "the tool has open findings"} if {
	is_object(_tool)
	not input.tool.findings == []
}
