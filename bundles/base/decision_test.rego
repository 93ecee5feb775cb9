package callgate_test

import data.callgate
import data.callgate.sample
import rego.v2

reads := sample.with_tool("t", {}, ["analyst"])

destroys := object.union(reads, {"tool": {"class": "destructive"}})

grant := {"id": "g", "fs": [{"root": "docs", "path": ".", "modes": ["read"]}]}

lead := {"name": "lead", "count": 1, "from": {"roles": ["lead"]}}

budget := {"name": "budget", "key": "k", "burst": 5, "per": "1h"}

test_nothing_said_denies if {
	d := callgate.decision with input as reads
	d == {"decision": "deny", "reasons": [{"code": "no_rule_allows", "rule": "callgate"}]}
}

test_no_input_denies if {
	d := callgate.decision with input as {}
	d.decision == "deny"
}

test_allow_carries_its_grant if {
	d := callgate.decision with input as reads with data.callgate.rules.allow as {grant}
	d.decision == "allow"
	d.grants == {grant}
	d.limits == {{"name": "class:read", "key": `["acme","agent","alice"]`, "burst": 60, "per": "1m"}}
}

test_ask if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {lead}
	d.decision == "requires-approval"
	d.approvals == {lead}
	d.grants == {grant}
}

test_ask_does_not_permit if {
	d := callgate.decision with input as reads with data.callgate.rules.ask as {lead}
	d.decision == "deny"
}

test_waive_does_not_permit if {
	d := callgate.decision with input as reads with data.callgate.rules.waive as {"ask", "limit"}
	d.decision == "deny"
}

test_deny_wins if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {{"code": "frozen", "message": "not today"}}
	d.decision == "deny"
	d.reasons == {{"code": "frozen", "message": "not today", "rule": "callgate.rules.deny"}}
}

# A word may be an argument, and codes are recorded.
test_deny_by_word if {
	d := callgate.decision with input as reads with data.callgate.rules.deny as {"frozen"}
	d.reasons == {{"code": "denied", "message": "frozen", "rule": "callgate.rules.deny"}}
}

test_deny_by_text if {
	d := callgate.decision with input as reads with data.callgate.rules.deny as {"Not today."}
	d.reasons == {{"code": "denied", "message": "Not today.", "rule": "callgate.rules.deny"}}
}

test_limits_of_rules_and_defaults if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {budget}
	{l.name | some l in d.limits} == {"budget", "class:read"}
}

test_default_limits_can_be_waived if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {budget}
		with data.callgate.rules.waive as {"limit"}
	d.limits == {budget}
}

bursts[class] := burst if {
	some class in ["read", "write", "destructive", "unclassified"]
	called := object.union(reads, {"tool": {"class": class}})
	d := callgate.decision with input as called with data.callgate.rules.allow as {grant}
	some l in d.limits
	l.key == `["acme","agent","alice"]`
	burst := l.burst
}

test_default_limits_by_class if bursts == {"read": 60, "write": 10, "destructive": 2, "unclassified": 2}

test_limits_of_nobody_are_shared if {
	d := callgate.decision with input as {} with data.callgate.rules.allow as {grant} with data.callgate.rules.waive as {"ask"}
	{l.key | some l in d.limits} == {""}
}

test_limits_are_per_tenant_and_kind if {
	keys := {l.key |
		some principal in [{"tenant": "a"}, {"tenant": "b"}, {"kind": "user"}]
		d := callgate.decision with input as object.union(reads, {"principal": principal})
			with data.callgate.rules.allow as {grant}
		some l in d.limits
	}
	count(keys) == 3
}

test_services_get_ten_times_as_much if {
	d := callgate.decision with input as object.union(reads, {"principal": {"kind": "service"}})
		with data.callgate.rules.allow as {grant}
	{l.burst | some l in d.limits} == {600}
}

test_destructive_asks if {
	d := callgate.decision with input as destroys with data.callgate.rules.allow as {grant}
	d.decision == "requires-approval"
	d.approvals == {{"name": "destructive", "count": 1, "from": {"roles": ["approver"]}, "reason": "the call is destructive"}}
}

