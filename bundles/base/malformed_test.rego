package callgate_test

import data.callgate
import rego.v2

refused(d) if {
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"rules_malformed"}
}

# Each beside a rule that allows: what is malformed must not vanish.
test_allow_is_true if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as true
}

test_allow_of_true if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {grant, true}
}

test_allow_of_text if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {"refund"}
}

test_allow_of_unknown_key if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {{"id": "g", "host": "a.example"}}
}

test_ask_is_an_object if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as lead
}

test_ask_of_text if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {"lead"}
}

test_ask_without_from if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {object.remove(lead, ["from"])}
}

test_ask_of_unknown_key if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {object.union(lead, {"ttl": 60})}
}

test_deny_is_false if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as false
}

test_deny_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {7}
}

test_limit_without_per if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {object.remove(budget, ["per"])}
}

test_limit_of_unknown_key if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {object.union(budget, {"charges": "fuel"})}
}

test_waive_of_other if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.waive as {"limits"}
}

test_deny_without_code if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {{"message": "no"}}
}

test_deny_with_code_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {{"code": 7}}
}

test_label_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.label as {7}
}

test_label_that_is_no_set if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.label as "private"
}

says(word, entries) := d if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant} | {entry | word == "allow"; some entry in entries}
		with data.callgate.rules.ask as {entry | word == "ask"; some entry in entries}
		with data.callgate.rules.cap as {entry | word == "cap"; some entry in entries}
		with data.callgate.rules.deny as {entry | word == "deny"; some entry in entries}
		with data.callgate.rules.fields as {entry | word == "fields"; some entry in entries}
		with data.callgate.rules.frame as {entry | word == "frame"; some entry in entries}
		with data.callgate.rules.label as {entry | word == "label"; some entry in entries}
		with data.callgate.rules.limit as {entry | word == "limit"; some entry in entries}
		with data.callgate.rules.redact as {entry | word == "redact"; some entry in entries}
		with data.callgate.rules.result_label as {entry | word == "result_label"; some entry in entries}
		with data.callgate.rules.rows as {entry | word == "rows"; some entry in entries}
		with data.callgate.rules.waive as {entry | word == "waive"; some entry in entries}
}

test_entries_of_another_type if {
	every word, entries in {
		"allow": [null, true, 7, "refund", ["fs"]],
		"ask": [null, true, 7, "lead", [lead]],
		"cap": [null, true, 7, "http", [{"http": []}]],
		"deny": [null, true, 7, ["x"]],
		"limit": [null, true, 7, "5/h", [budget]],
		"label": [null, true, "", "Two Words", ["x"], {"x": "x"}],
		"result_label": [null, 7, "", "Two Words", ["x"]],
		"frame": [null, 7, "", "Two Words", ["x"]],
		"redact": [null, 7, "", "customer/email", "/", "/a//b", ["/a"]],
		"fields": [null, 7, "id", {"id": "id"}, [7], [""], ["id", null]],
		"rows": [null, "50", 0, -1, 1.5, [50], 9007199254740992],
		"waive": [null, 7, "", "limits", ["ask"]],
	} {
		every entry in entries { refused(says(word, {entry})) }
	}
}

test_keys_of_another_type if {
	every patch in [{"id": 7}, {"id": "Two Words"}, {"fs": "docs"}, {"http": {}}, {"log": "yes"}, {"bounds": {"calls": "1"}}] {
		refused(says("allow", {object.union(grant, patch)}))
	}
	every patch in [{"id": "x"}, {"fs": "docs"}, {"http": null}, {"bounds": {"calls": 0}}] {
		refused(says("cap", {patch}))
	}
	every patch in [
		{"name": ""}, {"name": 7}, {"count": "1"}, {"count": 0}, {"count": 1.5}, {"count": 65}, {"from": "lead"}, {"from": ["lead"]}, {"ttl_s": 0}, {"ttl_s": "1h"}, {"reason": 7},
	] {
		refused(says("ask", {object.union(lead, patch)}))
	}
	refused(says("ask", {object.union(object.remove(lead, ["from"]), {"from": {}})}))
	refused(says("ask", {object.union(object.remove(lead, ["from"]), {"from": {"roles": []}})}))
	every patch in [{"name": null}, {"key": 7}, {"key": null}, {"burst": 0}, {"burst": "5"}, {"cost": 0}, {"cost": 0.5}, {"per": "hour"}, {"per": 60}, {"charge": "Two Words"}, {"charge": null}, {"charge": 7}] {
		refused(says("limit", {object.union(budget, patch)}))
	}
	every patch in [{"code": ""}, {"code": "Not today"}, {"message": 7}, {"remedy": null}, {"hidden": "yes"}, {"rule": ["x"]}, {"reason": "x"}] {
		"rules_malformed" in {r.code | some r in says("deny", {object.union({"code": "x"}, patch)}).reasons}
	}
}

