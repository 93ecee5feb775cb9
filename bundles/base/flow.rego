# METADATA
# title: Private data, untrusted content and a way out
# description: >-
#   Any two of them are harmless. With all three, whoever wrote the content can
#   have the data sent to them, so a person looks first. Counts once a rule takes
#   it over:
#   ask contains approval if some approval in flow.ask
#   label contains name if some name in flow.label
package callgate.flow

import data.callgate.lib
import data.callgate.sensitivity
import data.callgate.shape
import rego.v2

# METADATA
# title: The call may carry something out
# description: >-
#   The tool's manifest says so with the tag outbound, or the call has a URL or a
#   command, or what it has cannot be read.
outbound if not _quiet

_quiet if {
	_tagged
	not "outbound" in input.tool.tags
	shape.facts(input.facts)
	count(object.get(input.facts, "urls", [])) == 0
	count(object.get(input.facts, "commands", [])) == 0
}

_tagged if {
	is_array(input.tool.tags)
	shape.strings(input.tool.tags)
}

# METADATA
# title: The session holds private data, or the call reads some
private if not lib.untouched(["private-data"])

private if sensitivity.of({"memory", "pci", "pii", "secret"})

# METADATA
# title: The session holds what anybody may have written
untrusted if not lib.untouched(["untrusted-input"])

# METADATA
# title: Who looks when all three meet
ask contains {
	"name": "outflow",
	"count": 1,
	"from": {"roles": ["approver"]},
	"reason": "private data could leave at the word of untrusted content",
} if {
	outbound
	private
	untrusted
}

# METADATA
# title: Sensitive tools leave private-data
label contains name if some name in sensitivity.label

# METADATA
# title: Tools with the tag untrusted leave untrusted-input
label contains "untrusted-input" if not _trusted

_trusted if {
	_tagged
	not "untrusted" in input.tool.tags
}
