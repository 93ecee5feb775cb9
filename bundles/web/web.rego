package callgate.rules

import data.callgate.lib
import rego.v2

# METADATA
# title: Analysts read two services, as the demo's account
# description: The credential is named here and attached by the host; no tool ever sees it.
allow contains grant if {
	input.tool.name in ["fetch", "fetch-in-go"]
	lib.role("analyst")
	grant := {"id": "web.read", "http": [{
		"hosts": ["api.demo.test", "intranet.demo.test"],
		"ports": [443],
		"methods": ["GET"],
		"paths": ["/v1"],
		"networks": ["demo"],
		"secret": {"name": "demo-api", "as": "bearer"},
	}]}
}

# METADATA
# title: What is fetched is for reading, not for sending
deny contains {"code": "no_queries", "message": "a query could carry data out"} if {
	input.tool.name in ["fetch", "fetch-in-go"]
	not _plain
}

_plain if {
	count(input.facts.urls) > 0
	every url in input.facts.urls { url.query == "" }
}
