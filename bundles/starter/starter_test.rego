package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

# The tests say what they need, so that they pass whatever the data in starter/ says.
entry := {"who": [{"roles": ["analyst"]}], "grant": {"log": true}}

settings := {"tools": {"tool": entry}}

call := sample.with_tool("tool", {}, ["analyst"])

decided(all, given) := d if {
	d := callgate.decision with input as given with data.starter as all
		with data.inherits as {"lead": ["analyst"]}
}

with_entry(patch) := {"tools": {"tool": object.union(entry, patch)}}

without(d, keys) if {
	d.decision == "deny"
	{r.code | some r in d.reasons} == keys
}

test_granted_to_whom_the_entry_names if {
	d := decided(settings, call)
	d.decision == "allow"
	d.grants == {{"id": "starter", "log": true}}
	d.labels == set()
	{l.name | some l in d.limits} == {"class:read"}
}

test_inherited_roles_count if {
	decided(settings, sample.with_tool("tool", {}, ["lead"])).decision == "allow"
}

test_others_get_nothing if {
	every roles in [[], ["visitor"]] {
		without(decided(settings, sample.with_tool("tool", {}, roles)), {"no_rule_allows"})
	}
}

test_other_tools_get_nothing if {
	without(decided(settings, sample.with_tool("other", {}, ["analyst"])), {"no_rule_allows"})
}

test_by_id if {
	decided(with_entry({"who": [{"ids": ["alice"]}]}), call).decision == "allow"
	without(decided(with_entry({"who": [{"ids": ["bob"]}]}), call), {"no_rule_allows"})
}

test_by_kind if {
	decided(with_entry({"who": [{"kinds": ["agent"]}]}), call).decision == "allow"
	without(decided(with_entry({"who": [{"kinds": ["user"]}]}), call), {"no_rule_allows"})
}

test_by_tenant if {
	decided(with_entry({"who": [{"tenants": ["acme"]}]}), call).decision == "allow"
	without(decided(with_entry({"who": [{"tenants": ["other"]}]}), call), {"no_rule_allows"})
}

test_one_of_several_is_enough if {
	decided(with_entry({"who": [{"ids": ["bob"]}, {"roles": ["analyst"]}]}), call).decision == "allow"
}

test_all_of_one_must_hold if {
	decided(with_entry({"who": [{"roles": ["analyst"], "tenants": ["acme"]}]}), call).decision == "allow"
	without(decided(with_entry({"who": [{"roles": ["analyst"], "tenants": ["other"]}]}), call), {"no_rule_allows"})
}

money := {"count": 2, "from": {"roles": ["lead"], "ids": ["bob"]}, "ttl_s": 60, "reason": "r"}

with_approval(rule) := object.union(with_entry({"approvals": ["money"]}), {"approvals": {"money": rule}})

test_approval if {
	d := decided(with_approval(money), call)
	d.decision == "requires-approval"
	d.approvals == {object.union(money, {"name": "money"})}
}

# Sample calls are made on a Friday at 08:00.
test_approval_outside_of_hours if {
	hours := {"days": ["fri"], "from": "08:00", "to": "18:00", "offset": "Z"}
	decided(with_approval(object.union(money, {"outside": hours})), call).decision == "allow"
	every patch in [{"from": "00:00", "to": "24:00"}, {"from": "08:00", "to": "08:00"}] { # all day
		decided(with_approval(object.union(money, {"outside": object.union(hours, patch)})), call).decision == "allow"
	}
	every patch in [{"days": ["mon"]}, {"from": "08:01"}, {"offset": "-01:00"}] {
		d := decided(with_approval(object.union(money, {"outside": object.union(hours, patch)})), call)
		d.approvals == {object.union(money, {"name": "money"})}
	}
}

test_quotas_of_the_calendar if {
	every case in [
		[{"burst": 5, "per": "day", "by": "tenant"}, {"burst": 5, "per": "day"}],
		[{"at_most": 5, "per": "month", "by": "tenant"}, {"burst": 5, "per": "month"}],
	] {
		d := decided(with_limit(case[0]), call)
		some found in d.limits
		object.subset(found, case[1])
	}
}

test_destructive_tools_ask_by_default if {
	d := decided(settings, object.union(call, {"tool": {"class": "destructive"}}))
	d.decision == "requires-approval"
	{a.name | some a in d.approvals} == {"destructive"}
}

