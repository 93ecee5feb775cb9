package callgate.facts_test

import data.callgate.facts
import data.callgate.sample
import rego.v2

at(host, wildcard) := object.union(sample.url(host), {"wildcard": wildcard})

api := at("api.x.example", "*.x.example")

urls(list) := {"urls": list}

test_hosts if {
	facts.hosts({"api.x.example"}) with input.facts as urls([api])
	facts.hosts(["*.x.example"]) with input.facts as urls([api])
	facts.hosts(["*.x.example", "y.example"]) with input.facts as urls([api, at("y.example", "")])
}

test_other_hosts if {
	every case in [
		[[api], ["x.example"]], [[api], ["*.example"]], [[api], []], [[api], [""]], [[api], null], [[api], "api.x.example"],
		[[api, at("evil.example", "")], ["api.x.example"]],
		[[at("evil.example", "")], [""]],
		[[at("", "")], [""]],
	] {
		not facts.hosts(case[1]) with input.facts as urls(case[0])
	}
}

test_nothing_fits_no_facts if {
	every given in [
		{}, {"urls": []}, {"urls": null}, {"urls": {}}, {"urls": "api.x.example"}, {"urls": [null]}, {"urls": ["api.x.example"]},
		{"paths": []}, {"commands": []}, null, [], {"urls": [object.remove(api, ["wildcard"])]}, {"urls": [object.union(api, {"host": 1})]},
		{"urls": [api], "extra": []},
	] {
		not facts.hosts(["api.x.example", "", null, "*.x.example"]) with input.facts as given
		not facts.methods(["GET"]) with input.facts as given
		not facts.paths({"docs": ["."]}, {"read"}) with input.facts as given
		not facts.commands({"git"}) with input.facts as given
		not facts.argv("git", [[]]) with input.facts as given
	}
	not facts.hosts(["api.x.example"]) with input as {}
}

test_methods if {
	facts.methods({"GET", "HEAD"}) with input.facts as urls([api])
	not facts.methods({"HEAD"}) with input.facts as urls([api])
	not facts.methods({"GET"}) with input.facts as urls([api, object.union(api, {"method": "POST"})])
}

in_docs(list) := {"paths": [sample.path("docs", p, "read") | some p in list]}

test_paths if {
	every case in [[["inbox"], ["inbox"]], [["inbox/a", "inbox/b/c"], ["inbox"]], [["a/b"], ["a/b"]], [["x", "."], ["."]], [["x/1", "y/1"], ["x", "y"]]] {
		facts.paths({"docs": case[1]}, {"read"}) with input.facts as in_docs(case[0])
	}
}

test_other_paths if {
	every case in [
		[["inbox2"], ["inbox"]], [["in"], ["inbox"]], [["."], ["inbox"]], [["inbox", "x"], ["inbox"]], [["inbox"], []], [["inbox"], [""]], [["inbox"], [null]],
		[["inbox"], ["inbox/"]], [["inbox"], ["/inbox"]], [["a"], ["a/b"]], [["inbox"], null],
	] {
		not facts.paths({"docs": case[1]}, {"read"}) with input.facts as in_docs(case[0])
	}
	not facts.paths({"other": ["."]}, {"read"}) with input.facts as in_docs(["a"])
	not facts.paths({"docs": ["."]}, {"write"}) with input.facts as in_docs(["a"])
	not facts.paths(null, {"read"}) with input.facts as in_docs(["a"])
}

run(patch) := {"commands": [object.union(sample.command(["git", "log", "--oneline"]), patch)]}

test_commands if {
	facts.commands({"git"}) with input.facts as run({})
	facts.commands({"git", "sudo"}) with input.facts as run({"via": ["sudo"]})
	facts.commands({"git"}) with input.facts as run({"reads": ["in"]})
	facts.commands({"/usr/bin/git"}) with input.facts as run({"argv": ["/usr/bin/git", "log"]})
}

test_other_commands if {
	every patch in [{"argv": ["sh", "log"]}, {"argv": ["/tmp/git", "log"]}, {"argv": []}, {"name": ""}, {"opaque": true}, {"via": ["sudo"]}, {"writes": ["out"]}, {"via": "git"}, {"writes": "out"}, {"opaque": "false"}] {
		not facts.commands({"git", ""}) with input.facts as run(patch)
	}
	two := array.concat(run({}).commands, [sample.command(["rm"])])
	not facts.commands({"git"}) with input.facts as {"commands": two}
}

test_writes if {
	facts.commands_writing({"git"}, ["out"]) with input.facts as run({"writes": ["out/a"]})
	facts.commands_writing({"git"}, ["/tmp/x/"]) with input.facts as run({"writes": ["/tmp/x/a/b", "/tmp/x/c"]})
	every file in ["out", "out2/a", "/etc/out/a", "out/../a", "out/./a", "a", ""] {
		not facts.commands_writing({"git"}, ["out", "", 7]) with input.facts as run({"writes": ["out/a", file]})
	}
}

test_argv if {
	facts.argv("git", [["status"], ["log", "--oneline"]]) with input.facts as run({})
	facts.argv("rm", []) with input.facts as run({})
	facts.argv("git", [[]]) with input.facts as run({})
	not facts.argv("git", [["status"], ["log", "-p"], ["log", "--oneline", "x"]]) with input.facts as run({})
	not facts.argv("git", []) with input.facts as run({})
	not facts.argv("rm", []) with input.facts as run({"name": ""})
}

test_within if {
	p := sample.path("docs", "a/b", "read")
	facts.within(p, ".")
	facts.within(p, "a")
	not facts.within(p, "b")
	not facts.within(p, 7)
	not facts.within({"segments": "a"}, ".")
}
