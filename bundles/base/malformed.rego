package callgate

import data.callgate.rules
import rego.v2

# By name, one by one: iterating over data.callgate.rules would evaluate
# whatever else authors keep there.
_words := {
	"allow": rules.allow,
	"ask": rules.ask,
	"deny": rules.deny,
	"label": rules.label,
	"limit": rules.limit,
	"waive": rules.waive,
}

_keys := {
	"allow": {"bounds", "exec", "fs", "http", "id", "log", "plan", "secrets", "workspace"},
	"ask": {"count", "from", "name", "reason", "ttl_s"},
	"deny": {"code", "hidden", "message", "remedy", "rule"},
	"limit": {"burst", "cost", "key", "name", "per"},
}

_required := {
	"ask": {"count", "from", "name"},
	"limit": {"burst", "key", "name", "per"},
}

_defaults := {"ask", "limit"}

# METADATA
# title: What the rules said that is no word's
# description: A mistake refuses the call; it never vanishes.
malformed contains $"{word} is not a set" if {
	some word, entries in _words
	not is_set(entries)
}

malformed contains $"{word} has an entry that is not an object" if {
	some word, entries in _words
	word in {"allow", "ask", "limit"}
	some entry in entries
	not is_object(entry)
}

malformed contains "deny has an entry that is neither a reason nor text" if {
	some entry in rules.deny
	not is_object(entry)
	not is_string(entry)
}

malformed contains "deny has a reason without a code" if {
	some entry in rules.deny
	is_object(entry)
	not _coded(entry)
}

# In functions, for OPA knows the types of the authors' entries and would not
# compile a look at a key that none of them has.
_coded(entry) if is_string(entry.code)

malformed contains "waive has an entry that is neither ask nor limit" if {
	some entry in rules.waive
	not entry in _defaults
}

malformed contains "label has an entry that is not text" if {
	some entry in rules.label
	not is_string(entry)
}

malformed contains $"{word} has an entry with the unknown key {key}" if {
	some word, known in _keys
	some entry in _words[word]
	is_object(entry)
	some key in object.keys(entry)
	not key in known
}

malformed contains $"{word} has an entry without {key}" if {
	some word, keys in _required
	some entry in _words[word]
	is_object(entry)
	some key in keys
	not key in object.keys(entry)
}
