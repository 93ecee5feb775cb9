package callgate.rules

import data.callgate.lib
import rego.v2

# METADATA
# title: Analysts read files in docs
allow contains {"id": "docs.read", "fs": [{"root": "docs", "path": ".", "modes": ["read"]}]} if {
	input.tool.name == "read-file"
	lib.role("analyst")
}

# METADATA
# title: Analysts list directories in docs
allow contains {"id": "docs.list", "fs": [{"root": "docs", "path": ".", "modes": ["list"]}]} if {
	input.tool.name == "list-dir"
	lib.role("analyst")
}

# METADATA
# title: Analysts run the lab's tools, which get nothing but a little time and memory
allow contains {"id": "lab", "bounds": data.lab.bounds} if {
	input.tool.name in {"chatter", "fib", "hog", "recurse", "spin"}
	lib.role("analyst")
}

# METADATA
# title: Nobody runs a tool with open findings
# description: >-
#   raw alone is for the base library, which refuses such tools unless a rule waives
#   that. Not "if there are some": an input without the list must be refused too.
deny contains {"code": "tool_findings", "message": $"{input.tool.name} has open findings"} if {
	not input.tool.findings in [[], ["raw"]]
}
