package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

# The tests say what they need, so that they pass whatever starter/data.json says.
entry := {"who": [{"roles": ["analyst"]}], "grant": {"log": true}}

settings := {"tools": {"tool": entry}}

call := sample.with_tool("tool", {}, ["analyst"])

decided(all, given) := d if {
	d := callgate.decision with input as given with data.starter as all with data.inherits as {"lead": ["analyst"]}
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

test_approval if {
	d := decided(with_entry({"approval": {"count": 2, "from": {"roles": ["lead"], "ids": ["bob"]}, "ttl_s": 60, "reason": "r"}}), call)
	d.decision == "requires-approval"
	d.approvals == {{"name": "approval", "count": 2, "from": {"roles": ["lead"], "ids": ["bob"]}, "ttl_s": 60, "reason": "r"}}
}

test_destructive_tools_ask_by_default if {
	d := decided(settings, object.union(call, {"tool": {"class": "destructive"}}))
	d.decision == "requires-approval"
	{a.name | some a in d.approvals} == {"destructive"}
}

test_limits_by if {
	every by, key in {"principal": `["acme","agent","alice"]`, "tenant": `["acme"]`, "everybody": ""} {
		d := decided(with_entry({"limits": [{"name": "calls", "burst": 2, "per": "1h", "by": by, "cost": 2}]}), call)
		d.decision == "allow"
		some l in d.limits
		l == {"name": "calls", "burst": 2, "per": "1h", "cost": 2, "key": key}
	}
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

test_a_malformed_entry_permits_nothing if {
	every patch in [
		{"who": "analyst"}, {"who": []}, {"who": {}}, {"who": [{}]}, {"who": ["analyst"]}, {"who": null},
		{"who": [{"roles": "analyst"}]}, {"who": [{"roles": []}]}, {"who": [{"roles": [""]}]}, {"who": [{"roles": ["analyst"], "team": ["x"]}]},
		{"who": [{"roles": ["analyst"]}, {}]}, {"who": [{"roles": ["analyst"]}, {"ids": [7]}]}, {"who": [{"roles": ["analyst"]}, {"kinds": ["robot"]}]},
		{"grant": null}, {"grant": []}, {"grant": "all"}, {"grant": {"net": []}}, {"grant": {"id": "x"}}, {"grant": {"fs": "docs"}}, {"grant": {"fs": ["docs"]}},
		{"grant": {"http": {}}}, {"grant": {"exec": [true]}}, {"grant": {"log": "yes"}}, {"grant": {"plan": 1}}, {"grant": {"workspace": null}},
		{"grant": {"secrets": "key"}}, {"grant": {"secrets": []}}, {"grant": {"secrets": [7]}}, {"grant": {"bounds": []}}, {"grant": {"bounds": {"calls": "1"}}},
		{"grant": {"bounds": {"calls": 0}}}, {"grant": {"bounds": {"calls": 1.5}}}, {"grant": {"bounds": {"calls": 9007199254740992}}},
		{"frozen": "yes"}, {"frozen": null}, {"frozen": 0}, {"frozne": true},
		{"approval": null}, {"approval": true}, {"approval": {}}, {"approval": {"count": 1}}, {"approval": {"count": 0, "from": {"roles": ["lead"]}}},
		{"approval": {"count": 65, "from": {"roles": ["lead"]}}}, {"approval": {"count": 1, "from": {}}}, {"approval": {"count": 1, "from": {"roles": []}}},
		{"approval": {"count": 1, "from": "lead"}}, {"approval": {"count": 1, "from": {"teams": ["lead"]}}}, {"approval": {"count": 1, "from": {"roles": ["lead"]}, "ttl": 1}},
		{"approval": {"count": 1, "from": {"roles": ["lead"]}, "ttl_s": "1h"}}, {"approval": {"count": 1, "from": {"roles": ["lead"]}, "reason": 1}},
		{"labels": "x"}, {"labels": []}, {"labels": [7]}, {"labels": ["Two words"]}, {"labels": null},
		{"not_after": "x"}, {"not_after": []}, {"not_after": [null]}, {"not_after": {"x": true}},
		{"limits": {}}, {"limits": []}, {"limits": "1/h"}, {"limits": [7]}, {"limits": [{}]}, {"limits": [{"name": "x", "burst": 1, "per": "1h"}]},
		{"limits": [{"name": "class:read", "burst": 1, "per": "1h", "by": "tenant"}]}, {"limits": [{"name": "x", "burst": "1", "per": "1h", "by": "tenant"}]},
		{"limits": [{"name": "x", "burst": 1, "per": 1, "by": "tenant"}]}, {"limits": [{"name": "x", "burst": 1, "per": "1 day", "by": "tenant"}]},
		{"limits": [{"name": "x", "burst": 1, "per": "1h", "by": "nobody"}]}, {"limits": [{"name": "x", "burst": 1, "per": "1h", "by": "tenant", "cost": 0}]},
	] {
		changed := {"tools": {"tool": object.union(object.remove(entry, object.keys(patch)), patch)}}
		d := decided(changed, call)
		d.decision == "deny"
		"starter_malformed" in {r.code | some r in d.reasons}
	}
}

test_an_entry_needs_both_of_who_and_grant if {
	every key in ["who", "grant"] {
		without(decided({"tools": {"tool": object.remove(entry, [key])}}, call), {"starter_malformed"})
	}
}

test_malformed_settings_permit_nothing if {
	every patch in [
		{"frozen": 1}, {"frozen": null}, {"blocked": {}}, {"blocked": "alice"}, {"blocked": [{}]}, {"blocked": ["alice"]},
		{"blocked": [{"ids": "alice"}]}, {"tool": {}}, {"blocked": null},
	] {
		d := decided(object.union(settings, patch), call)
		d.decision == "deny"
		"starter_malformed" in {r.code | some r in d.reasons}
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
	without(decided({"tools": {}}, call), {"no_rule_allows"})
	every all in [null, true, "all", 7, [], {}, {"tools": null}, {"tools": [entry]}, {"tools": "tool"}] {
		without(decided(all, call), {"starter_malformed"})
	}
}

# The engine never makes such an input.
test_a_malformed_principal_gets_nothing if {
	all := with_entry({"who": [{"ids": ["alice"]}, {"roles": ["analyst"]}]})
	every patch in [{"id": 7}, {"kind": null}, {"tenant": []}, {"roles": {"analyst": "analyst"}}, {"roles": ["analyst", 7]}] {
		without(decided(all, object.union(call, {"principal": patch})), {"no_rule_allows"})
	}
	every key in ["id", "kind", "tenant", "roles"] {
		without(decided(all, object.union(object.remove(call, ["principal"]), {"principal": object.remove(call.principal, [key])})), {"no_rule_allows"})
	}
}

test_a_malformed_session_gets_nothing if {
	all := with_entry({"not_after": ["untrusted-input"]})
	every labels in [null, "x", {"x": "x"}, [7], ["private", ["untrusted-input"]]] {
		without(decided(all, object.union(call, {"session": {"labels": labels}})), {"not_after"})
	}
}
