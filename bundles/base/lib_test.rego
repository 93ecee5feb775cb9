package callgate.lib_test

import data.callgate.lib
import data.callgate.sample
import rego.v2

test_class if lib.class == "write" with input.tool.class as "write"

test_unclassified_is_destructive if {
	lib.destructive with input.tool.class as "unclassified"
	lib.destructive with input.tool.class as 1
	lib.destructive with input as {}
	every class in [["read", "destructive"], ["read"], {"read": "read"}, "Read", "read ", "", null] {
		lib.destructive with input.tool.class as class
	}
	lib.class == "read" with input.tool as {"class": "read", "tags": ["destructive", "write"]} # tags are words, not classes
	not lib.destructive with input.tool.class as "read"
}

test_roles if lib.roles == {"a", "b"} with input.principal.roles as ["a", "b"]

test_no_roles if lib.roles == set() with input as {}

test_roles_that_are_no_list if lib.roles == set() with input.principal.roles as "admin"

test_roles_that_are_an_object if lib.roles == set() with input.principal.roles as {"x": "admin"}

test_inherited_roles if {
	lib.role("reader") with input as sample.with_tool("t", {}, ["lead"])
		with data.inherits as {"lead": ["analyst"], "analyst": ["reader"]}
	not lib.role("lead") with input as sample.with_tool("t", {}, ["analyst"])
		with data.inherits as {"lead": ["analyst"]}
}

test_a_circle_of_roles if {
	every own in [["a"], ["b"], ["a", "c"]] {
		roles := lib.roles with input.principal.roles as own with data.inherits as {"a": ["b"], "b": ["a", "b", "c"]}
		roles == {"a", "b", "c"}
	}
}

test_inheritance if {
	every inherits in [{}, {"lead": ["analyst"]}, {"lead": []}, {"analyst": ["reader"], "lead": ["analyst"]}] {
		lib.inheritance with input.principal.roles as ["lead"] with data.inherits as inherits
	}
	lib.inheritance with input as {}
}

test_inheritance_that_cannot_be_read if {
	every inherits in [null, true, 7, "lead", [], ["lead"]] {
		not lib.inheritance with input.principal.roles as ["lead"] with data.inherits as inherits
	}
	every of in [null, true, 7, "analyst", {"analyst": "analyst"}, [7], ["analyst", null]] {
		not lib.inheritance with input.principal.roles as ["lead"] with data.inherits as {"lead": of}
		not lib.inheritance with input.principal.roles as ["head"] with data.inherits as {"head": ["lead"], "lead": of}
	}
}

test_tool if {
	every patterns in [["t"], {"lab.*", "t"}, ["t*"], ["**"]] {
		lib.tool(patterns) with input.tool.name as "t"
	}
	lib.tool(["lab.*"]) with input.tool.name as "lab.fib"
	every patterns in [["lab.*"], ["*.t"], [], null, "t.x", [null, 7], ["T"], [""]] {
		not lib.tool(patterns) with input.tool.name as "t.x"
	}
	not lib.tool(["*"]) with input.tool.name as "lab.fib"
	lib.tool(["t[x"]) with input.tool.name as "t[x" # a name that would be no pattern
	not lib.tool(["**"]) with input as {}
}

lists := {"analyst": ["read", "lab.*"], "clerk": ["write"]}

test_listed if {
	every name in ["read", "lab.fib"] {
		lib.listed(lists) with input as sample.with_tool(name, {}, ["analyst"])
		lib.listed(lists) with input as sample.with_tool(name, {}, ["lead"]) with data.inherits as {"lead": ["analyst"]}
		not lib.listed(lists) with input as sample.with_tool(name, {}, ["clerk"])
		not lib.listed(lists) with input as sample.with_tool(name, {}, [])
		not lib.listed(null) with input as sample.with_tool(name, {}, ["analyst"])
	}
}

test_shown if {
	lib.shown(lists) == {"read", "lab.*", "write"} with input.principal.roles as ["analyst", "clerk"]
	lib.shown(lists) == set() with input.principal.roles as ["visitor"]
}

test_justified if {
	every why in ["because of #12345", "123456789012345", "  a b c d e f g h i j k l m n o "] {
		lib.justified with input.asserted.justification as why
	}
	every why in [
		"", "because", "12345678901234", "1 2 3 4 5 6 7 8 9 10          ", null, 123456789012345, ["because of #12345"],
		"12345678901234\u200b\u2800\u3164\ufeff\u0000\u00a0",
		"12345678901234\ufe00\ufe0f\u180b\u180c\u180d\u17b4\u17b5\udb40\udd00\udb40\uddef",
		"12345678901234\u2065\ufff0\ufff8\ud81b\udfe4\ud834\udd59\udb40\udc02\udb43\udfff\u00ad\u202e",
	] {
		not lib.justified with input.asserted.justification as why
	}
	not lib.justified with input as {}
}

test_untouched if {
	lib.untouched(["a"]) with input.session.labels as []
	lib.untouched({"a", "b"}) with input.session.labels as ["c"]
	not lib.untouched(["a", "b"]) with input.session.labels as ["c", "b"]
	every labels in [null, "c", {"c": "c"}, [7], ["c", null]] {
		not lib.untouched(["a"]) with input.session.labels as labels
	}
	not lib.untouched([]) with input as {}
}

test_tenanted if {
	lib.tenanted with input as sample.call
	not lib.tenanted with input.principal.tenant as ""
	not lib.tenanted with input.principal.tenant as 7
	not lib.tenanted with input as {}
}
