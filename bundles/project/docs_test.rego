package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

lab := ["chatter", "fib", "hog", "recurse", "spin"]

asked(tool, roles) := d if {
	d := callgate.decision with input as sample.with_tool(tool, {}, roles)
}

test_analysts_read_docs if {
	d := asked("read-file", ["analyst"])
	d.decision == "allow"
	d.grants == {{"id": "docs.read", "fs": [{"root": "docs", "path": ".", "modes": ["read"]}]}}
}

test_analysts_list_docs if {
	d := asked("list-dir", ["analyst"])
	d.decision == "allow"
	d.grants == {{"id": "docs.list", "fs": [{"root": "docs", "path": ".", "modes": ["list"]}]}}
}

test_the_lab_gets_no_files if {
	every tool in lab {
		d := asked(tool, ["analyst"])
		d.decision == "allow"
		d.grants == {{"id": "lab", "bounds": data.lab.bounds}}
	}
}

test_others_may_not if {
	every tool in array.concat(["read-file", "list-dir"], lab) {
		asked(tool, []).decision == "deny"
		asked(tool, ["visitor"]).decision == "deny"
	}
}

test_other_tools_may_not if asked("delete-file", ["analyst"]).decision == "deny"

test_findings_deny if {
	d := callgate.decision with input as sample.with_tool("read-file", {}, ["analyst"])
		with input.tool.findings as ["hidden instructions"]
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"tool_findings"}
}

# A waiver is for the tool that it names, and for raw alone.
test_a_raw_tool_can_be_waived if {
	given := sample.with_tool("read-file", {}, ["analyst"])
	refused := callgate.decision with input as given with input.tool.findings as ["raw"]
	refused.decision == "deny"
	{r.code | some r in refused.reasons} == {"raw_tool"}
	d := callgate.decision with input as given with input.tool.findings as ["raw"] with data.callgate.rules.waive as {"raw"}
	d.decision == "allow"
	every findings in [["hidden instructions", "raw"], ["raw", "raw"], "raw", null, [["raw"]]] {
		bad := callgate.decision with input as given with input.tool.findings as findings with data.callgate.rules.waive as {"raw"}
		bad.decision == "deny"
	}
}
