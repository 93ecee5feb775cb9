# Files of coding agents.
package callgate.rules

import data.agent.paths
import data.agent.settings
import data.callgate.facts
import rego.v2

_workspace := {root: ["."] | some root in data.coding.workspace.roots}

# METADATA
# title: Developers' agents read and list the workspace
allow contains {"id": "coding.read", "fs": [{"root": r, "path": ".", "modes": ["list", "read"]} | some r in data.coding.workspace.roots]} if {
	input.tool.name in {"list-dir", "read-file"}
	_developer
	facts.paths(_workspace, {"list", "read"})
}

# METADATA
# title: Developers' agents write in the workspace
allow contains {"id": "coding.write", "fs": [{"root": r, "path": ".", "modes": ["append", "list", "read", "write"]} | some r in data.coding.workspace.roots]} if {
	input.tool.name in {"edit-file", "write-file"}
	_developer
	facts.paths(_workspace, {"append", "list", "read", "write"})
}

# METADATA
# title: No file tool reads or writes credentials
deny contains {"code": "credentials", "message": "the path is a place of credentials"} if {
	input.tool.name in {"edit-file", "list-dir", "read-file", "write-file"}
	some text in paths.texts
	paths.credential(text)
}

# METADATA
# title: No file is written that runs by itself
deny contains {"code": "persistence", "message": "what is written there runs later"} if {
	input.tool.name in {"edit-file", "write-file"}
	some text in paths.written
	paths.persistence(text)
}

# METADATA
# title: A person looks at changes of pipelines and hooks
ask contains {"name": "coding", "count": 1, "from": {"roles": data.coding.approvers}, "reason": "a pipeline or a hook would run it"} if {
	input.tool.name in {"edit-file", "write-file"}
	settings.sound
	some text in paths.written
	paths.pipeline(text)
}

# METADATA
# title: Private files leave a mark on the session
label contains "private-data" if {
	input.tool.name in {"edit-file", "list-dir", "read-file"}
	some p in input.facts.paths
	some part in p.segments
	paths.private(part)
}
