# METADATA
# title: Callgate's base library
# description: Makes one decision out of what the rules in data.callgate.rules say.
package callgate

import data.callgate.defaults
import data.callgate.rules
import rego.v2

default decision := {"decision": "deny", "reasons": [{"code": "no_rule_allows", "rule": "callgate"}]}

# METADATA
# title: The decision of a permit layer
# description: >-
#   Refused when a rule denies or a word is malformed. Otherwise at least one
#   allow is needed, and whoever is asked must approve. Nothing else permits.
# entrypoint: true
decision := {"decision": "deny", "reasons": reasons} if {
	count(reasons) > 0
} else := object.union(_granted, {"decision": "requires-approval", "approvals": approvals}) if {
	count(rules.allow) > 0
	count(approvals) > 0
} else := object.union(_granted, {"decision": "allow"}) if {
	count(rules.allow) > 0
}

_granted := {"grants": rules.allow, "limits": limits, "labels": rules.label}

# METADATA
# title: Why the call is refused
reasons contains {"code": "rules_malformed", "rule": "callgate", "message": problem} if some problem in malformed

reasons contains _reason(entry) if some entry in rules.deny

_rule := "callgate.rules.deny"

# A bare string is a message. It is for people: it may be made of arguments, and
# codes are recorded.
_reason(entry) := object.union({"rule": _rule}, entry) if {
	_coded(entry)
} else := {"code": "denied", "rule": _rule, "message": entry} if {
	is_string(entry)
}

# METADATA
# title: Who must approve, by the rules and by default
approvals := rules.ask | defaults.ask

# METADATA
# title: What the call takes from budgets, by the rules and by default
limits := rules.limit | defaults.limit
