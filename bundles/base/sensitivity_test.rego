package callgate.sensitivity_test

import data.callgate
import data.callgate.sample
import data.callgate.sensitivity
import rego.v2

tool(kinds, class, roles) := object.union(
	sample.with_tool("t", {}, roles),
	{"tool": {"sensitivity": kinds, "class": class}},
)

codes(given) := found if {
	found := {r.code | some r in sensitivity.deny} with input as given
}

test_what_is_not_sensitive_is_left_alone if {
	given := tool([], "read", [])
	codes(given) == set()
	sensitivity.rows == set() with input as given
	sensitivity.label == set() with input as given
	not sensitivity.cut with input as given
	codes(object.union(given, {"principal": {"tenant": ""}})) == set()
}

test_personal_data_needs_a_tenant_and_is_cut if {
	every kind in ["pii", "pci"] {
		given := tool([kind], "read", [])
		codes(given) == {"fields_missing"}
		sensitivity.cut with input as given
		min(sensitivity.rows) == 50 with input as given
		sensitivity.label == {"private-data"} with input as given
		codes(object.union(given, {"principal": {"tenant": ""}})) == {"fields_missing", "tenant_missing"}
		found := {r.code | some r in sensitivity.deny} with input as given with data.callgate.rules.fields as {["id"]}
		found == set()
	}
}

test_pii_readers_read_all_of_it if {
	every roles in [["pii_reader"], ["auditor"]] {
		given := tool(["pii"], "read", roles)
		found := {r.code | some r in sensitivity.deny} with input as given with data.inherits as {"auditor": ["pii_reader"]}
		found == set()
		rows := sensitivity.rows with input as given with data.inherits as {"auditor": ["pii_reader"]}
		rows == {500}
	}
	codes(object.union(tool(["pii"], "read", ["pii_reader"]), {"principal": {"tenant": ""}})) == {"tenant_missing"}
}

test_rows_by_kind if {
	every kind, want in {"pii": {500}, "pci": {500}, "secret": set(), "memory": set()} {
		rows := sensitivity.rows with input as tool([kind], "read", ["pii_reader"])
		rows == want
	}
}

test_every_kind_leaves_a_mark if {
	every kind in ["memory", "pci", "pii", "secret"] {
		label := sensitivity.label with input as tool([kind], "read", [])
		label == {"private-data"}
	}
}

test_secrets_need_a_role_and_a_reason if {
	codes(tool(["secret"], "read", [])) == {"justification_missing", "role_missing"}
	codes(tool(["secret"], "read", ["secret_reader"])) == {"justification_missing"}
	codes(object.union(tool(["secret"], "read", ["secret_reader"]), {"asserted": {"justification": "because of ticket 42"}})) == set()
}

test_memory_needs_its_roles if {
	codes(tool(["memory"], "read", [])) == {"role_missing"}
	codes(tool(["memory"], "read", ["memory_reader"])) == set()
	codes(tool(["memory"], "read", ["memory_writer"])) == set()
	codes(tool(["memory"], "write", ["memory_reader"])) == {"role_missing"}
	codes(tool(["memory"], "write", ["memory_writer"])) == set()
}

test_what_cannot_be_read_is_all_of_it if {
	every kinds in [null, "pii", {"pii": "pii"}, ["phi"], [7], ["pii", null], 7] {
		given := tool(kinds, "read", [])
		"sensitivity_unknown" in codes(given)
		sensitivity.cut with input as given
		sensitivity.label == {"private-data"} with input as given
	}
	"sensitivity_unknown" in {r.code | some r in sensitivity.deny} with input as {}
}

test_taken_over if {
	given := tool(["pii"], "read", [])
	rows := sensitivity.rows with input as given
	label := sensitivity.label with input as given
	d := callgate.decision with input as given
		with data.callgate.rules.allow as {{"id": "g"}}
		with data.callgate.rules.rows as rows
		with data.callgate.rules.label as label
		with data.callgate.rules.fields as {["id", "name"]}
	d.decision == "allow"
	d.rows == 50
	d.fields == {"id", "name"}
	d.labels == {"private-data"}
}
