package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

# What the data says as it is shipped.
shipped(tool, class, roles, labels) := d if {
	d := callgate.decision with input as object.union(
		sample.with_tool(tool, {"amount": 5}, roles),
		{"tool": {"class": class}, "session": {"labels": labels}},
	)
}

test_shipped_reads if {
	d := shipped("read-file", "read", ["analyst"], [])
	d.decision == "allow"
	d.grants == {{"id": "starter", "fs": [{"root": "docs", "path": ".", "modes": ["read"]}]}}
	d.labels == {"untrusted-input"}
}

test_shipped_listings if {
	d := shipped("list-dir", "read", ["analyst"], [])
	d.decision == "allow"
	some l in d.limits
	l.name == "listings"
	l.burst == 2
}

test_shipped_refunds if {
	d := shipped("refund", "destructive", ["support"], [])
	d.decision == "requires-approval"
	{a.from.roles | some a in d.approvals} == {["approver"]}
	{l.name | some l in d.limits} == {"class:destructive", "refunds"}
	shipped("refund", "destructive", ["analyst"], []).decision == "deny"
}

test_shipped_publishing if {
	shipped("publish", "write", ["analyst"], []).decision == "allow"
	shipped("publish", "write", ["analyst"], ["untrusted-input"]).decision == "deny"
}

test_shipped_lab if {
	every tool in ["chatter", "fib", "hog", "recurse", "spin"] {
		d := shipped(tool, "read", ["analyst"], [])
		d.decision == "allow"
		d.grants == {{"id": "starter", "bounds": {"memory_bytes": 16777216, "timeout_ms": 1000, "output_bytes": 65536}}}
	}
}

test_shipped_to_nobody_else if {
	every tool in object.keys(data.starter.tools) {
		shipped(tool, "read", ["visitor"], []).decision == "deny"
	}
}
