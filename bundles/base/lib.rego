# METADATA
# title: Helpers for rules
# description: >-
#   A rule's first guard names the tool where it can, so that OPA finds the
#   rules of a tool without trying them all: input.tool.name == "x",
#   input.tool.name in {"x", "y"}, or glob.match("x.*", ["."],
#   input.tool.name), written in the rule itself. Helpers come after it.
package callgate.lib

import data.callgate.shape
import rego.v2

# METADATA
# title: The class of the call
# description: What nobody classified as a read or a write is destructive.
default class := "destructive"

class := input.tool.class if input.tool.class in {"read", "write"}

# METADATA
# title: The call is destructive, or nobody said that it is not
destructive if class == "destructive"

# METADATA
# title: The roles of the principal, with what they inherit
# description: 'data.inherits maps a role to the roles that come with it: {"lead": ["analyst"]}'
roles := (_own | _heirs) | {r | some heir in _heirs; some r in _inherits[heir]}

_own := {r |
	is_array(input.principal.roles)
	some r in input.principal.roles
}

# OPA reaches only what is a key, so roles that inherit nothing are added above.
_heirs := graph.reachable(_inherits, _own)

default _inherits := {}

_inherits := data.inherits

# METADATA
# title: What the principal's roles inherit can be read
# description: >-
#   Else a rule that refuses a role would not know who has it, so the call is refused.
inheritance if {
	is_object(_inherits)
	every heir in _heirs {
		is_array(_inherits[heir])
		shape.strings(_inherits[heir])
	}
}

# METADATA
# title: The principal has this role, directly or by inheritance
role(r) if r in roles

# METADATA
# title: The tool's name is one of these, or fits one of these patterns
# description: >-
#   A * stays within one part of a dotted name, ** does not. For lists from
#   data; OPA cannot index it, so a guard that names the tool comes first.
tool(patterns) if {
	input.tool.name in patterns
} else if {
	some pattern in patterns
	is_string(pattern)
	glob.match(pattern, ["."], input.tool.name)
}

# METADATA
# title: One of the principal's roles has the tool on its list
# description: 'The lists are data: {"analyst": ["read-file", "lab.*"]}'
listed(lists) if {
	some r in roles
	tool(lists[r])
}

# METADATA
# title: What the lists of the principal's roles show, for the word visible
shown(lists) := {pattern | some r in roles; some pattern in lists[r]}

# METADATA
# title: The caller gave a reason of at least 15 characters that are not blank
# description: It is the caller's word, and nothing more.
justified if {
	is_string(input.asserted.justification)
	count(regex.replace(input.asserted.justification, _blank, "")) >= 15
}

# Spaces, controls, invisible characters and fillers that look like nothing. Those that
# Unicode has not assigned, yet says are not to be seen, are named: not every OPA takes
# them for \p{C}.
_blank := `[\s\p{Z}\p{C}\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{2065}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{FFF0}-\x{FFF8}\x{16FE4}\x{1D159}\x{E0000}-\x{E0FFF}]+`

# METADATA
# title: The session is known to hold none of these labels
# description: >-
#   Deny with "not lib.untouched(...)". A test for a label that is there would
#   take labels that cannot be read for none.
untouched(labels) if {
	is_array(input.session.labels)
	shape.strings(input.session.labels)
	count({l | some l in labels} & {l | some l in input.session.labels}) == 0
}

# METADATA
# title: The principal belongs to a tenant
tenanted if shape.text(input.principal.tenant)
