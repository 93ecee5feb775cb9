# METADATA
# title: What inputs, entries and data are made of
# description: >-
#   A value that is there and of another type is as dangerous as one that is
#   missing: null is less than any number, and every of nothing holds. So what a
#   rule relies on is looked at first. Each of these holds for what is well
#   formed, and for nothing else.
package callgate.shape

import rego.v2

# METADATA
# title: A list, or the set that a rule writes for one
list(x) if is_array(x)

list(x) if is_set(x)

# METADATA
# title: A text that says something
text(x) if {
	is_string(x)
	x != ""
}

# METADATA
# title: A name as records hold it
name(x) if {
	is_string(x)
	regex.match(`^[a-z][a-z0-9_.:-]{0,63}$`, x)
}

# METADATA
# title: At least one text, and nothing else
texts(x) if {
	some_of(x)
	every entry in x { text(entry) }
}

# METADATA
# title: At least one name, and nothing else
names(x) if {
	some_of(x)
	every entry in x { name(entry) }
}

# METADATA
# title: A list of strings, which may be empty
strings(x) if {
	list(x)
	every entry in x { is_string(entry) }
}

# METADATA
# title: A list with something in it
some_of(x) if {
	list(x)
	count(x) > 0
}

# METADATA
# title: A list of objects, which may be empty
objects(x) if {
	list(x)
	every entry in x { is_object(entry) }
}

# METADATA
# title: A whole number from 1 to this
whole(x, most) if {
	is_number(x)
	x >= 1
	x <= most
	floor(x) == x
}

# METADATA
# title: A number of units, or of bytes
amount(x) if whole(x, 9007199254740991)

# METADATA
# title: A time span as in 90s, 10m or 1h30m
span(x) if {
	is_string(x)
	regex.match(`^([0-9]{1,19}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}$`, x)
}

# METADATA
# title: A time span, or a day or a month of UTC
per(x) if x in {"day", "month"}

per(x) if span(x)

# METADATA
# title: Days of the week, two times of day and an offset, as approval.hours takes them
hours(days, from, to, offset) if {
	some_of(days)
	every day in days { day in {"fri", "mon", "sat", "sun", "thu", "tue", "wed"} }
	_time(from)
	_until(to)
	is_string(offset)
	regex.match(`^(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`, offset)
}

_time(x) if {
	is_string(x)
	regex.match(`^([01][0-9]|2[0-3]):[0-5][0-9]$`, x)
}

_until("24:00")

_until(x) if _time(x)

# METADATA
# title: An object whose keys are some of these, with all that are needed
keys(x, known, needed) if {
	is_object(x)
	count(object.keys(x) - known) == 0
	count(needed - object.keys(x)) == 0
}

# METADATA
# title: Who may approve, by roles or ids
from(x) if {
	keys(x, {"ids", "roles"}, set())
	count(x) > 0
	every entry in x { texts(entry) }
}

# METADATA
# title: Capabilities, as grants and caps state them
# description: What hosts, paths and the like look like is Callgate's to say.
capabilities(x) if {
	keys(x, {"bounds", "exec", "fs", "http", "log", "plan", "precise_clock", "secrets", "workspace"}, set())
	every family, value in x { _family(family, value) }
}

_family("fs", x) if {
	objects(x)
	every entry in x {
		object.keys(entry) == {"modes", "path", "root"}
		is_string(entry.root)
		is_string(entry.path)
		list(entry.modes)
		modes := {mode | some mode in entry.modes}
		count(modes) > 0
		count(modes - {"append", "list", "read", "remove", "write"}) == 0
	}
}

_family("http", x) if {
	list(x)
	every entry in x {
		keys(entry, _http | {"plain", "secret"}, _http)
		every part in _http - {"ports"} { texts(entry[part]) }
		some_of(entry.ports)
		every port in entry.ports { whole(port, 65535) }
		is_boolean(object.get(entry, "plain", false))
		_credential(object.get(entry, "secret", {"name": "none", "as": "bearer"}))
	}
}

_http := {"hosts", "methods", "networks", "paths", "ports"}

_credential(x) if {
	keys(x, {"as", "name"}, {"as", "name"})
	text(x.name)
	x.as in {"basic", "bearer", "header"}
}

_family("exec", x) if {
	list(x)
	every entry in x {
		keys(entry, {"args", "command", "enforcement", "env", "ports"}, {"command"})
		text(entry.command)
		strings(object.get(entry, "args", []))
		strings(object.get(entry, "env", []))
		list(object.get(entry, "ports", []))
		every port in object.get(entry, "ports", []) { whole(port, 65535) }
		object.get(entry, "enforcement", "partial") in {"enforced", "partial"}
	}
}

_family("secrets", x) if {
	list(x)
	every entry in x { text(entry) }
}

_family("bounds", x) if {
	keys(x, _bounds, set())
	every bound in x { amount(bound) }
}

_bounds := {
	"calls", "fuel", "http_bytes", "log_bytes", "memory_bytes",
	"open_files", "output_bytes", "timeout_ms", "write_bytes",
}

_family(flag, x) if {
	flag in {"log", "plan", "precise_clock", "workspace"}
	is_boolean(x)
}

# METADATA
# title: An input as Callgate makes it
# description: >-
#   Callgate makes no other, so a policy that Callgate alone asks need not look.
#   A policy that others ask as well refuses what this does not hold for.
input_sound if {
	keys(input, _parts, _parts)
	is_object(input.args)
	_tool(input.tool)
	_principal(input.principal)
	_session(input.session)
	facts(input.facts)
	is_number(input.env.now_ns)
	is_string(input.env.node)
	is_string(input.asserted.justification)
	is_object(input.asserted.context)
}

_parts := {"args", "asserted", "env", "facts", "principal", "session", "tool"}

_tool(x) if {
	every key in ["digest", "name", "server"] { is_string(x[key]) }
	x.class in {"destructive", "read", "unclassified", "write"}
	x.kind in {"component", "external", "host", "mcp", "wasm"}
	every key in ["findings", "sensitivity", "tags"] {
		is_array(x[key])
		strings(x[key])
	}
}

_principal(x) if {
	text(x.id)
	is_string(x.tenant)
	x.kind in {"agent", "service", "user"}
	is_array(x.roles)
	strings(x.roles)
	is_object(x.claims)
	x.auth.method in {"asserted", "jwt", "mtls", "token", "uid"}
	is_string(x.auth.issuer)
}

_session(x) if {
	is_string(x.id)
	is_string(x.run)
	is_number(x.calls)
	is_array(x.labels)
	strings(x.labels)
	is_array(x.plan)
	every task in x.plan { _task(task) }
}

_task(x) if {
	is_string(x.id)
	x.status in {"active", "done", "failed", "planned", "replaced"}
	every key in ["after", "tools"] {
		is_array(x[key])
		strings(x[key])
	}
}

# METADATA
# title: Facts as Callgate derives them, each of which may be missing
facts(x) if {
	keys(x, {"commands", "paths", "urls"}, set())
	every entries in x { is_array(entries) }
	every u in object.get(x, "urls", []) {
		every key in ["host", "method", "path", "query", "scheme", "wildcard"] { is_string(u[key]) }
		is_number(u.port)
		strings(u.segments)
	}
	every p in object.get(x, "paths", []) {
		every key in ["mode", "path", "root"] { is_string(p[key]) }
		is_array(p.segments)
		strings(p.segments)
	}
	every c in object.get(x, "commands", []) {
		is_string(c.name)
		is_boolean(c.opaque)
		every key in ["argv", "reads", "via", "writes"] {
			is_array(c[key])
			strings(c[key])
		}
	}
}
