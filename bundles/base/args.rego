# METADATA
# title: Constraints on arguments, from data
# description: >-
#   A constraint is an object of what must hold, all of it: allowed, pinned,
#   prefix, min, max, pattern (of the whole text), min_length, max_length, and
#   each, which is a constraint on every item of a list that has some. An argument that is not
#   there breaks its constraint, and so does whatever a constraint does not know.
#   deny contains {"code": "argument", "message": $"{name} is not allowed"} if {
#   input.tool.name == "refund"; some name in args.broken(data.refunds.args) }
package callgate.args

import rego.v2

# METADATA
# title: The names of the arguments that break their constraint
# description: What is no object of constraints is broken as a whole, by the name "".
broken(constraints) := {name | some name, c in constraints; not _holds(name, c)} if {
	is_object(constraints)
} else := {""}

_holds(name, c) if {
	value := input.args[name]
	fits(value, c)
}

# METADATA
# title: The value fits the constraint
fits(value, c) if {
	is_object(c)
	count(c) > 0
	every kind, want in c { _kind(kind, want, value) }
}

_kind("each", want, value) if {
	is_array(value)
	count(value) > 0
	is_object(want)
	count(want) > 0
	every item in value {
		every kind, w in want { _plain(kind, w, item) }
	}
}

_kind(kind, want, value) if _plain(kind, want, value)

_plain("allowed", want, value) if {
	is_array(want)
	value in want
}

_plain("pinned", want, value) if value == want

_plain("prefix", want, value) if {
	is_string(want)
	want != ""
	is_string(value)
	startswith(value, want)
}

_plain("min", want, value) if {
	is_number(want)
	is_number(value)
	value >= want
}

_plain("max", want, value) if {
	is_number(want)
	is_number(value)
	value <= want
}

# A pattern that is not valid by itself could close the group and leave it.
_plain("pattern", want, value) if {
	is_string(want)
	is_string(value)
	regex.is_valid(want)
	regex.match($`\A(?:{want})\z`, value)
}

_plain("min_length", want, value) if _length(value) >= _size(want)

_plain("max_length", want, value) if _length(value) <= _size(want)

_length(value) := count(value) if is_string(value)

_length(value) := count(value) if is_array(value)

_size(want) := want if is_number(want)
