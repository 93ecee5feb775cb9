package callgate.args_test

import data.callgate.args
import rego.v2

broken(given, constraints) := names if {
	names := args.broken(constraints) with input.args as given
}

test_what_fits if {
	every case in [
		["EUR", {"allowed": ["EUR", "USD"]}],
		[null, {"allowed": [null]}],
		[{"a": [1]}, {"pinned": {"a": [1]}}],
		[false, {"pinned": false}],
		["/docs/a", {"prefix": "/docs/"}],
		[1, {"min": 1, "max": 1}],
		[-0.5, {"min": -1}],
		["ab-1", {"pattern": "[a-z]{2}-[0-9]"}],
		["a", {"pattern": "a|b"}],
		["", {"max_length": 0}],
		["äöü", {"min_length": 3, "max_length": 3}],
		[[1, 2], {"min_length": 2, "each": {"max": 2}}],
		[["a@x.example"], {"each": {"pattern": `[a-z]+@x[.]example`}}],
	] {
		broken({"a": case[0]}, {"a": case[1]}) == set()
	}
}

test_what_does_not if {
	every case in [
		["eur", {"allowed": ["EUR"]}], ["", {"allowed": ""}], ["a", {"allowed": {"a": "a"}}], [1, {"allowed": ["1"]}], [null, {"allowed": []}],
		["1", {"pinned": 1}], [0, {"pinned": false}], [null, {"pinned": false}],
		["/docs-secret", {"prefix": "/docs/"}], ["docs/", {"prefix": "/docs/"}], ["/Docs/", {"prefix": "/docs/"}], ["/doc", {"prefix": "/docs/"}], [["/docs/"], {"prefix": "/docs/"}], ["x", {"prefix": ""}], [null, {"prefix": "/"}], ["x", {"prefix": null}],
		[null, {"max": 100}], ["1", {"max": 100}], [101, {"max": 100}], [true, {"max": 100}], [1, {"max": null}], [1, {"max": "100"}],
		[[], {"min": 0}], [{}, {"min": 0}], ["0", {"min": 0}], [-1, {"min": 0}], [1, {"min": null}],
		["xab-1", {"pattern": "[a-z]{2}-[0-9]"}], ["ab-1\n", {"pattern": "[a-z]{2}-[0-9]"}], ["bx", {"pattern": "a|b"}], ["a\nb", {"pattern": "(?m)a$"}],
		["ax", {"pattern": "a)|(?:b"}], ["xb", {"pattern": "a)|(?:b"}], ["a", {"pattern": "("}], [1, {"pattern": "1"}], ["", {"pattern": null}],
		["ab", {"max_length": 1}], ["a", {"min_length": 2}], [1, {"min_length": 0}], [null, {"max_length": 9}], [{}, {"max_length": 9}], ["a", {"max_length": "9"}],
		[[1, 3], {"each": {"max": 2}}], ["ab", {"each": {"max_length": 9}}], [[], {"each": {"max": 2}}], [[1], {"each": {}}], [[1], {"each": "x"}], [[[1]], {"each": {"each": {"max": 1}}}],
		["a", {"pinned": "a", "max_len": 9}], ["a", {}], ["a", null], ["a", "a"], ["a", ["a"]],
		["EUR", {"allowed": ["EUR"], "pattern": "[a-z]+"}],
	] {
		broken({"a": case[0]}, {"a": case[1]}) == {"a"}
	}
}

test_an_argument_that_is_not_there if {
	every constraint in [{"max": 1}, {"max_length": 9}, {"allowed": [null]}, {"pinned": null}, {"each": {"max": 1}}] {
		broken({"b": 1}, {"a": constraint}) == {"a"}
	}
	args.broken({"a": {"max": 1}}) == {"a"} with input as {}
}

test_only_what_is_broken if {
	broken({"a": 1, "b": 2, "c": 3}, {"a": {"max": 1}, "b": {"max": 1}}) == {"b"}
	broken({"a": 1}, {}) == set()
}

test_no_constraints_at_all if {
	every constraints in [null, [], "a", true, [{"max": 1}]] {
		broken({"a": 1}, constraints) == {""}
	}
}
