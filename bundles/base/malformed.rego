package callgate

import data.callgate.lib
import data.callgate.rules
import data.callgate.shape
import rego.v2

# By name, one by one: iterating over data.callgate.rules would evaluate
# whatever else authors keep there.
_words := {
	"allow": rules.allow,
	"ask": rules.ask,
	"cap": rules.cap,
	"deny": rules.deny,
	"fields": rules.fields,
	"frame": rules.frame,
	"label": rules.label,
	"limit": rules.limit,
	"redact": rules.redact,
	"result_label": rules.result_label,
	"rows": rules.rows,
	"waive": rules.waive,
}

_keys := {
	"allow": {"bounds", "exec", "fs", "http", "id", "log", "plan", "precise_clock", "secrets", "workspace"},
	"ask": {"count", "from", "name", "reason", "ttl_s"},
	"cap": {"bounds", "exec", "fs", "http", "log", "plan", "precise_clock", "secrets", "workspace"},
	"deny": {"code", "hidden", "message", "remedy", "rule"},
	"limit": {"burst", "charge", "cost", "key", "name", "per"},
}

_required := {
	"ask": {"count", "from", "name"},
	"deny": {"code"},
	"limit": {"burst", "key", "name", "per"},
}

# METADATA
# title: What the rules said that is no word's
# description: A mistake refuses the call; it never vanishes.
malformed contains $"{word} {problem}" if {
	some word, entries in _words
	entries != set()
	some problem in _problems(word, entries)
}

# METADATA
# title: Who has which role cannot be told
malformed contains "data.inherits is malformed" if not lib.inheritance

_problems(word, entries) := {problem | some entry in entries; not _whole(word, entry); some problem in _faults(word, entry)} if {
	is_set(entries)
} else := {"is not a set"}

_whole(word, entry) if {
	shape.keys(entry, _keys[word], object.get(_required, word, set()))
	every key, value in entry { _fits(word, key, value) }
	not _at_odds(word, entry)
} else if {
	word == "deny"
	shape.text(entry)
} else if {
	_is(word, entry)
}

# What fails to be whole always has a fault, if only the last one.
_faults(word, entry) := found if {
	_keys[word]
	is_object(entry)
	odds := {problem | some problem in [_at_odds(word, entry)]}
	found := ((_unknown(word, entry) | _missing(word, entry)) | _unfit(word, entry)) | odds
	count(found) > 0
} else := {"has an entry that is neither a reason nor text"} if {
	word == "deny"
} else := {"has an entry that is not an object"} if {
	_keys[word]
} else := {"has a malformed entry"}

_unknown(word, entry) := {$"has an entry with the unknown key {key}" | some key in object.keys(entry); not key in _keys[word]}

_missing(word, entry) := {$"has an entry without {key}" | some key in object.get(_required, word, set()); not key in object.keys(entry)}

_unfit(word, entry) := {$"has an entry whose {key} is malformed" |
	some key, value in entry
	key in _keys[word]
	not _fits(word, key, value)
}

# What the engine measures has no cost, and the most of what it does not is the cost.
_at_odds("limit", entry) := "has an entry with both a cost and a charge that is measured" if {
	entry.charge in _measured
	"cost" in object.keys(entry)
}

_at_odds("limit", entry) := "has an entry with a charge that needs a cost" if {
	"charge" in object.keys(entry)
	not entry.charge in _measured
	not "cost" in object.keys(entry)
}

_measured := {"fuel", "http_bytes", "output_bytes", "time_ms"}

_fits("allow", "id", x) if shape.name(x)

_fits(word, family, x) if {
	word in {"allow", "cap"}
	shape.capabilities({family: x})
}

_fits("ask", "name", x) if shape.name(x)

_fits("ask", "count", x) if shape.whole(x, 64)

_fits("ask", "from", x) if shape.from(x)

_fits("ask", "ttl_s", x) if shape.whole(x, 31622400)

_fits("ask", "reason", x) if is_string(x)

_fits("deny", "code", x) if shape.name(x)

_fits("deny", "hidden", x) if is_boolean(x)

_fits("deny", key, x) if {
	key in {"message", "remedy"}
	is_string(x)
}

_fits("deny", "rule", x) if shape.name(x)

_fits("limit", "name", x) if shape.name(x)

_fits("limit", "key", x) if is_string(x)

_fits("limit", "per", x) if shape.per(x)

_fits("limit", "charge", x) if shape.name(x)

_fits("limit", key, x) if {
	key in {"burst", "cost"}
	shape.amount(x)
}

_is("waive", x) if x in {"ask", "limit", "raw"}

_is(word, x) if {
	word in {"frame", "label", "result_label"}
	shape.name(x)
}

_is("redact", x) if shape.name(x)

_is("redact", x) if {
	is_string(x)
	regex.match(`^(/[^/]+)+$`, x)
}

_is("fields", x) if {
	shape.list(x)
	every name in x { shape.text(name) }
}

_is("rows", x) if shape.amount(x)