test_unclassified_asks if {
	d := callgate.decision with input as object.union(reads, {"tool": {"class": "unclassified"}})
		with data.callgate.rules.allow as {grant}
	d.decision == "requires-approval"
}

test_destructive_asks_once if {
	d := callgate.decision with input as destroys
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {lead}
	d.approvals == {lead}
}

test_destructive_can_be_waived if {
	d := callgate.decision with input as destroys
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.waive as {"ask"}
	d.decision == "allow"
}

test_labels_of_admitted_calls if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.label as {"private-data"}
	d.labels == {"private-data"}
}

# What is not said is not there.
test_effects if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.cap as {{"http": []}, {"bounds": {"calls": 1}}}
		with data.callgate.rules.result_label as {"untrusted-input"}
		with data.callgate.rules.redact as {"/customer/email", "card"}
		with data.callgate.rules.rows as {50, 500}
		with data.callgate.rules.frame as {"untrusted"}
	d.decision == "allow"
	d.cap == {{"http": []}, {"bounds": {"calls": 1}}}
	d.result_labels == {"untrusted-input"}
	d.redact == {"/customer/email", "card"}
	d.rows == 50
	d.frame == {"untrusted"}
	object.keys(d) == {"decision", "grants", "limits", "labels", "cap", "result_labels", "redact", "rows", "frame"}
}

test_one_effect_each if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.cap as {{"http": []}}
		with data.callgate.rules.result_label as {"untrusted-input"}
		with data.callgate.rules.redact as {"card"}
		with data.callgate.rules.rows as {50}
		with data.callgate.rules.frame as {"untrusted"}
	object.keys(d) == {"decision", "grants", "limits", "labels", "cap", "result_labels", "redact", "rows", "frame"}
}

fields(lists) := found if {
	d := callgate.decision with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.fields as lists
	found := d.fields
}

# Two rules that cut leave less than each of them.
test_fields if {
	fields({["id", "name"]}) == {"id", "name"}
	fields({["id", "name"], {"name", "email"}}) == {"name"}
	fields({["id"], ["name"]}) == set()
	fields({[]}) == set()
}

test_restriction_passes if {
	d := callgate.restriction with input as reads
	d == {"decision": "pass", "limits": set(), "labels": set()}
}

test_restriction_has_no_defaults if {
	d := callgate.restriction with input as destroys
	d.decision == "pass"
}

test_restriction_denies if {
	d := callgate.restriction with input as reads
		with data.callgate.rules.deny as {"not today"}
		with data.callgate.rules.ask as {lead}
	d == {"decision": "deny", "reasons": {{"code": "denied", "message": "not today", "rule": "callgate.rules.deny"}}}
}

test_restriction_asks if {
	d := callgate.restriction with input as reads
		with data.callgate.rules.ask as {lead}
		with data.callgate.rules.limit as {budget}
	d.decision == "requires-approval"
	d.approvals == {lead}
	d.limits == {budget}
}

test_restriction_narrows if {
	d := callgate.restriction with input as reads
		with data.callgate.rules.limit as {budget}
		with data.callgate.rules.label as {"private-data"}
		with data.callgate.rules.cap as {{"exec": []}}
	d == {"decision": "pass", "limits": {budget}, "labels": {"private-data"}, "cap": {{"exec": []}}}
}

# A rule that means to permit would be misunderstood for ever.
test_restriction_never_allows if {
	every word, entries in {"allow": {grant}, "waive": {"ask"}} {
		d := callgate.restriction with input as reads
			with data.callgate.rules.allow as {entry | some entry in entries; word == "allow"}
			with data.callgate.rules.waive as {entry | some entry in entries; word == "waive"}
		d.decision == "deny"
		d.reasons == {{"code": "rules_malformed", "rule": "callgate", "message": $"{word} has no meaning in a restrict layer"}}
	}
	d := callgate.restriction with input as reads with data.callgate.rules.allow as true
	d.decision == "deny"
}

test_visible if {
	callgate.visible == {"read-file", "lab.*"} with input as reads with data.callgate.rules.visible as {"read-file", "lab.*", "", 7, null}
}
