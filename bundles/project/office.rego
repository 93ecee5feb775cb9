package callgate.rules

import data.callgate.budget
import data.callgate.lib
import rego.v2

# METADATA
# title: Support refunds; refunds are destructive, so an approver is asked
allow contains {"id": "office.refund"} if {
	input.tool.name == "refund"
	lib.role("support")
}

# METADATA
# title: Analysts publish
allow contains {"id": "office.publish"} if {
	input.tool.name == "publish"
	lib.role("analyst")
}

# METADATA
# title: What nobody has curated is untrusted
label contains "untrusted-input" if {
	input.tool.name == "read-file"
	not _curated
}

_curated if regex.match(`^/docs/[a-z0-9_-]+[.]txt$`, input.args.path)

# METADATA
# title: Nothing goes out after untrusted input
deny contains {"code": "after_untrusted", "message": "this session has read untrusted input"} if {
	input.tool.name == "publish"
	not _untouched
}

_untouched if {
	is_array(input.session.labels)
	every label in input.session.labels { label != "untrusted-input" }
}

# METADATA
# title: Two listings an hour
limit contains {"name": "listings", "key": budget.key("principal"), "burst": 2, "per": "1h"} if input.tool.name == "list-dir"
