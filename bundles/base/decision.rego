# METADATA
# title: Callgate's base library
# description: Makes one decision out of what the rules in data.callgate.rules say.
package callgate

import data.callgate.defaults
import data.callgate.rules
import data.callgate.shape
import rego.v2

default decision := {"decision": "deny", "reasons": [{"code": "no_rule_allows", "rule": "callgate"}]}

# METADATA
# title: The decision of a permit layer
# description: >-
#   Refused when a rule denies or a word is malformed. Otherwise at least one
#   allow is needed, and whoever is asked must approve. Nothing else permits.
# entrypoint: true
decision := {"decision": "deny", "reasons": (reasons | defaults.deny)} if {
	count(reasons | defaults.deny) > 0
} else := object.union(_granted, {"decision": "requires-approval", "approvals": approvals}) if {
	count(rules.allow) > 0
	count(approvals) > 0
} else := object.union(_granted, {"decision": "allow"}) if {
	count(rules.allow) > 0
}

_granted := object.union({"grants": rules.allow, "limits": limits}, _effects)

# METADATA
# title: The decision of a restrict layer
# description: >-
#   Refused when a rule denies or a word is malformed, and when a rule allows or
#   waives, for such a layer has nothing to permit. Otherwise whoever the rules
#   ask must approve, and else it passes. The defaults of this library are for
#   permit layers.
# entrypoint: true
restriction := {"decision": "deny", "reasons": (reasons | _permissive)} if {
	count(reasons | _permissive) > 0
} else := object.union(_narrowed, {"decision": "requires-approval", "approvals": rules.ask}) if {
	count(rules.ask) > 0
} else := object.union(_narrowed, {"decision": "pass"})

_narrowed := object.union({"limits": rules.limit}, _effects)

_permissive contains {"code": "rules_malformed", "rule": "callgate", "message": $"{word} has no meaning in a restrict layer"} if {
	some word, entries in {"allow": rules.allow, "waive": rules.waive}
	entries != set()
}

# What is not said is not there: an engine refuses what it cannot do.
_effects := object.union({"labels": rules.label}, {word: value | some word, value in _stated})

_stated["cap"] := rules.cap if count(rules.cap) > 0

_stated["result_labels"] := rules.result_label if count(rules.result_label) > 0

_stated["redact"] := rules.redact if count(rules.redact) > 0

_stated["fields"] := intersection({{name | some name in list} | some list in rules.fields}) if count(rules.fields) > 0

_stated["rows"] := min(rules.rows) if count(rules.rows) > 0

_stated["frame"] := rules.frame if count(rules.frame) > 0

# METADATA
# title: Why the call is refused whatever the rules mean
reasons contains {"code": "rules_malformed", "rule": "callgate", "message": problem} if some problem in malformed

# METADATA
# title: Why the rules refuse the call
reasons contains _reason(entry) if some entry in rules.deny

_rule := "callgate.rules.deny"

# A bare string is a message. It is for people: it may be made of arguments, and
# codes are recorded.
_reason(entry) := object.union({"rule": _rule}, entry) if {
	_coded(entry)
} else := {"code": "denied", "rule": _rule, "message": entry} if {
	is_string(entry)
}

# In a function, for OPA knows the types of the authors' entries and would not
# compile a look at a key that none of them has.
_coded(entry) if is_string(entry.code)

# METADATA
# title: Who must approve, by the rules and by default
approvals := rules.ask | defaults.ask

# METADATA
# title: What the call takes from budgets, by the rules and by default
limits := rules.limit | defaults.limit

# METADATA
# title: The tools that the principal is shown
# description: >-
#   By name or pattern, out of what the rules make visible. Being shown is not
#   being allowed, so decisions do not look at it; what is no text is left out.
visible := {name | some name in rules.visible; shape.text(name)}
