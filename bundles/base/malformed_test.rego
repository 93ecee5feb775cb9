package callgate_test

import data.callgate
import rego.v2

refused(d) if {
	d.decision == "deny"
	{r.code | some r in d.reasons} == {"rules_malformed"}
}

# Each beside a rule that allows: what is malformed must not vanish.
test_allow_is_true if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as true
}

test_allow_of_true if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {grant, true}
}

test_allow_of_text if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {"refund"}
}

test_allow_of_unknown_key if {
	refused(callgate.decision) with input as reads with data.callgate.rules.allow as {{"id": "g", "host": "a.example"}}
}

test_ask_is_an_object if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as lead
}

test_ask_of_text if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {"lead"}
}

test_ask_without_from if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {object.remove(lead, ["from"])}
}

test_ask_of_unknown_key if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.ask as {object.union(lead, {"ttl": 60})}
}

test_deny_is_false if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as false
}

test_deny_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {7}
}

test_limit_without_per if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {object.remove(budget, ["per"])}
}

test_limit_of_unknown_key if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.limit as {object.union(budget, {"charge": "bytes"})}
}

test_waive_of_other if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.waive as {"limits"}
}

test_deny_without_code if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {{"message": "no"}}
}

test_deny_with_code_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.deny as {{"code": 7}}
}

test_label_of_number if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.label as {7}
}

test_label_that_is_no_set if {
	refused(callgate.decision) with input as reads
		with data.callgate.rules.allow as {grant}
		with data.callgate.rules.label as "private"
}
