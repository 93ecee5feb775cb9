# METADATA
# title: What calls of a class need, beside an allow
# description: >-
#   Destructive and unclassified calls ask by default, and calls have budgets by
#   class: see callgate.defaults. What is here counts once a rule takes it over:
#   deny contains reason if some reason in classes.deny
package callgate.classes

import data.callgate.lib
import rego.v2

# METADATA
# title: Who writes has a role
deny contains {"code": "role_missing", "message": "whoever writes needs a role"} if {
	_writes
	not _somebody
}

# METADATA
# title: Who writes says why
deny contains {"code": "justification_missing", "message": "whoever writes says why, in at least 15 characters"} if {
	_writes
	not lib.justified
}

# What is of no known class is destructive, and may be a write as well.
_writes if not input.tool.class in {"destructive", "read", "unclassified"}

_somebody if count(lib.roles) > 0
