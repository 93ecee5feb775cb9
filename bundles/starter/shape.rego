# METADATA
# title: The shape of data.starter
# description: >-
#   The same as in Callgate's JSON schema, which a bundle must fit to load at all.
#   It is here again so that plain OPA denies, too, whatever does not fit. Of
#   grants it looks at the families; Callgate looks at the rest.
package starter_shape

import rego.v2

# METADATA
# title: What is said of all tools together
settings(all) if {
	_keys(all, {"blocked", "frozen", "tools"}, {"tools"})
	is_object(all.tools)
	is_boolean(object.get(all, "frozen", false))
	blocked := object.get(all, "blocked", [])
	is_array(blocked)
	every entry in blocked { who(entry) }
}

# METADATA
# title: The entry of one tool
tool(entry) if {
	_keys(entry, {"approval", "frozen", "grant", "labels", "limits", "not_after", "who"}, {"grant", "who"})
	_some(entry.who)
	every callers in entry.who { who(callers) }
	_grant(entry.grant)
	is_boolean(object.get(entry, "frozen", false))
	_approval(object.get(entry, "approval", {"count": 1, "from": {"roles": ["none"]}}))
	_names(object.get(entry, "labels", ["none"]))
	_names(object.get(entry, "not_after", ["none"]))
	limits := object.get(entry, "limits", [{"name": "none", "burst": 1, "per": "1s", "by": "everybody"}])
	_some(limits)
	every budget in limits { _limit(budget) }
}

# METADATA
# title: Somebody, by at least one list of at least one text
who(entry) if {
	_keys(entry, {"ids", "kinds", "roles", "tenants"}, set())
	count(entry) > 0
	every names in entry { _texts(names) }
	every kind in object.get(entry, "kinds", []) { kind in {"agent", "service", "user"} }
}

# METADATA
# title: A principal of whom everything is known that entries ask for
principal(p) if {
	is_string(p.id)
	is_string(p.kind)
	is_string(p.tenant)
	is_array(p.roles)
	every role in p.roles { is_string(role) }
}

_grant(grant) if {
	_keys(grant, {"bounds", "exec", "fs", "http", "log", "plan", "secrets", "workspace"}, set())
	every family in ["exec", "fs", "http"] { _objects(object.get(grant, family, [])) }
	every family in ["log", "plan", "workspace"] { is_boolean(object.get(grant, family, false)) }
	_texts(object.get(grant, "secrets", ["none"]))
	bounds := object.get(grant, "bounds", {})
	is_object(bounds)
	every bound in bounds { _whole(bound, 9007199254740991) }
}

_objects(list) if {
	is_array(list)
	every entry in list { is_object(entry) }
}

_approval(rule) if {
	_keys(rule, {"count", "from", "reason", "ttl_s"}, {"count", "from"})
	_whole(rule.count, 64)
	_keys(rule.from, {"ids", "roles"}, set())
	count(rule.from) > 0
	every names in rule.from { _texts(names) }
	_whole(object.get(rule, "ttl_s", 1), 31622400)
	is_string(object.get(rule, "reason", ""))
}

_limit(budget) if {
	_keys(budget, {"burst", "by", "cost", "name", "per"}, {"burst", "by", "name", "per"})
	regex.match(`^[a-z][a-z0-9_.-]{0,63}$`, budget.name)
	_whole(budget.burst, 9007199254740991)
	_whole(object.get(budget, "cost", 1), 9007199254740991)
	is_string(budget.per)
	regex.match(`^([1-9][0-9]{0,4}[sm]|[1-9][0-9]{0,2}h)$`, budget.per)
	budget.by in {"everybody", "principal", "tenant"}
}

# The keys are some of these, with all that are needed.
_keys(entry, known, needed) if {
	is_object(entry)
	keys := object.keys(entry)
	count(keys - known) == 0
	count(needed - keys) == 0
}

_some(list) if {
	is_array(list)
	count(list) > 0
}

_texts(list) if {
	_some(list)
	every text in list { _text(text) }
}

_text(text) if {
	is_string(text)
	text != ""
}

_names(list) if {
	_some(list)
	every name in list { _name(name) }
}

_name(name) if {
	is_string(name)
	regex.match(`^[a-z][a-z0-9_.:-]{0,63}$`, name)
}

_whole(n, most) if {
	is_number(n)
	n >= 1
	n <= most
	floor(n) == n
}
