package callgate.defaults_test

import data.callgate
import data.callgate.sample
import rego.v2

raw := object.union(sample.call, {"tool": {"findings": ["raw"]}})

grants := {{"id": "g", "fs": [{"root": "docs", "path": ".", "modes": ["read"]}]}}

test_raw_is_refused_by_default if {
	d := callgate.decision with input as raw with data.callgate.rules.allow as grants
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"raw_tool"}
}

test_raw_is_refused_beside_other_findings_and_waivers if {
	given := object.union(raw, {"tool": {"findings": ["hidden instructions", "raw"]}})
	d := callgate.decision with input as given
		with data.callgate.rules.allow as grants
		with data.callgate.rules.waive as {"ask", "limit"}
	d.decision == "deny"
}

test_a_waiver_lets_rules_decide if {
	d := callgate.decision with input as raw
		with data.callgate.rules.allow as grants
		with data.callgate.rules.waive as {"raw"}
	d.decision == "allow"
	d.grants == grants
}

test_a_waiver_permits_nothing if {
	d := callgate.decision with input as raw with data.callgate.rules.waive as {"raw"}
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"no_rule_allows"}
}

test_a_waiver_leaves_the_other_defaults if {
	given := object.union(raw, {"tool": {"class": "destructive"}})
	d := callgate.decision with input as given
		with data.callgate.rules.allow as grants
		with data.callgate.rules.waive as {"raw"}
	d.decision == "requires-approval"
	count(d.limits) == 1
}

test_other_findings_are_for_rules if {
	given := object.union(sample.call, {"tool": {"findings": ["hidden instructions", "raw sugar"]}})
	d := callgate.decision with input as given with data.callgate.rules.allow as grants
	d.decision == "allow"
}

test_a_restrict_layer_has_no_default if {
	d := callgate.restriction with input as raw
	d.decision == "pass"
}
