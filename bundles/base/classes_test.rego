package callgate.classes_test

import data.callgate.classes
import data.callgate.sample
import rego.v2

codes(class, roles, why) := found if {
	found := {r.code | some r in classes.deny} with input as object.union(
		sample.with_tool("t", {}, roles),
		{"tool": {"class": class}, "asserted": {"justification": why}},
	)
}

why := "because of ticket 42"

test_who_writes_has_a_role_and_says_why if {
	codes("write", ["clerk"], why) == set()
	codes("write", [], why) == {"role_missing"}
	codes("write", ["clerk"], "") == {"justification_missing"}
	codes("write", [], "because") == {"justification_missing", "role_missing"}
}

test_who_does_not_need_not if {
	every class in ["read", "destructive", "unclassified"] { codes(class, [], "") == set() }
}

test_an_unknown_class_may_be_a_write if {
	every class in ["", null, 7, "Write", ["write"]] { codes(class, [], "") == {"justification_missing", "role_missing"} }
	found := {r.code | some r in classes.deny} with input as {}
	found == {"justification_missing", "role_missing"}
}
