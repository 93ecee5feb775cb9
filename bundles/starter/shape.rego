# METADATA
# title: The shape of data.starter
# description: >-
#   The same as in Callgate's JSON schema, which a bundle must fit to load at all.
#   It is here again so that plain OPA denies, too, whatever does not fit. Looked
#   at is what the call has to do with.
package starter_shape

import data.callgate.lib
import data.callgate.shape
import rego.v2

# METADATA
# title: What is said of all tools together, and of the principal's roles
settings(all) if {
	shape.keys(all, {"approvals", "blocked", "frozen", "limits", "roles", "tools"}, {"tools"})
	every part in ["approvals", "limits", "roles", "tools"] { is_object(object.get(all, part, {})) }
	is_boolean(object.get(all, "frozen", false))
	blocked := object.get(all, "blocked", [])
	is_array(blocked)
	every entry in blocked { who(entry) }
	lists := object.get(all, "roles", {})
	every role in lib.roles { _texts(object.get(lists, role, ["none"])) }
}

# METADATA
# title: The entry of one tool, with the limits and approvals that it names
tool(entry, all) if {
	shape.keys(entry, _keys, {"grant"})
	_people(object.get(entry, "who", [{"roles": ["none"]}]))
	shape.capabilities(entry.grant)
	_constraints(object.get(entry, "args", {"none": {"pinned": 1}}))
	every flag in ["frozen", "justify"] { is_boolean(object.get(entry, flag, false)) }
	every list in ["approvals", "labels", "limits", "not_after"] { _names(object.get(entry, list, ["none"])) }
	_texts(object.get(entry, "fields", ["none"]))
	shape.amount(object.get(entry, "rows", 1))
	every name in object.get(entry, "limits", []) { _limit(name, all.limits[name]) }
	every name in object.get(entry, "approvals", []) { _approval(all.approvals[name]) }
}

_keys := {
	"approvals", "args", "fields", "frozen", "grant", "justify",
	"labels", "limits", "not_after", "rows", "who",
}

# METADATA
# title: Somebody, by at least one list of at least one text
who(entry) if {
	shape.keys(entry, {"ids", "kinds", "roles", "tenants"}, set())
	count(entry) > 0
	every names in entry { _texts(names) }
	every kind in object.get(entry, "kinds", []) { kind in {"agent", "service", "user"} }
}

_people(list) if {
	is_array(list)
	count(list) > 0
	every entry in list { who(entry) }
}

_constraints(args) if {
	is_object(args)
	count(args) > 0
	every constraint in args {
		is_object(constraint)
		count(constraint) > 0
	}
}

_limit(name, budget) if {
	regex.match(`^[a-z][a-z0-9_.-]{0,63}$`, name)
	shape.keys(budget, {"at_most", "burst", "by", "cost", "cost_of", "per"}, {"by", "per"})
	count(object.keys(budget) & {"at_most", "burst"}) == 1
	count(object.keys(budget) & {"cost", "cost_of"}) < 2
	shape.whole(object.get(budget, "at_most", 1), 1000000000)
	shape.amount(object.get(budget, "burst", 1))
	shape.amount(object.get(budget, "cost", 1))
	shape.text(object.get(budget, "cost_of", "none"))
	is_string(budget.per)
	regex.match(`^([1-9][0-9]{0,4}[sm]|[1-9][0-9]{0,2}h|day|month)$`, budget.per)
	budget.by in {"everybody", "principal", "session", "tenant", "tool"}
}

_approval(rule) if {
	shape.keys(rule, {"count", "from", "outside", "reason", "ttl_s"}, {"count", "from"})
	shape.whole(rule.count, 64)
	shape.from(rule.from)
	every list in rule.from { is_array(list) }
	shape.whole(object.get(rule, "ttl_s", 1), 31622400)
	is_string(object.get(rule, "reason", ""))
	_hours(object.get(rule, "outside", {"days": ["mon"], "from": "00:00", "to": "00:00", "offset": "Z"}))
}

_hours(hours) if {
	shape.keys(hours, {"days", "from", "offset", "to"}, {"days", "from", "offset", "to"})
	is_array(hours.days)
	shape.hours(hours.days, hours.from, hours.to, hours.offset)
}

_texts(list) if {
	is_array(list)
	shape.texts(list)
}

_names(list) if {
	is_array(list)
	shape.names(list)
}
