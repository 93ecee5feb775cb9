# METADATA
# title: What sensitive tools need, beside an allow
# description: >-
#   By the sensitivity of what a tool returns, as its manifest states it. What
#   is here counts once a rule takes it over:
#   deny contains reason if some reason in sensitivity.deny
#   rows contains most if some most in sensitivity.rows
#   label contains name if some name in sensitivity.label
#   fields contains ["id", "name"] if { input.tool.name == "find-customer"; sensitivity.cut }
package callgate.sensitivity

import data.callgate.lib
import data.callgate.rules
import rego.v2

# METADATA
# title: The tool is of one of these kinds, or its kinds cannot be read
of(kinds) if {
	some kind in kinds
	kind in input.tool.sensitivity
}

of(_) if not _known

_known if {
	is_array(input.tool.sensitivity)
	every kind in input.tool.sensitivity { kind in {"memory", "pci", "pii", "secret"} }
}

# METADATA
# title: Only some fields of the result may be released to this principal
cut if {
	of({"pci", "pii"})
	not lib.role("pii_reader")
}

# METADATA
# title: Nobody runs a tool of unknown sensitivity
deny contains {"code": "sensitivity_unknown", "message": "the tool's sensitivity is of no known kind"} if not _known

# METADATA
# title: Personal data is for principals of a tenant
deny contains {"code": "tenant_missing", "message": "personal data is for principals of a tenant"} if {
	of({"pci", "pii"})
	not lib.tenanted
}

# METADATA
# title: Personal data is cut to fields that a rule states
deny contains {"code": "fields_missing", "message": "no rule says which fields of personal data are released"} if {
	cut
	rules.fields == set()
}

# METADATA
# title: Secrets are for a role
deny contains {"code": "role_missing", "message": "secrets need the role secret_reader"} if {
	of({"secret"})
	not lib.role("secret_reader")
}

# METADATA
# title: Secrets are for a reason
deny contains {"code": "justification_missing", "message": "whoever asks for secrets says why, in at least 15 characters"} if {
	of({"secret"})
	not lib.justified
}

# METADATA
# title: Memory is for its roles
deny contains {"code": "role_missing", "message": "memory needs the role memory_reader to read and memory_writer for all else"} if {
	of({"memory"})
	not _remembers
}

_remembers if lib.role("memory_writer")

_remembers if {
	lib.class == "read"
	lib.role("memory_reader")
}

# METADATA
# title: Fifty rows of personal data
rows contains 50 if cut

# METADATA
# title: Five hundred, for those who may read all of it
# description: The fifty still count for everybody else.
rows contains 500 if of({"pci", "pii"})

# METADATA
# title: What a session is marked with that has seen something sensitive
label contains "private-data" if of({"memory", "pci", "pii", "secret"})
