package callgate.defaults

import data.callgate.rules
import rego.v2

# METADATA
# title: Raw tools are refused, unless a rule waives that
# description: >-
#   A raw tool is handed its capabilities, and nothing holds it to them. Whoever
#   wants one names it: waive contains "raw" if input.tool.name == "x"
deny contains {
	"code": "raw_tool",
	"rule": "callgate.defaults.deny",
	"message": "nothing holds this tool to its capabilities",
} if {
	"raw" in input.tool.findings
	not "raw" in rules.waive
}
