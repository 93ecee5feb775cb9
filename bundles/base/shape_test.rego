package callgate.shape_test

import data.callgate.sample
import data.callgate.shape
import rego.v2

not_texts := [null, true, 0, "", [], {}, set()]

test_text if {
	shape.text("x")
	every x in not_texts { not shape.text(x) }
}

test_name if {
	every x in ["a", "a.b:c-d_9"] { shape.name(x) }
	every x in array.concat(not_texts, ["A", "9", "a b", "a\n", "ä"]) { not shape.name(x) }
	not shape.name(concat("", ["a" | some _ in numbers.range(1, 65)]))
}

test_lists if {
	every x in [["a"], {"a"}] {
		shape.texts(x)
		shape.names(x)
		shape.strings(x)
	}
	shape.strings([])
	shape.objects([{}])
	shape.objects([])
	every x in [null, "a", {"a": "a"}, [7], [null]] {
		not shape.texts(x)
		not shape.names(x)
		not shape.strings(x)
		not shape.objects(x)
	}
	not shape.texts([])
	not shape.names([])
}

test_whole if {
	every x in [1, 10, 2.0] { shape.whole(x, 10) }
	every x in [0, 11, 1.5, -1, "1", null, true, [1]] { not shape.whole(x, 10) }
	shape.amount(9007199254740991)
	not shape.amount(9007199254740992)
}

test_span if {
	every x in ["1s", "90m", "1h30m", "1.5h", "3600000000000ns"] { shape.span(x) }
	every x in ["", "1", "h", "1 h", "-1h", "+1h", "1d", 60, null, "1h "] { not shape.span(x) }
}

test_per if {
	every x in ["day", "month", "1h30m"] { shape.per(x) }
	every x in ["days", "Day", "week", "1d", "", null, 1] { not shape.per(x) }
}

test_keys if {
	shape.keys({"a": 1}, {"a", "b"}, {"a"})
	not shape.keys({"a": 1, "c": 1}, {"a", "b"}, {"a"})
	not shape.keys({"b": 1}, {"a", "b"}, {"a"})
	not shape.keys([], {"a"}, set())
	not shape.keys(null, {"a"}, set())
}

test_from if {
	every x in [{"roles": ["a"]}, {"ids": {"a"}}, {"roles": ["a"], "ids": ["b"]}] { shape.from(x) }
	every x in [null, {}, "a", ["a"], {"roles": []}, {"roles": "a"}, {"roles": [""]}, {"teams": ["a"]}, {"roles": ["a"], "ids": []}] { not shape.from(x) }
}

http := {"hosts": ["a.example"], "ports": [443], "methods": ["GET"], "paths": ["/"], "networks": ["public"]}

whole := {
	"fs": [{"root": "docs", "path": ".", "modes": ["read"]}],
	"http": [http, object.union(http, {"plain": true, "secret": {"name": "s", "as": "bearer"}})],
	"exec": [{"command": "git", "args": ["log", "*"], "env": ["TZ=UTC"], "ports": [443]}, {"command": "ls", "enforcement": "enforced"}],
	"secrets": ["s"], "workspace": true, "plan": false, "log": true, "precise_clock": true,
	"bounds": {"calls": 3, "memory_bytes": 65536},
}

test_capabilities if {
	shape.capabilities(whole)
	shape.capabilities({})
	shape.capabilities({"fs": [], "http": [], "exec": [], "secrets": [], "bounds": {}})
}

