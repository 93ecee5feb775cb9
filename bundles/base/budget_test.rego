package callgate.budget_test

import data.callgate
import data.callgate.budget
import data.callgate.sample
import rego.v2

test_keys if {
	keys := {by: key | some by in ["everybody", "principal", "session", "tenant", "tool"]; key := budget.key(by)} with input as sample.with_tool("t", {}, [])
	keys == {
		"everybody": "",
		"principal": `["acme","agent","alice"]`,
		"session": `["acme","agent","alice","session"]`,
		"tenant": `["acme"]`,
		"tool": `["acme","t"]`,
	}
}

# No name reaches into the budget of another tenant.
test_keys_do_not_meet if {
	keys := {budget_of |
		some by in ["principal", "session", "tenant", "tool"]
		some who in [["acme", "alice"], ["acme", "bob"], ["rival", "alice"], [`acme","agent`, "alice"], ["acme", `agent","alice`], ["", "alice"], ["", ""]]
		budget_of := [by, budget.key(by)] with input as object.union(sample.with_tool("t", {}, []), {"principal": {"tenant": who[0], "id": who[1]}})
	}
	count({key[1] | some key in keys; key[0] == "principal"}) == 7
	count({key[1] | some key in keys; key[0] == "session"}) == 7
	every by in ["tenant", "tool"] { count({key[1] | some key in keys; key[0] == by}) == 4 }
	count({key[1] | some key in keys}) == 22
}

test_who_cannot_be_told_apart_shares if {
	every by in ["everybody", "principal", "session", "tenant", "tool"] {
		budget.key(by) == "" with input as {}
	}
}

test_other_keys_are_refused if {
	budget.key("team") == null
	d := callgate.decision with input as sample.call
		with data.callgate.rules.allow as {{"id": "g"}}
		with data.callgate.rules.limit as {{"name": "n", "key": budget.key("team"), "burst": 1, "per": "1m"}}
	{r.code | some r in d.reasons} == {"rules_malformed"}
}

test_costs if {
	every given in [[5, 5], [2.1, 3], [0, 1], [0.2, 1], [9007199254740991, 9007199254740991]] {
		budget.cost("n") == given[1] with input.args as {"n": given[0]}
	}
}

test_costs_that_nobody_can_pay if {
	every given in [{}, {"n": "5"}, {"n": -1}, {"n": null}, {"n": true}, {"n": [5]}, {"n": 9007199254740993}, {"m": 5}] {
		budget.cost("n") == 9007199254740991 with input.args as given
	}
	budget.cost("n") == 9007199254740991 with input as {}
}

test_at_most if {
	budget.at_most(1, "1h") == {"burst": 1, "per": "3600000000000ns"}
	budget.at_most(2, "1h") == {"burst": 1, "per": "1800000000000ns"}
	budget.at_most(5, "1h") == {"burst": 3, "per": "3600000000000ns"}
	budget.at_most(1000000000, "8784h").burst == 500000000
	budget.at_most_with(5, 1, "1h") == {"burst": 1, "per": "720000000000ns"}
	budget.at_most_with(5, 5, "1h30m") == {"burst": 5, "per": "27000000000000ns"}
	budget.at_most_with(7, 2, "1s") == {"burst": 2, "per": "333333334ns"}
	budget.at_most(5, "day") == {"burst": 5, "per": "day"}
	budget.at_most(1, "month") == {"burst": 1, "per": "month"}
}

test_what_is_no_budget_is_refused if {
	every given in [
		[0, "1h"], [-1, "1h"], [1.5, "1h"], ["5", "1h"], [null, "1h"], [1000000001, "1h"],
		[5, ""], [5, "1"], [5, "0h"], [5, "-1h"], [5, "1.5h"], [5, "1 hour"], [5, 3600], [5, null], [0, "day"], [1.5, "month"], ["5", "day"], [5, "week"],
	] {
		limit := object.union(budget.at_most(given[0], given[1]), {"name": "n", "key": ""})
		d := callgate.decision with input as sample.call
			with data.callgate.rules.allow as {{"id": "g"}}
			with data.callgate.rules.limit as {limit}
		{r.code | some r in d.reasons} == {"rules_malformed"}
	}
	every at_once in [0, 6, 1.5, "1", null] {
		budget.at_most_with(5, at_once, "1h").burst == 0
	}
}
