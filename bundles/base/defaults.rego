# METADATA
# title: What holds when no rule says otherwise
package callgate.defaults

import data.callgate.lib
import data.callgate.rules
import rego.v2

# METADATA
# title: Destructive calls need an approver, unless a rule asks already
ask contains {"name": "destructive", "count": 1, "from": {"roles": ["approver"]}, "reason": "the call is destructive"} if {
	lib.destructive
	count(rules.ask) == 0
	not "ask" in rules.waive
}

# METADATA
# title: A minute's worth of calls by class
limit contains {
	"name": $"class:{lib.class}",
	"key": _who,
	"burst": _per_minute[lib.class] * _factor,
	"per": "1m",
} if {
	not "limit" in rules.waive
}

default _who := ""

_who := json.marshal([input.principal.tenant, input.principal.kind, input.principal.id])

_per_minute := {"read": 60, "write": 10, "destructive": 2}

default _factor := 1

_factor := 10 if input.principal.kind == "service"
