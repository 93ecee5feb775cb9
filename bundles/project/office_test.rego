package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

refund(roles) := d if {
	d := callgate.decision with input as object.union(
		sample.with_tool("refund", {"amount": 500}, roles),
		{"tool": {"class": "destructive"}},
	)
}

read(path) := d if {
	d := callgate.decision with input as sample.with_tool("read-file", {"path": path}, ["analyst"])
}

publish(labels) := d if {
	d := callgate.decision with input as object.union(
		sample.with_tool("publish", {"text": "x"}, ["analyst"]),
		{"session": {"labels": labels}},
	)
}

test_refunds_ask if {
	d := refund(["support"])
	d.decision == "requires-approval"
	{a.name | some a in d.approvals} == {"destructive"}
}

test_others_do_not_refund if refund(["analyst"]).decision == "deny"

test_curated_files_leave_no_mark if read("/docs/welcome.txt").labels == set()

test_everything_else_does if {
	every path in ["/docs/inbox/mail.txt", "/docs/./inbox/mail.txt", "/docs//inbox/mail.txt", "mail.txt", ""] {
		read(path).labels == {"untrusted-input"}
	}
}

test_publish if publish([]).decision == "allow"

test_publish_with_other_labels if publish(["private-data"]).decision == "allow"

test_not_after_untrusted_input if {
	d := publish(["private-data", "untrusted-input"])
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"after_untrusted"}
}

test_listings_are_limited if {
	d := callgate.decision with input as sample.with_tool("list-dir", {}, ["analyst"])
	some l in d.limits
	l.name == "listings"
	l.burst == 2
}

# A name is one's own within a tenant only.
test_listings_of_others_are_their_own if {
	keys := {l.key |
		some principal in [{}, {"tenant": "rival"}, {"kind": "user"}, {"id": "bob"}]
		d := callgate.decision with input as object.union(sample.with_tool("list-dir", {}, ["analyst"]), {"principal": principal})
		some l in d.limits
		l.name == "listings"
	}
	count(keys) == 4
}

test_each_rule_is_about_its_own_tool if {
	every roles in [["support"], ["support", "visitor"]] {
		every tool in ["publish", "read-file", "list-dir", "fib", "other"] { asked(tool, roles).decision == "deny" }
	}
	d := callgate.decision with input as object.union(sample.with_tool("list-dir", {}, ["analyst"]), {"session": {"labels": ["untrusted-input"]}})
	d.decision == "allow"
	d.labels == set()
	{l.name | some l in read("/docs/welcome.txt").limits} == {"class:read"}
}

test_others_do_not_publish if {
	every roles in [[], ["support"], ["visitor"]] { asked("publish", roles).decision == "deny" }
}

test_not_with_labels_that_cannot_be_read if {
	every labels in [null, "x", {"x": "y"}, 7] { publish(labels).decision == "deny" }
}
