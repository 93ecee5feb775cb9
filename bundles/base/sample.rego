# METADATA
# title: Inputs to start tests from
package callgate.sample

import rego.v2

# METADATA
# title: Alice of acme reads, nothing special
call := {
	"tool": {
		"name": "tool",
		"kind": "wasm",
		"class": "read",
		"sensitivity": [],
		"digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
		"server": "",
		"tags": [],
		"findings": [],
	},
	"args": {},
	"principal": {
		"id": "alice",
		"kind": "agent",
		"roles": [],
		"tenant": "acme",
		"claims": {},
		"auth": {"method": "jwt", "issuer": "https://issuer.example"},
	},
	"session": {"id": "session", "run": "run", "labels": [], "plan": [], "calls": 0},
	"facts": {},
	"env": {"now_ns": 1800000000000000000, "node": "node"},
	"asserted": {"justification": "", "context": {}},
}

# METADATA
# title: The sample call of a tool with arguments, by somebody with these roles
with_tool(name, args, roles) := object.union(call, {
	"tool": {"name": name},
	"args": args,
	"principal": {"roles": roles},
})

# METADATA
# title: A URL as the engine derives it
url(host) := {
	"scheme": "https",
	"host": host,
	"wildcard": "",
	"port": 443,
	"path": "/",
	"segments": [],
	"query": "",
	"method": "GET",
}

# METADATA
# title: A path as the engine derives it
path(root, p, mode) := {
	"root": root,
	"path": p,
	"segments": [part | some part in split(p, "/"); part != "."],
	"mode": mode,
}

# METADATA
# title: A command as the engine derives it, by its words
command(argv) := {
	"name": argv[0],
	"argv": argv,
	"via": [],
	"reads": [],
	"writes": [],
	"opaque": false,
}