with_limit(budget) := object.union(with_entry({"limits": ["calls"]}), {"limits": {"calls": budget}})

limited(budget, given) := found if {
	d := decided(with_limit(budget), given)
	d.decision == "allow"
	some found in d.limits
	found.name == "calls"
}

test_limits_by if {
	every by, key in {
		"principal": `["acme","agent","alice"]`, "tenant": `["acme"]`, "everybody": "",
		"session": `["acme","agent","alice","session"]`, "tool": `["acme","tool"]`,
	} {
		limited({"burst": 2, "per": "1h", "by": by, "cost": 2}, call) == {"name": "calls", "burst": 2, "per": "1h", "cost": 2, "key": key}
	}
}

test_at_most if {
	limited({"at_most": 3, "per": "1h", "by": "everybody"}, call) == {"name": "calls", "key": "", "burst": 2, "per": "3600000000000ns", "cost": 1}
}

test_cost_of_an_argument if {
	given := {"burst": 100, "per": "1h", "by": "everybody", "cost_of": "amount"}
	limited(given, sample.with_tool("tool", {"amount": 7}, ["analyst"])).cost == 7
	limited(given, call).cost == 9007199254740991
}

test_labels if decided(with_entry({"labels": ["untrusted-input"]}), call).labels == {"untrusted-input"}

test_not_after if {
	all := with_entry({"not_after": ["untrusted-input"]})
	decided(all, call).decision == "allow"
	decided(all, object.union(call, {"session": {"labels": ["private"]}})).decision == "allow"
	without(decided(all, object.union(call, {"session": {"labels": ["private", "untrusted-input"]}})), {"not_after"})
}

test_frozen if {
	without(decided(with_entry({"frozen": true}), call), {"tool_frozen"})
	without(decided(object.union(settings, {"frozen": true}), call), {"frozen"})
	decided(object.union(with_entry({"frozen": false}), {"frozen": false}), call).decision == "allow"
}

test_blocked if {
	without(decided(object.union(settings, {"blocked": [{"ids": ["alice"], "tenants": ["acme"]}]}), call), {"blocked"})
	without(decided(object.union(settings, {"blocked": [{"roles": ["analyst"]}]}), sample.with_tool("tool", {}, ["lead"])), {"blocked"})
	decided(object.union(settings, {"blocked": [{"ids": ["bob"]}]}), call).decision == "allow"
}

test_findings_deny if {
	without(decided(settings, object.union(call, {"tool": {"findings": ["hidden instructions"]}})), {"tool_findings"})
}

test_a_raw_tool_can_be_waived if {
	raw := object.union(call, {"tool": {"findings": ["raw"]}})
	without(decided(settings, raw), {"raw_tool"})
	d := decided(settings, raw) with data.callgate.rules.waive as {"raw"}
	d.decision == "allow"
	both := decided(settings, object.union(call, {"tool": {"findings": ["raw", "hidden instructions"]}})) with data.callgate.rules.waive as {"raw"}
	without(both, {"tool_findings"})
}

test_by_list_of_a_role if {
	unnamed := {"tools": {"tool": {"grant": {}}}}
	every list in [["tool"], ["other", "to*"]] {
		decided(object.union(unnamed, {"roles": {"analyst": list}}), call).decision == "allow"
		decided(object.union(unnamed, {"roles": {"analyst": list}}), sample.with_tool("tool", {}, ["lead"])).decision == "allow"
		without(decided(object.union(unnamed, {"roles": {"clerk": list}}), call), {"no_rule_allows"})
	}
	without(decided(object.union(unnamed, {"roles": {"analyst": ["other"]}}), call), {"no_rule_allows"})
	without(decided(unnamed, call), {"no_rule_allows"})
	without(decided({"tools": {}, "roles": {"analyst": ["tool"]}}, call), {"no_rule_allows"})
}

test_visible if {
	all := {"roles": {"analyst": ["lab.*"], "clerk": ["file"]}, "tools": {"tool": entry, "other": {"grant": {}, "who": [{"ids": ["bob"]}]}}}
	callgate.visible == {"lab.*", "tool"} with input as call with data.starter as all
	callgate.visible == set() with input as call with data.starter as {"tools": {}, "roles": 7}
}

