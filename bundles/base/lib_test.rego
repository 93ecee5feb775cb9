package callgate.lib_test

import data.callgate.lib
import data.callgate.sample
import rego.v2

test_class if lib.class == "write" with input.tool.class as "write"

test_unclassified_is_destructive if {
	lib.destructive with input.tool.class as "unclassified"
	lib.destructive with input.tool.class as 1
	lib.destructive with input as {}
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
