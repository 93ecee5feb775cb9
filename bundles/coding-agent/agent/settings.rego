# METADATA
# title: What data.coding says, when it is sound
# description: >-
#   data.coding configures the bundle. A setting of another type would make a list
#   of what is protected an empty one, so nothing runs unless all of it is sound:
#   names in private are those of single directories or files. A pattern of commands that is not one fits nothing.
package agent.settings

import data.callgate.shape
import rego.v2

# METADATA
# title: data.coding has every setting, of the type it is documented with
sound if {
	every name in ["roles", "approvers", "wrappers", "hosts", "protected_branches", "private"] {
		_strings(data.coding[name])
	}
	shape.some_of(data.coding.approvers)
	_strings(data.coding.workspace.roots)
	_strings(data.coding.workspace.paths)
	every path in data.coding.workspace.paths {
		regex.match(`^(/[^/]+)+$`, path)
		count({part | some part in split(path, "/")} & {".", ".."}) == 0
	}
	every name in data.coding.private { regex.match(`^[^/:=@,;"'\s()<>*?\[\]{}]+$`, name) }
	count({name | some name in data.coding.private} & {".", ".."}) == 0
	every pattern in data.coding.protected_branches { _branch(pattern) }
	is_object(data.coding.commands)
}

# Branches are named without refs/heads/. What glob.match would take for an error is
# not given to it, for to an evaluator that may mean nothing said.
_branch(pattern) if {
	not regex.match(`^(?:refs/|heads/)`, pattern)
	regex.match(`^(?:[^\[\]{}\\]|\\.|\[!?[^\[\]{}\\!-](?:-[^\[\]{}\\!-]|[^\[\]{}\\!-]*)\]|\{[^\[\]{}\\]+\})+$`, pattern)
	is_boolean(glob.match(pattern, ["/"], "x"))
}

_strings(x) if {
	is_array(x)
	shape.strings(x)
}