test_arguments if {
	all := with_entry({"args": {"amount": {"min": 1, "max": 100}}})
	decided(all, sample.with_tool("tool", {"amount": 100}, ["analyst"])).decision == "allow"
	every given in [{}, {"amount": 101}, {"amount": "1"}] {
		without(decided(all, sample.with_tool("tool", given, ["analyst"])), {"argument"})
	}
}

test_justification if {
	all := with_entry({"justify": true})
	without(decided(all, call), {"justification_missing"})
	decided(all, object.union(call, {"asserted": {"justification": "because of ticket 42"}})).decision == "allow"
	decided(with_entry({"justify": false}), call).decision == "allow"
}

test_fields_and_rows if {
	all := with_entry({"fields": ["id", "name"], "rows": 20})
	d := decided(all, call)
	d.fields == {"id", "name"}
	d.rows == 20
	reader := decided(all, sample.with_tool("tool", {}, ["analyst", "pii_reader"]))
	not "fields" in object.keys(reader)
}

test_personal_data if {
	given := object.union(call, {"tool": {"sensitivity": ["pii"]}})
	without(decided(settings, given), {"fields_missing"})
	d := decided(with_entry({"fields": ["id"], "rows": 200}), given)
	d.fields == {"id"}
	d.rows == 50
	d.labels == {"private-data"}
}

test_private_data_does_not_leave if {
	d := decided(settings, object.union(call, {"tool": {"tags": ["outbound"]}, "session": {"labels": ["private-data", "untrusted-input"]}}))
	d.decision == "requires-approval"
	{a.name | some a in d.approvals} == {"outflow"}
}

test_a_malformed_entry_permits_nothing if {
	every patch in [
		{"who": "analyst"}, {"who": []}, {"who": {}}, {"who": [{}]}, {"who": ["analyst"]}, {"who": null},
		{"who": [{"roles": "analyst"}]}, {"who": [{"roles": []}]}, {"who": [{"roles": [""]}]}, {"who": [{"roles": ["analyst"], "team": ["x"]}]},
		{"who": [{"roles": ["analyst"]}, {}]}, {"who": [{"roles": ["analyst"]}, {"ids": [7]}]}, {"who": [{"roles": ["analyst"]}, {"kinds": ["robot"]}]},
		{"grant": null}, {"grant": []}, {"grant": "all"}, {"grant": {"net": []}}, {"grant": {"id": "x"}}, {"grant": {"fs": "docs"}}, {"grant": {"fs": ["docs"]}},
		{"grant": {"http": {}}}, {"grant": {"exec": [true]}}, {"grant": {"bounds": {"calls": "1"}}},
		{"frozen": "yes"}, {"frozen": null}, {"frozen": 0}, {"frozne": true}, {"justify": "yes"}, {"justify": null},
		{"args": null}, {"args": {}}, {"args": {"amount": {}}}, {"args": {"amount": 100}}, {"args": ["amount"]},
		{"fields": "id"}, {"fields": []}, {"fields": [""]}, {"fields": {"id": "id"}}, {"rows": 0}, {"rows": "50"}, {"rows": null},
		{"labels": "x"}, {"labels": []}, {"labels": [7]}, {"labels": ["Two words"]}, {"labels": null},
		{"not_after": "x"}, {"not_after": []}, {"not_after": [null]}, {"not_after": {"x": true}},
		{"limits": {}}, {"limits": []}, {"limits": "calls"}, {"limits": [7]}, {"limits": ["calls"]}, {"approvals": ["money"]}, {"approvals": "money"}, {"approvals": []},
		{"approval": money}, {"approvals": null}, {"limits": null},
	] {
		malformed(object.union(object.remove(entry, object.keys(patch)), patch), {})
	}
}

malformed(changed, others) if {
	d := decided(object.union({"tools": {"tool": changed}}, others), call)
	d.decision == "deny"
	"starter_malformed" in {r.code | some r in d.reasons}
}

