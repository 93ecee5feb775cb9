# METADATA
# title: Helpers for the word limit
# description: >-
#   limit contains object.union(budget.at_most(5, "1h"), {"name": "refunds", "key": budget.key("principal")}) if
#   input.tool.name == "refund"
package callgate.budget

import rego.v2

# METADATA
# title: Whose budget it is
# description: >-
#   By principal, tenant, tool (of the tenant), session or everybody. Who cannot
#   be told apart shares one, and an unknown word is no key: the call is refused.
key(by) := object.get(_keys, by, null)

_keys := {
	"everybody": "",
	"principal": _principal,
	"session": _session,
	"tenant": _tenant,
	"tool": _tool,
}

default _principal := ""

_principal := json.marshal([input.principal.tenant, input.principal.kind, input.principal.id])

default _session := ""

_session := json.marshal([input.principal.tenant, input.principal.kind, input.principal.id, input.session.id])

default _tenant := ""

_tenant := json.marshal([input.principal.tenant])

default _tool := ""

_tool := json.marshal([input.principal.tenant, input.tool.name])

# METADATA
# title: What the call costs, by one of its arguments
# description: >-
#   Rounded up, and at least 1. An argument that is not there, is no number or is
#   negative costs more than any budget holds.
cost(name) := max([1, ceil(input.args[name])]) if {
	is_number(input.args[name])
	input.args[name] >= 0
	input.args[name] <= _most
} else := _most

_most := 9007199254740991

# METADATA
# title: At most so many units in any span of this time
# description: >-
#   A bucket of n units that refills within a span lets up to 2n through in one: n
#   at once and n as they come back. This one is smaller. Half of n, rounded up,
#   are there at once, and the rest comes back over the span. A single call that
#   costs more than that half never passes: see at_most_with. Of a "day" or a "month",
#   which are those of UTC, all n are there at once, and come back with the next.
at_most(n, span) := {"burst": n, "per": span} if {
	span in {"day", "month"}
	_whole(n)
} else := at_most_with(n, ceil(n / 2), span) if {
	is_number(n)
} else := _never

# METADATA
# title: At most so many units in any span of this time, so many of them at once
# description: >-
#   The more at once, the slower they come back: n - at_once + 1 in each span.
#   A span is up to a year, and an end of it counts, its beginning does not.
at_most_with(n, at_once, span) := {"burst": at_once, "per": $"{at_once * unit}ns"} if {
	_whole(n)
	_whole(at_once)
	at_once <= n
	is_string(span)
	regex.match(`^([1-9][0-9]{0,8}(s|m|h))+$`, span)
	unit := ceil(time.parse_duration_ns(span) / ((n - at_once) + 1))
} else := _never

# No limit has a burst of nothing, so the call is refused.
_never := {"burst": 0, "per": ""}

_whole(n) if {
	is_number(n)
	n >= 1
	n <= 1000000000
	floor(n) == n
}
