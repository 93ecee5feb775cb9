# METADATA
# title: What data.org says, and what holds where it says nothing
# description: >-
#   Each key of data.org replaces one of these; objects are joined. What is not of
#   this shape refuses every call.
package org_settings

import data.callgate.shape
import rego.v2

# METADATA
# title: The settings that count
# description: >-
#   freeze: classes that nobody calls for now.
#   forbidden: tools by name or pattern, kinds, servers and tags that nobody calls.
#   A name is that tool alone, in any case and with or without its server's name and
#   __ in front; shell.** is all that is below shell. Where any is forbidden, so is
#   every name with other characters than ASCII letters, digits and ._:/-
#   findings: what a tool may have been found to be, such as raw; no policy's waiver
#   counts here.
#   auth: how callers may have proved who they are.
#   tenants: whether a tenant is required, which there are, and the names of
#   arguments, at any depth, that must be the caller's own tenant. Case, - and _ in
#   them do not matter.
#   outbound: where requests may go, as in a grant, once for each credential and
#   once for none; [] is nowhere.
#   protected: names of files and directories, as patterns, and paths by root,
#   that no call touches. Where a command's root lies is not known, so it touches
#   none of any root.
#   secrets: patterns of what must not stand in the asserted part, and in the
#   arguments if in says so.
#   hours: when destructive calls run; not there is always.
#   labels: by class, what the session must hold.
#   approvals: by class, who must approve.
#   limits: by class, how many calls of a tenant are let through.
#   cap: the most that any call may do.
#   flow: whether private data may leave after untrusted content only by approval.
all := object.union(_defaults, data.org) if is_object(data.org)

_defaults := {
	"freeze": [],
	"forbidden": {},
	"findings": [],
	"auth": ["jwt", "mtls", "token", "uid"],
	"tenants": {"required": true, "args": ["tenant", "tenant_id"]},
	"outbound": [],
	"protected": {
		"names": [
			".aws", ".azure", ".docker", ".env", ".env.*", ".git-credentials", ".gnupg", ".kube", ".netrc", ".npmrc", ".pgpass", ".pypirc", ".ssh",
			"*.key", "*.kdbx", "*.p12", "*.pem", "*.pfx", "credentials", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_rsa*",
		],
		"paths": {},
	},
	"secrets": {
		"in": ["asserted"],
		"patterns": [
			`-----BEGIN [A-Z ]*PRIVATE KEY-----`,
			`\b(AKIA|ASIA)[A-Z0-9]{16}\b`,
			`\bgh[pousr]_[A-Za-z0-9]{36}`,
			`\bgithub_pat_[A-Za-z0-9_]{22}`,
			`\bglpat-[A-Za-z0-9_-]{20}`,
			`\bxox[abeoprs]-[A-Za-z0-9-]{10}`,
			`\bAIza[A-Za-z0-9_-]{35}`,
			`\bsk_live_[A-Za-z0-9]{16}`,
			`\bsk-[A-Za-z0-9_-]{32}`,
			`\beyJ[A-Za-z0-9_-]{10,}[.]eyJ[A-Za-z0-9_-]{10,}[.][A-Za-z0-9_-]{10}`,
		],
	},
	"labels": {},
	"approvals": {},
	"limits": {},
	"cap": {"bounds": {"memory_bytes": 268435456, "timeout_ms": 60000, "output_bytes": 4194304, "http_bytes": 16777216}},
	"flow": true,
}

# METADATA
# title: The settings are of the documented shape
sound if {
	shape.keys(all, object.keys(_defaults) | {"hours"}, object.keys(_defaults))
	_classes(all.freeze)
	shape.keys(all.forbidden, {"kinds", "servers", "tags", "tools"}, set())
	every list in all.forbidden { _names(list) }
	every pattern in object.get(all.forbidden, "tools", []) { _pattern(pattern) }
	every kind in object.get(all.forbidden, "kinds", []) { kind in {"component", "external", "host", "mcp", "wasm"} }
	every part in ["servers", "tags"] {
		every name in object.get(all.forbidden, part, []) { not regex.match(`[*?\[\]{}]`, name) }
	}
	_names(all.findings)
	_texts(all.auth)
	_tenants(all.tenants)
	is_array(all.outbound)
	shape.capabilities({"http": all.outbound})
	_protected(all.protected)
	_secrets(all.secrets)
	_hours(object.get(all, "hours", {"days": ["mon"], "from": "00:00", "to": "00:00", "offset": "Z"}))
	every part in ["approvals", "labels", "limits"] { _by_class(all[part]) }
	every labels in all.labels {
		is_array(labels)
		shape.names(labels)
	}
	every rules in all.approvals {
		shape.objects(rules)
		count(rules) > 0
	}
	every budget in all.limits {
		shape.keys(budget, {"at_most", "per"}, {"at_most", "per"})
		shape.whole(budget.at_most, 1000000000)
		shape.per(budget.per)
	}
	shape.capabilities(all.cap)
	is_boolean(all.flow)
}

_classes(list) if {
	is_array(list)
	every class in list { class in {"destructive", "read", "write"} }
}

_by_class(x) if {
	is_object(x)
	_classes([class | some class, _ in x])
}

_texts(list) if {
	is_array(list)
	shape.texts(list)
}

_names([])

_names(list) if _texts(list)

# What glob.match would take for an error is not given to it, for to an evaluator that
# may mean nothing said.
_pattern(x) if {
	regex.match(`^(?:[^\[\]{}\\]|\\.|\[!?[^\[\]{}\\!-](?:-[^\[\]{}\\!-]|[^\[\]{}\\!-]*)\]|\{[^\[\]{}\\]+\})+$`, x)
	is_boolean(glob.match(x, ["/"], "x"))
}

_tenants(x) if {
	shape.keys(x, {"args", "known", "required"}, {"args", "required"})
	is_boolean(x.required)
	_texts(object.get(x, "known", ["none"]))
	is_array(x.args)
	every name in x.args {
		shape.text(name)
		name == lower(name)
	}
}

_protected(x) if {
	shape.keys(x, {"names", "paths"}, {"names", "paths"})
	is_array(x.names)
	every name in x.names {
		shape.text(name)
		name == lower(name)
		not contains(name, "/")
		_pattern(name)
	}
	is_object(x.paths)
	every list in x.paths {
		_texts(list)
		every path in list { _directory(path) }
	}
}

# As paths of facts are written, for another spelling is no path's beginning.
_directory(path) if {
	regex.match(`^[^/*?\[\]{}\\]+(?:/[^/*?\[\]{}\\]+)*$`, path)
	count({part | some part in split(path, "/")} & {".", ".."}) == 0
}

_secrets(x) if {
	shape.keys(x, {"in", "patterns"}, {"in", "patterns"})
	is_array(x["in"])
	every place in x["in"] { place in {"args", "asserted"} }
	is_array(x.patterns)
	every pattern in x.patterns {
		shape.text(pattern)
		regex.is_valid(pattern)
	}
}

_hours(x) if {
	shape.keys(x, {"days", "from", "offset", "to"}, {"days", "from", "offset", "to"})
	is_array(x.days)
	shape.hours(x.days, x.from, x.to, x.offset)
}