test_a_malformed_limit_permits_nothing if {
	every budget in [
		null, [], "1/h", 7, {}, {"burst": 1, "per": "1h"}, {"per": "1h", "by": "tenant"}, {"burst": 1, "by": "tenant"}, {"burst": 1, "at_most": 1, "per": "1h", "by": "tenant"},
		{"burst": "1", "per": "1h", "by": "tenant"}, {"burst": 1, "per": 1, "by": "tenant"}, {"burst": 1, "per": "1 day", "by": "tenant"}, {"burst": 1, "per": "1h", "by": "nobody"},
		{"burst": 1, "per": "1h", "by": "tenant", "cost": 0}, {"burst": 1, "per": "1h", "by": "tenant", "cost": 1, "cost_of": "n"}, {"burst": 1, "per": "1h", "by": "tenant", "cost_of": ""},
		{"at_most": 1.5, "per": "1h", "by": "tenant"}, {"burst": 1, "per": "1h", "by": "tenant", "name": "x"},
	] {
		malformed(object.union(entry, {"limits": ["calls"]}), {"limits": {"calls": budget}})
	}
	malformed(object.union(entry, {"limits": ["class:read"]}), {"limits": {"class:read": {"burst": 1, "per": "1h", "by": "tenant"}}})
}

test_a_malformed_approval_permits_nothing if {
	hours := {"days": ["fri"], "from": "08:00", "to": "18:00", "offset": "Z"}
	every rule in [
		null, true, [], {}, {"count": 1}, {"count": 0, "from": {"roles": ["lead"]}}, {"count": 65, "from": {"roles": ["lead"]}}, {"count": 1, "from": {}},
		{"count": 1, "from": {"roles": []}}, {"count": 1, "from": "lead"}, {"count": 1, "from": {"teams": ["lead"]}}, object.union(money, {"ttl": 1}), object.union(money, {"ttl_s": "1h"}),
		object.union(money, {"reason": 1}), object.union(money, {"outside": "night"}), object.union(money, {"outside": object.union(hours, {"days": ["Friday"]})}),
		object.union(money, {"outside": object.union(hours, {"days": []})}), object.union(money, {"outside": object.union(hours, {"from": "8:00"})}),
		object.union(money, {"outside": object.union(hours, {"offset": "Europe/Berlin"})}), object.union(money, {"outside": object.remove(hours, ["offset"])}),
	] {
		malformed(object.union(entry, {"approvals": ["money"]}), {"approvals": {"money": rule}})
	}
}

test_an_entry_needs_a_grant if malformed(object.remove(entry, ["grant"]), {})

test_malformed_settings_permit_nothing if {
	every patch in [
		{"frozen": 1}, {"frozen": null}, {"blocked": {}}, {"blocked": "alice"}, {"blocked": [{}]}, {"blocked": ["alice"]},
		{"blocked": [{"ids": "alice"}]}, {"tool": {}}, {"blocked": null}, {"roles": null}, {"roles": []}, {"roles": {"analyst": "tool"}}, {"roles": {"analyst": []}},
		{"roles": {"analyst": [7]}}, {"limits": []}, {"approvals": null},
	] {
		malformed(entry, patch)
	}
}

test_no_entry_permits_nothing if {
	every value in [null, true, "entry", 7, []] {
		decided({"tools": {"tool": value}}, call).decision == "deny"
	}
}

# Whoever adds rules beside the data still needs the data.
test_without_settings_nobody_else_permits if {
	every all in [null, {}, {"tool": {}}] {
		d := callgate.decision with input as call
			with data.starter as all
			with data.callgate.rules.allow as {{"id": "more"}}
		without(d, {"starter_malformed"})
	}
}

test_no_tools_permit_nothing if {
	every all in [null, true, "all", 7, [], {}, {"tools": null}, {"tools": [entry]}, {"tools": "tool"}] {
		without(decided(all, call), {"starter_malformed"})
	}
	without(decided({"tools": {}}, call), {"no_rule_allows"})
}

# The engine never makes such an input.
test_a_malformed_call_gets_nothing if {
	all := with_entry({"who": [{"ids": ["alice"]}, {"roles": ["analyst"]}], "not_after": ["untrusted-input"]})
	every patch in [
		{"principal": {"id": 7}}, {"principal": {"kind": null}}, {"principal": {"tenant": []}}, {"principal": {"roles": {"analyst": "analyst"}}}, {"principal": {"roles": ["analyst", 7]}},
		{"session": {"labels": null}}, {"session": {"labels": "x"}}, {"session": {"labels": {"x": "x"}}}, {"session": {"labels": [7]}}, {"session": {"labels": ["private", ["untrusted-input"]]}},
		{"tool": {"class": "Read"}}, {"facts": {"urls": null}}, {"env": {"now_ns": "now"}},
	] {
		d := decided(all, object.union(call, patch))
		d.decision == "deny"
		"input_malformed" in {r.code | some r in d.reasons}
	}
}
