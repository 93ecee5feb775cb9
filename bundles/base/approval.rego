# METADATA
# title: Helpers for the word ask
package callgate.approval

import data.callgate.shape
import rego.v2

# METADATA
# title: So many of these roles must approve
by(name, count, roles, reason) := {"name": name, "count": count, "from": {"roles": roles}, "reason": reason}

# METADATA
# title: It is one of these days, between these times, at this offset from UTC
# description: >-
#   hours({"mon", "fri"}, "08:00", "18:00", "+01:00"): from the first time on and
#   until before the second, which may be on the next day: the day is the one on
#   which it begins. Two equal times are a whole day, and the second may be "24:00".
#   An offset does not follow summer time. What is not of this form makes the decision
#   fail, for it would neither permit nor refuse. Use it as what permits:
#   ask contains ... if not approval.hours(...)
hours(days, from, to, offset) if {
	_sound(days, from, to, offset)
	_within(days, _minutes(from), _minutes(to), _now(offset))
}

# What a builtin takes for an error ends the decision.
_sound(days, from, to, offset) if {
	sound := count([1 | shape.hours(days, from, to, offset)])
	time.parse_duration_ns([_hint, "0s"][sound]) == 0
}

_hint := "approval.hours takes days such as mon, times such as 08:00 and an offset such as +01:00"

_within(days, from, to, now) if {
	from < to
	_days[now.day] in days
	now.minute >= from
	now.minute < to
}

_within(days, from, to, now) if {
	from >= to
	_days[now.day] in days
	now.minute >= from
}

_within(days, from, to, now) if {
	from >= to
	_days[(now.day + 6) % 7] in days
	now.minute < to
}

# The first of January 1970 was a Thursday.
_days := ["thu", "fri", "sat", "sun", "mon", "tue", "wed"]

_now(offset) := {"day": floor(minutes / 1440) % 7, "minute": minutes % 1440} if {
	is_number(input.env.now_ns)
	input.env.now_ns > 0
	minutes := floor(input.env.now_ns / 60000000000) + _offset(offset)
	minutes >= 0
}

_offset("Z") := 0

_offset(text) := _sign[substring(text, 0, 1)] * _minutes(substring(text, 1, -1)) if {
	shape.text(text)
	text != "Z"
}

_sign := {"+": 1, "-": -1}

_minutes("24:00") := 1440

_minutes(text) := (to_number(substring(text, 0, 2)) * 60) + to_number(substring(text, 3, 2)) if {
	is_string(text)
	regex.match(`^([01][0-9]|2[0-3]):[0-5][0-9]$`, text)
}
