package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

fetch(queries, roles) := d if {
	urls := [{
		"scheme": "https", "host": "api.demo.test", "wildcard": "", "port": 443,
		"path": "/v1/status", "segments": ["v1", "status"], "query": q, "method": "GET",
	} |
		some q in queries
	]
	d := callgate.decision with input as object.union(
		sample.with_tool("fetch", {}, roles),
		{"facts": {"urls": urls}},
	)
}

test_analysts_fetch if {
	d := fetch([""], ["analyst"])
	d.decision == "allow"
	d.grants == {{"id": "web.read", "http": [{
		"hosts": ["api.demo.test", "intranet.demo.test"], "ports": [443], "methods": ["GET"], "paths": ["/v1"], "networks": ["demo"],
		"secret": {"name": "demo-api", "as": "bearer"},
	}]}}
}

test_others_do_not_fetch if fetch([""], ["visitor"]).decision == "deny"

test_queries_are_refused if {
	every queries in [["q=1"], ["", "q=1"], []] {
		{r.code | some r in fetch(queries, ["analyst"]).reasons} == {"no_queries"}
	}
}

test_without_facts_refused if {
	d := callgate.decision with input as sample.with_tool("fetch", {}, ["analyst"])
	d.decision == "deny"
}
