# What coding agents fetch.
package callgate.rules

import data.agent.settings
import data.callgate.facts
import data.callgate.lib
import rego.v2

# METADATA
# title: Developers' agents fetch from listed hosts
allow contains {"id": "coding.fetch", "http": [{"hosts": data.coding.hosts, "ports": [443], "methods": ["GET", "HEAD"], "paths": ["/"], "networks": ["public"]}]} if {
	input.tool.name == "fetch"
	_developer
	facts.hosts(data.coding.hosts)
	facts.methods({"GET", "HEAD"})
	every u in input.facts.urls {
		u.scheme == "https"
		u.port == 443
	}
}

# METADATA
# title: After private data a person looks at every request
ask contains {"name": "coding", "count": 1, "from": {"roles": data.coding.approvers}, "reason": "this session has read private data, and a URL can carry it"} if {
	input.tool.name == "fetch"
	settings.sound
	not lib.untouched({"private-data"})
}

# METADATA
# title: What was fetched is untrusted
label contains "untrusted-input" if input.tool.name == "fetch"