test_no_capabilities if {
	every x in [
		null, true, [], "all", {"net": []}, {"id": "x"},
		{"fs": "docs"}, {"fs": ["docs"]}, {"fs": [{}]}, {"fs": [{"root": "d", "path": ".", "modes": []}]}, {"fs": [{"root": "d", "path": ".", "modes": "read"}]},
		{"fs": [{"root": "d", "path": null, "modes": ["read"]}]}, {"fs": [{"root": 7, "path": ".", "modes": ["read"]}]}, {"fs": [{"root": "d", "path": ".", "modes": ["rw"]}]},
		{"fs": [{"root": "d", "path": ".", "modes": ["read"], "mode": "read"}]}, {"fs": {}},
		{"http": {}}, {"http": [{}]}, {"http": [object.remove(http, ["ports"])]}, {"http": [object.union(http, {"ports": ["443"]})]}, {"http": [object.union(http, {"ports": []})]},
		{"http": [object.union(http, {"ports": [65536]})]}, {"http": [object.union(http, {"plain": "no"})]}, {"http": [object.union(http, {"secret": "s"})]},
		{"http": [object.union(http, {"secret": {"name": "s"}})]}, {"http": [object.union(http, {"secret": {"name": "s", "as": "query"}})]}, {"http": [object.union(http, {"hosts": []})]},
		{"exec": [true]}, {"exec": [{}]}, {"exec": [{"command": "git", "args": "log"}]}, {"exec": [{"command": ""}]}, {"exec": [{"command": "git", "env": "A=1"}]}, {"exec": [{"command": "git", "env": [1]}]}, {"exec": [{"command": "git", "ports": 443}]}, {"exec": [{"command": "git", "ports": ["443"]}]}, {"exec": [{"command": "git", "ports": [0]}]}, {"exec": [{"command": "git", "enforcement": "unavailable"}]}, {"exec": "git"},
		{"secrets": "s"}, {"secrets": [7]}, {"secrets": [""]}, {"log": "yes"}, {"plan": 1}, {"precise_clock": "yes"}, {"workspace": null},
		{"bounds": []}, {"bounds": {"calls": "1"}}, {"bounds": {"calls": 0}}, {"bounds": {"calls": 1.5}}, {"bounds": {"call": 1}},
	] {
		not shape.capabilities(x)
	}
}

full := object.union(sample.call, {"session": {"plan": [task]}, "facts": {
	"urls": [sample.url("x.example")],
	"paths": [sample.path("docs", "a", "read")],
	"commands": [sample.command(["ls"])],
}})

task := {"id": "a", "status": "active", "tools": ["ls"], "after": ["b"]}

test_inputs if {
	shape.input_sound with input as sample.call
	shape.input_sound with input as full
	shape.input_sound with input as object.union(full, {"tool": {"tags": ["a"], "sensitivity": ["pii"]}, "session": {"labels": ["x"]}})
}

# Whatever is gone or is null.
test_inputs_of_which_something_is_missing if {
	paths := [path | walk(full, [path, _]); count(path) > 0]
	count(paths) > 50
	every path in paths {
		changed := json.patch(full, [{"op": "replace", "path": path, "value": null}])
		not shape.input_sound with input as changed
	}
	every path in [p | some p in paths; is_string(p[count(p) - 1]); not _optional(p)] {
		gone := json.patch(full, [{"op": "remove", "path": path}])
		not shape.input_sound with input as gone
	}
}

_optional(path) if path in {["facts", "commands"], ["facts", "paths"], ["facts", "urls"]}

test_inputs_of_another_type if {
	every patch in [
		{"extra": 1}, {"facts": {"other": []}}, {"tool": {"class": "Read"}}, {"tool": {"kind": "x"}}, {"tool": {"tags": ["a", 7]}}, {"tool": {"findings": {"a": "a"}}},
		{"principal": {"kind": "robot"}}, {"principal": {"id": ""}}, {"principal": {"roles": [null]}}, {"principal": {"auth": {"method": "none"}}}, {"session": {"labels": {"x": "x"}}},
		{"session": {"calls": "1"}}, {"env": {"now_ns": "1"}}, {"asserted": {"justification": 1}}, {"args": []}, {"facts": {"urls": {}}}, {"facts": {"urls": ["x"]}},
		{"session": {"plan": ["a"]}}, {"session": {"plan": [object.union(task, {"status": "running"})]}}, {"session": {"plan": [object.union(task, {"tools": [1]})]}},
		{"facts": {"paths": [{"root": "docs"}]}}, {"facts": {"commands": [{"name": "ls"}]}},
	] {
		not shape.input_sound with input as object.union(full, patch)
	}
	every x in [null, [], "x", {}] {
		not shape.input_sound with input as x
	}
}
