# METADATA
# title: Helpers for rules
# description: >-
#   A rule's first guard names the tool where it can, so that OPA finds the
#   rules of a tool without trying them all: input.tool.name == "x",
#   input.tool.name in {"x", "y"}, or glob.match("x.*", ["."],
#   input.tool.name), written in the rule itself. Helpers come after it.
package callgate.lib

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
# title: The principal has this role, directly or by inheritance
role(r) if r in roles
