package callgate.flow_test

import data.callgate.flow
import data.callgate.sample
import rego.v2

call(tags, labels, facts, kinds) := object.union(sample.call, {
	"tool": {"tags": tags, "sensitivity": kinds},
	"session": {"labels": labels},
	"facts": facts,
})

asked(given) if {
	names := {a.name | some a in flow.ask} with input as given
	names == {"outflow"}
}

both := ["private-data", "untrusted-input"]

url := {"urls": [sample.url("x.example")]}

test_who_looks if {
	asks := flow.ask with input as call(["outbound"], both, {}, [])
	asks == {{"name": "outflow", "count": 1, "from": {"roles": ["approver"]}, "reason": "private data could leave at the word of untrusted content"}}
}

test_all_three_ask if {
	asked(call(["outbound"], both, {}, []))
	asked(call([], both, url, []))
	asked(call([], both, {"commands": [sample.command(["curl"])]}, []))
	asked(call(["outbound"], ["untrusted-input"], {}, ["pii"]))
}

test_any_two_do_not if {
	every given in [
		call([], both, {}, []), call([], both, {"urls": [], "commands": [], "paths": [sample.path("docs", "a", "read")]}, []),
		call(["outbound"], ["private-data"], {}, []), call(["outbound"], ["untrusted-input"], {}, []), call(["outbound"], [], url, ["secret"]),
	] {
		not asked(given)
	}
}

test_what_cannot_be_read_counts if {
	every tags in [null, "outbound", {}, [7], 7] { asked(call(tags, both, {}, [])) }
	every facts in [null, [], {"urls": ""}, {"urls": null}, {"urls": {}}, {"commands": "x"}, {"other": []}] { asked(call([], both, facts, [])) }
	every labels in [null, "x", {}, [7], ["x", null]] { asked(call(["outbound"], labels, {}, [])) }
	every kinds in [null, "", {}] { asked(call(["outbound"], ["untrusted-input"], {}, kinds)) }
	asked({})
}

test_labels if {
	every given in [
		[call([], [], {}, []), set()], [call(["untrusted"], [], {}, []), {"untrusted-input"}],
		[call([], [], {}, ["pci"]), {"private-data"}], [call(null, [], {}, null), {"private-data", "untrusted-input"}],
	] {
		flow.label == given[1] with input as given[0]
	}
}
