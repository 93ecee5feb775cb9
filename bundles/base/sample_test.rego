package callgate.sample_test

import data.callgate.sample
import rego.v2

test_with_tool if {
	c := sample.with_tool("t", {"a": 1}, ["r"])
	[c.tool.name, c.tool.class, c.args, c.principal.roles] == ["t", "read", {"a": 1}, ["r"]]
}

test_url if sample.url("a.example").host == "a.example"

test_path if {
	sample.path("docs", "a/b", "read").segments == ["a", "b"]
	sample.path("docs", ".", "list").segments == []
}

test_command if {
	c := sample.command(["git", "status"])
	[c.name, c.argv, c.opaque] == ["git", ["git", "status"], false]
}
