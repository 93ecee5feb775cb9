package callgate.approval_test

import data.callgate.approval
import data.callgate.shape
import rego.v2

test_by if {
	approval.by("four-eyes", 2, ["lead"], "money") == {"name": "four-eyes", "count": 2, "from": {"roles": ["lead"]}, "reason": "money"}
}

at(text) := time.parse_rfc3339_ns(text)

week := {"mon", "tue", "wed", "thu", "fri"}

# The first of June 2026 is a Monday.
test_working_hours if {
	every now in ["2026-06-01T08:00:00Z", "2026-06-05T17:59:59Z", "1970-01-01T08:00:00Z"] {
		approval.hours(week, "08:00", "18:00", "Z") with input.env.now_ns as at(now)
	}
	every now in ["2026-06-01T07:59:59Z", "2026-06-01T18:00:00Z", "2026-06-06T12:00:00Z", "2026-06-07T12:00:00Z"] {
		not approval.hours(week, "08:00", "18:00", "Z") with input.env.now_ns as at(now)
	}
}

test_every_day_has_its_name if {
	days := ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
	every i, day in days {
		every other in days {
			held := {1 | approval.hours({other}, "12:00", "12:01", "Z") with input.env.now_ns as at($"2026-06-0{i + 1}T12:00:30Z")}
			count(held) == count({1 | other == day})
		}
	}
}

test_offsets if {
	approval.hours({"tue"}, "00:00", "01:00", "+02:00") with input.env.now_ns as at("2026-06-01T22:30:00Z")
	approval.hours({"sun"}, "22:30", "23:00", "-02:00") with input.env.now_ns as at("2026-06-01T00:45:00Z")
	approval.hours({"mon"}, "05:30", "05:31", "+05:30") with input.env.now_ns as at("2026-06-01T00:00:00Z")
}

test_over_midnight if {
	every now in ["2026-06-01T22:00:00Z", "2026-06-01T23:59:00Z", "2026-06-02T00:00:00Z", "2026-06-02T05:59:59Z"] {
		approval.hours({"mon"}, "22:00", "06:00", "Z") with input.env.now_ns as at(now)
	}
	every now in ["2026-06-01T05:00:00Z", "2026-06-01T21:59:59Z", "2026-06-02T06:00:00Z", "2026-06-02T23:00:00Z"] {
		not approval.hours({"mon"}, "22:00", "06:00", "Z") with input.env.now_ns as at(now)
	}
}

test_whole_days if {
	every now in ["2026-06-01T00:00:00Z", "2026-06-01T12:00:00Z", "2026-06-01T23:59:59Z"] {
		approval.hours({"mon"}, "00:00", "24:00", "Z") with input.env.now_ns as at(now)
		approval.hours({"mon"}, "00:00", "00:00", "Z") with input.env.now_ns as at(now)
	}
	every now in ["2026-05-31T23:59:59Z", "2026-06-02T00:00:00Z"] {
		not approval.hours({"mon"}, "00:00", "24:00", "Z") with input.env.now_ns as at(now)
		not approval.hours({"mon"}, "00:00", "00:00", "Z") with input.env.now_ns as at(now)
	}
	every now in ["2026-06-01T12:00:00Z", "2026-06-02T11:59:59Z"] { # the day on which it begins
		approval.hours({"mon"}, "12:00", "12:00", "Z") with input.env.now_ns as at(now)
	}
	every now in ["2026-06-01T11:59:59Z", "2026-06-02T12:00:00Z"] {
		not approval.hours({"mon"}, "12:00", "12:00", "Z") with input.env.now_ns as at(now)
	}
	approval.hours({"mon"}, "22:00", "24:00", "Z") with input.env.now_ns as at("2026-06-01T23:59:59Z")
	not approval.hours({"mon"}, "22:00", "24:00", "Z") with input.env.now_ns as at("2026-06-02T00:00:00Z")
}

# Of what is malformed the engine makes an error, which no test in Rego can see.
test_sound_hours if {
	shape.hours(week, "08:00", "18:00", "Z")
	shape.hours(["mon"], "08:00", "24:00", "-02:00")
	every given in [
		[week, "8:00", "18:00", "Z"], [week, "24:00", "18:00", "Z"], [week, "08:00", "24:01", "Z"], [week, "08:00", 18, "Z"], [week, "08:60", "18:00", "Z"],
		[week, "08:00", "18:00", ""], [week, "08:00", "18:00", "Europe/Berlin"], [week, "08:00", "18:00", "02:00"], [week, "08:00", "18:00", null], [week, "08:00", "18:00", 0],
		[set(), "08:00", "18:00", "Z"], [{"Sat", "Sun"}, "08:00", "18:00", "Z"], [null, "08:00", "18:00", "Z"], ["mon", "08:00", "18:00", "Z"],
		[week, null, "18:00", "Z"], [week, "08:00", null, "Z"], [[["mon"]], "08:00", "18:00", "Z"],
	] {
		not shape.hours(given[0], given[1], given[2], given[3])
	}
}

test_no_time_to_tell if {
	every now in [null, "noon", 0, -1, [1], true] {
		not approval.hours(week | {"sat", "sun"}, "00:00", "24:00", "Z") with input.env.now_ns as now
	}
	not approval.hours(week | {"sat", "sun"}, "00:00", "24:00", "-23:00") with input.env.now_ns as 1
	not approval.hours(week | {"sat", "sun"}, "00:00", "24:00", "Z") with input as {}
}