# Whoever made the mistake is told which it is.
test_problems_have_words if {
	every case in [
		["ask", object.remove(lead, ["from"]), {"ask has an entry without from"}],
		["ask", object.union(lead, {"ttl": 60}), {"ask has an entry with the unknown key ttl"}],
		["ask", object.union(lead, {"count": 0}), {"ask has an entry whose count is malformed"}],
		["limit", {"name": 7, "per": "1h", "key": "k", "brust": 5}, {"limit has an entry whose name is malformed", "limit has an entry with the unknown key brust", "limit has an entry without burst"}],
		["limit", object.union(budget, {"charge": "fuel", "cost": 1}), {"limit has an entry with both a cost and a charge that is measured"}],
		["limit", object.union(budget, {"charge": "cents"}), {"limit has an entry with a charge that needs a cost"}],
		["limit", object.union(budget, {"charge": "cents", "cost": 0}), {"limit has an entry whose cost is malformed"}],
		["deny", {"message": "no"}, {"deny has an entry without code"}],
		["deny", 7, {"deny has an entry that is neither a reason nor text"}],
		["cap", "http", {"cap has an entry that is not an object"}],
		["label", "Two Words", {"label has a malformed entry"}],
	] {
		{r.message | some r in says(case[0], {case[1]}).reasons; r.code == "rules_malformed"} == case[2]
	}
	d := callgate.decision with input as reads with data.callgate.rules.allow as {grant} with data.callgate.rules.rows as 50
	{r.message | some r in d.reasons} == {"rows is not a set"}
}

test_every_family if {
	every family, value in {
		"fs": [], "http": [], "exec": [], "secrets": [], "workspace": true, "plan": true, "log": true, "precise_clock": true, "bounds": {"calls": 1},
	} {
		says("allow", {{"id": "g2", family: value}}).decision == "allow"
		says("cap", {{family: value}}).decision == "allow"
	}
}

test_times_to_answer if {
	says("ask", {object.union(lead, {"ttl_s": 31622400})}).decision == "requires-approval"
	refused(says("ask", {object.union(lead, {"ttl_s": 31622401})}))
	says("ask", {object.union(lead, {"count": 64})}).decision == "requires-approval"
}

test_deny_without_a_word if {
	{r.code | some r in says("deny", {""}).reasons} == {"denied", "rules_malformed"}
}

test_whole_entries if {
	every word, entries in {
		"allow": [{}, {"id": "g2", "log": true}],
		"ask": [object.union(lead, {"ttl_s": 60, "reason": "money"})],
		"cap": [{}, {"http": [], "workspace": false}],
		"label": ["private-data"], "result_label": ["a:b"], "frame": ["untrusted"], "redact": ["/a/b", "card"],
		"fields": [["id"], {"id"}, []], "rows": [1], "waive": ["ask", "limit", "raw"],
		"limit": [
			object.union(budget, {"cost": 2, "per": "1h30m"}), object.union(budget, {"per": "day"}), object.union(budget, {"per": "month", "cost": 3}),
			object.union(budget, {"charge": "output_bytes"}), object.union(budget, {"charge": "http_bytes", "per": "day"}),
			object.union(budget, {"charge": "fuel"}), object.union(budget, {"charge": "time_ms"}), object.union(budget, {"charge": "cents", "cost": 5}),
		],
	} {
		every entry in entries { says(word, {entry}).decision in {"allow", "requires-approval"} }
	}
	d := says("deny", {{"code": "x", "message": "m", "remedy": "r", "rule": "a.b", "hidden": true}})
	d.reasons == {{"code": "x", "message": "m", "remedy": "r", "rule": "a.b", "hidden": true}}
}

test_words_that_are_no_sets if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {grant} with data.callgate.rules.cap as {"http": []}
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {grant} with data.callgate.rules.rows as 50
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {grant} with data.callgate.rules.fields as ["id"]
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as [grant]
}

# A rule that refuses a role would not know who has it.
test_roles_that_cannot_be_told_refuse if {
	every inherits in [{"analyst": "clerk"}, {"analyst": null}, {"analyst": ["clerk", 7]}] {
		refused(callgate.decision) with input as reads
			with data.inherits as inherits
			with data.callgate.rules.allow as {grant}
		d := callgate.restriction with input as reads with data.inherits as inherits
		refused(d)
	}
	d := callgate.decision with input as reads
		with data.inherits as {"clerk": "analyst"}
		with data.callgate.rules.allow as {grant}
	d.decision == "allow"
}
