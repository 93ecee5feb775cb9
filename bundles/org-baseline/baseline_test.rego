package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

# The tests say what they need, so that they pass whatever org/data.json says.
restricted(org, patch) := d if {
	d := callgate.restriction with input as object.union(sample.call, patch) with data.org as org
}

codes(org, patch) := {r.code | some r in restricted(org, patch).reasons}

passes(org, patch) if restricted(org, patch).decision == "pass"

destroys := {"tool": {"class": "destructive"}}

test_what_nobody_minds_passes if {
	d := restricted({}, {})
	d.decision == "pass"
	d.limits == set()
	d.cap == {{"http": []}, {"bounds": {"memory_bytes": 268435456, "timeout_ms": 60000, "output_bytes": 4194304, "http_bytes": 16777216}}}
	passes({}, destroys)
}

test_no_settings_are_the_defaults if {
	d := callgate.restriction with input as sample.call
	d.decision in {"pass", "deny", "requires-approval"}
}

test_frozen_classes if {
	codes({"freeze": ["destructive"]}, destroys) == {"org_frozen"}
	codes({"freeze": ["destructive"]}, {"tool": {"class": "unclassified"}}) == {"org_frozen"}
	codes({"freeze": ["read", "write", "destructive"]}, {}) == {"org_frozen"}
	passes({"freeze": ["destructive", "write"]}, {})
}

test_forbidden_tools if {
	every forbidden in [{"tools": ["to*"]}, {"tools": ["tool"]}, {"kinds": ["wasm"]}, {"servers": ["s"]}, {"tags": ["shell"]}] {
		codes({"forbidden": forbidden}, {"tool": {"tags": ["x", "shell"], "server": "s"}}) == {"org_forbidden"}
	}
	passes({"forbidden": {"tools": [], "kinds": [], "servers": [], "tags": []}}, {})
	every pattern in ["too[l-m]", "{tool,other}", "t[!a]ol", "t?ol"] { codes({"forbidden": {"tools": [pattern]}}, {}) == {"org_forbidden"} }
	passes({"forbidden": {"tools": ["other.*"], "kinds": ["mcp"], "servers": ["s"], "tags": ["shell"]}}, {"tool": {"tags": ["x"]}})
}

test_every_kind_can_be_forbidden if {
	every kind in ["component", "external", "host", "mcp", "wasm"] {
		codes({"forbidden": {"kinds": [kind]}}, {"tool": {"kind": kind}}) == {"org_forbidden"}
	}
}

test_forbidden_tools_in_other_spellings if {
	org := {"forbidden": {"tools": ["drop_table", "Shell.**", "wipe*"]}}
	every name in [
		"drop_table", "Drop_Table", "DROP_TABLE", "db__drop_table", "DB__Drop_Table", "mcp__db__drop_table", "shell.run", "SHELL.a.b", "mcp__shell.run", "wipe_all", "x__Wipe-all",
		"dr\u043ep_table", "drop_table ", " x", "drop\u200b_table", "\uff44rop_table", "", "x\n",
	] {
		codes(org, {"tool": {"name": name}}) == {"org_forbidden"}
	}
	every name in ["drop_tables", "drop", "table", "drop_table__help", "shell", "shell_x", "db.drop_table", "db_drop_table", "list__tables", "a:b/c-d", "unwiped"] {
		passes(org, {"tool": {"name": name}})
	}
	every name in ["tool", "9ool"] { codes({"forbidden": {"tools": ["[!A-Z]ool"]}}, {"tool": {"name": name}}) == {"org_forbidden"} }
	codes({"forbidden": {"tools": ["x"]}}, {"tool": {"name": "\u00fcbersicht"}}) == {"org_forbidden"}
	codes({"forbidden": {"tools": ["db__drop"]}}, {"tool": {"name": "mcp__db__drop"}}) == {"org_forbidden"}
	passes({"forbidden": {"tools": ["db__drop"]}}, {"tool": {"name": "shop__drop"}})
	every none in [{}, {"tools": []}] { passes({"forbidden": none}, {"tool": {"name": "\u00fcbersicht"}}) }
}

test_findings_deny if codes({}, {"tool": {"findings": ["hidden instructions"]}}) == {"org_findings"}

# What a team's policy waives is the team's word. That of the organisation stands here.
test_findings_that_the_organisation_tolerates if {
	codes({}, {"tool": {"findings": ["raw"]}}) == {"org_findings"}
	passes({"findings": ["raw"]}, {"tool": {"findings": ["raw"]}})
	codes({"findings": ["raw"]}, {"tool": {"findings": ["raw", "hidden instructions"]}}) == {"org_findings"}
	every bad in ["raw", {"raw": true}, [1], null] { "org_malformed" in codes({"findings": bad}, {}) }
}

test_identity_is_proved if {
	codes({}, {"principal": {"auth": {"method": "asserted"}}}) == {"org_auth"}
	passes({"auth": ["asserted"]}, {"principal": {"auth": {"method": "asserted"}}})
	codes({"auth": ["mtls"]}, {}) == {"org_auth"}
}

test_tenants if {
	codes({}, {"principal": {"tenant": ""}}) == {"org_tenant"}
	passes({"tenants": {"required": false}}, {"principal": {"tenant": ""}})
	codes({"tenants": {"known": ["other"]}}, {}) == {"org_tenant"}
	passes({"tenants": {"known": ["other", "acme"]}}, {})
}

test_arguments_name_no_other_tenant if {
	passes({}, {"args": {"tenant": "acme", "list": [{"tenant_id": "acme"}], "x": "other"}})
	every given in [{"tenant": "other"}, {"Tenant": "other"}, {"tenantId": "other"}, {"TENANT-ID": "other"}, {"tenant_id": null}, {"tenant": ["acme", "other"]}, {"list": [{"q": {"TENANT_ID": "other"}}]}] {
		codes({}, {"args": given}) == {"org_tenant_argument"}
	}
	passes({"tenants": {"args": []}}, {"args": {"tenant": "other"}})
}

entry := {"hosts": ["api.x.example", "*.y.example"], "ports": [443], "methods": ["GET"], "paths": ["/v1"], "networks": ["public"]}

to(patch) := {"facts": {"urls": [object.union(sample.url("api.x.example"), object.union({"path": "/v1/a", "segments": ["v1", "a"]}, patch))]}}

test_requests_go_where_they_may if {
	passes({"outbound": [entry]}, to({}))
	passes({"outbound": [entry]}, to({"host": "a.y.example", "wildcard": "*.y.example"}))
	passes({"outbound": [object.union(entry, {"paths": ["/"]})]}, to({"path": "/", "segments": []}))
	passes({"outbound": [object.union(entry, {"plain": true})]}, to({"scheme": "http"}))
	every scheme in ["ftp", "", "HTTP"] { codes({"outbound": [object.union(entry, {"plain": true})]}, to({"scheme": scheme})) == {"org_outbound"} }
	restricted({"outbound": [entry]}, {}).cap & {{"http": [entry]}} == {{"http": [entry]}}
	every patch in [
		{"host": "x.example"}, {"host": "evil.example", "wildcard": "*.example"}, {"port": 8443}, {"method": "POST"}, {"segments": ["v10"]}, {"segments": []}, {"scheme": "http"}, {"scheme": "ftp"},
	] {
		codes({"outbound": [entry]}, to(patch)) == {"org_outbound"}
	}
	codes({}, to({})) == {"org_outbound"}
	two := array.concat(to({}).facts.urls, to({"host": "evil.example"}).facts.urls)
	codes({"outbound": [entry]}, {"facts": {"urls": two}}) == {"org_outbound"}
}

touching(path, mode) := {"facts": {"paths": [sample.path("docs", "inbox/a.txt", "read"), sample.path("docs", path, mode)]}}

test_protected_names if {
	every path in [".ssh/config", "a/.SSH/config", "x/id_rsa", "x/id_rsa.bak", ".env", "app/.env.production", "tls/server.KEY", ".aws/credentials"] {
		codes({}, touching(path, "read")) == {"org_protected"}
	}
	every path in ["ssh/config", ".environment", "env", "keys/readme.md", "."] {
		passes({}, touching(path, "read"))
	}
	every patch in [{"reads": ["/home/a/.ssh/id_rsa"]}, {"writes": ["../.npmrc"]}, {"argv": ["cat", "$HOME/.ssh/config"], "opaque": true}] {
		codes({}, {"facts": {"commands": [object.union(sample.command(["cat"]), patch)]}}) == {"org_protected"}
	}
	every word in ["--file=.env", "@.env", "-d@.env", "-f.env", "host:.ssh", "a,.env", "see .npmrc", "HEAD:.env"] {
		codes({}, {"facts": {"commands": [sample.command(["x", word])]}}) == {"org_protected"}
	}
	every word in ["$(cat .env)", `.e''nv$X`, `{.env,a}`, `open(\.env)`] {
		codes({}, {"facts": {"commands": [object.union(sample.command(["x", word]), {"opaque": true})]}}) == {"org_protected"}
	}
	every word in ["(.env)", "{.npmrc}", `\.env`] { passes({}, {"facts": {"commands": [sample.command(["echo", word])]}}) } # as they stand
	passes({}, {"facts": {"commands": [object.union(sample.command(["cat", "-x", "a.environment"]), {"reads": ["a.txt"]})]}})
	passes({}, {"facts": {"commands": [object.union(sample.command(["cat", "$X"]), {"opaque": true})]}})
}

test_every_protected_name if {
	every name in [
		".aws", ".azure", ".docker", ".env", ".env.x", ".git-credentials", ".gnupg", ".kube", ".netrc", ".npmrc", ".pgpass", ".pypirc", ".ssh",
		"x.key", "x.kdbx", "x.p12", "x.pem", "x.pfx", "credentials", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa",
	] {
		codes({}, {"facts": {"paths": [sample.path("docs", name, "read")]}}) == {"org_protected"}
	}
}

test_protected_directories if {
	org := {"protected": {"paths": {"docs": ["board/minutes"]}}}
	every path in ["board/minutes", "board/minutes/2026.txt"] {
		codes(org, touching(path, "read")) == {"org_protected"}
	}
	every path in ["board", "."] {
		every mode in ["list", "remove", "write"] { codes(org, touching(path, mode)) == {"org_protected"} }
		passes(org, touching(path, "read"))
	}
	every path in ["Board/MINUTES", "BOARD/minutes/2026.txt"] { codes(org, touching(path, "read")) == {"org_protected"} }
	codes(org, touching("BOARD", "remove")) == {"org_protected"}
	codes({"protected": {"paths": {"docs": ["Board"]}}}, touching("board/x", "read")) == {"org_protected"}
	passes(org, touching("board/minutes2", "remove"))
	passes(org, {"facts": {"paths": [sample.path("other", "board/minutes", "remove")]}})
}

test_commands_in_protected_directories if {
	org := {"protected": {"paths": {"docs": ["board/Minutes"]}}}
	every patch in [
		{"reads": ["board/minutes/a.txt"]}, {"reads": ["/x/board//./minutes"]}, {"writes": ["board/minutes"]}, {"argv": ["x", "--in=board/minutes/a"]},
		{"argv": ["x", "-fboard/minutes"]}, {"argv": ["x", "$(cat board/minutes/a)"], "opaque": true}, {"writes": ["/x/board"]}, {"writes": ["board/"]}, {"writes": ["."]}, {"writes": ["/"]}, {"writes": ["../*"]},
	] {
		codes(org, {"facts": {"commands": [object.union(sample.command(["rm"]), patch)]}}) == {"org_protected"}
		passes({}, {"facts": {"commands": [object.union(sample.command(["rm"]), patch)]}})
	}
	every patch in [{"reads": ["board"]}, {"writes": ["board/minutes2"]}, {"writes": ["minutes"]}, {"reads": ["."]}, {"argv": ["x", "board"]}] {
		passes(org, {"facts": {"commands": [object.union(sample.command(["rm"]), patch)]}})
	}
}

key := concat("", ["AKIA", "ABCDEFGHIJKLMNOP"])

test_every_kind_of_secret if {
	letters := "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	every head, n in {
		"AKIA": 16, "ASIA": 16, "ghp_": 36, "gho_": 36, "ghu_": 36, "ghs_": 36, "ghr_": 36, "github_pat_": 22, "glpat-": 20,
		"xoxb-": 10, "xoxp-": 10, "AIza": 35, "sk_live_": 16, "sk-": 32,
	} {
		codes({}, {"asserted": {"justification": concat("", [head, substring(letters, 0, n)])}}) == {"org_secret"}
		passes({}, {"asserted": {"justification": concat("", [head, substring(letters, 0, n - 1)])}})
	}
	part := substring(letters, 0, 10)
	codes({}, {"asserted": {"justification": concat("", ["eyJ", part, ".eyJ", part, ".", part])}}) == {"org_secret"}
	passes({}, {"asserted": {"justification": concat("", ["eyJ", part, ".", part, ".", part])}})
}

test_no_secrets if {
	every asserted in [{"justification": $"use {key}"}, {"context": {"a": [$"{key}"]}}, {"justification": concat(" ", ["-----BEGIN RSA", "PRIVATE KEY-----"])}] {
		codes({}, {"asserted": asserted}) == {"org_secret"}
	}
	every asserted in [{"justification": $"see\n{key}"}, {"context": {$"\t{key}": 1}}, {"context": {"a": {"b": ["x", $"<{key}>"]}}}] {
		codes({}, {"asserted": asserted}) == {"org_secret"}
	}
	codes({"secrets": {"in": ["args"]}}, {"args": {"list": [{$"\n{key}": null}]}}) == {"org_secret"}
	codes({"secrets": {"in": ["args"], "patterns": [`^<x>$`]}}, {"args": {"list": ["<x>"]}}) == {"org_secret"}
	passes({}, {"args": {"text": key}})
	codes({"secrets": {"in": ["args"]}}, {"args": {"text": key}}) == {"org_secret"}
	passes({"secrets": {"in": ["args"]}}, {"asserted": {"justification": key}})
	passes({}, {"asserted": {"justification": "because of ticket 42"}})
}

# Sample calls are made on a Friday at 08:00.
test_working_hours if {
	hours := {"days": ["fri"], "from": "08:00", "to": "18:00", "offset": "Z"}
	passes({"hours": hours}, destroys)
	codes({"hours": object.union(hours, {"from": "09:00"})}, destroys) == {"org_hours"}
	passes({"hours": object.union(hours, {"from": "09:00"})}, {})
}

test_labels_that_are_needed if {
	org := {"labels": {"destructive": ["reviewed", "ticket"]}}
	passes(org, {})
	passes(org, object.union(destroys, {"session": {"labels": ["reviewed", "ticket"]}}))
	codes(org, object.union(destroys, {"session": {"labels": ["reviewed"]}})) == {"org_label"}
}

test_approvals if {
	rule := {"name": "security", "count": 2, "from": {"roles": ["security"]}}
	d := restricted({"approvals": {"destructive": [rule]}}, destroys)
	d.decision == "requires-approval"
	d.approvals == {rule}
	passes({"approvals": {"destructive": [rule]}}, {})
}

test_private_data_does_not_leave if {
	leaves := {"tool": {"tags": ["outbound"]}, "session": {"labels": ["private-data", "untrusted-input"]}}
	{a.name | some a in restricted({}, leaves).approvals} == {"outflow"}
	passes({"flow": false}, leaves)
}

test_limits if {
	d := restricted({"limits": {"destructive": {"at_most": 5, "per": "1h"}}}, destroys)
	d.limits == {{"name": "org:destructive", "key": `["acme"]`, "burst": 3, "per": "3600000000000ns"}}
	restricted({"limits": {"destructive": {"at_most": 5, "per": "day"}}}, destroys).limits == {{"name": "org:destructive", "key": `["acme"]`, "burst": 5, "per": "day"}}
	restricted({"limits": {"destructive": {"at_most": 5, "per": "1h"}}}, {}).limits == set()
}

test_labels if {
	restricted({}, {"tool": {"sensitivity": ["pii"], "tags": ["untrusted"]}}).labels == {"private-data", "untrusted-input"}
}

test_malformed_settings_let_nothing_through if {
	every org in [
		null, true, "org", 7, [],
		{"frozen": ["read"]}, {"freeze": "read"}, {"freeze": ["Read"]}, {"freeze": {"read": "read"}}, {"freeze": null},
		{"forbidden": []}, {"forbidden": {"tools": "x"}}, {"forbidden": {"tools": ["a["]}}, {"forbidden": {"tools": ["{a"]}}, {"forbidden": {"servers": ["s*"]}}, {"forbidden": {"tags": ["s*"]}}, {"forbidden": {"kinds": ["w*"]}}, {"forbidden": {"classes": ["read"]}}, {"forbidden": {"tools": [7]}}, {"forbidden": {"kinds": ["MCP"]}}, {"forbidden": {"kinds": ["robot"]}},
		{"auth": []}, {"auth": "jwt"}, {"auth": [null]}, {"tenants": {"required": "no"}}, {"tenants": {"known": []}}, {"tenants": {"args": ["Tenant"]}}, {"tenants": {"args": "tenant"}},
		{"tenants": {"need": true}}, {"tenants": null}, {"outbound": {}}, {"outbound": [{"hosts": ["x.example"]}]}, {"outbound": ["x.example"]}, {"outbound": null},
		{"protected": {"names": ".ssh"}}, {"protected": {"names": [".SSH"]}}, {"protected": {"paths": []}}, {"protected": {"paths": {"docs": []}}}, {"protected": {"paths": {"docs": ["a/"]}}}, {"protected": {"paths": {"docs": ["/a"]}}},
		{"protected": {"paths": {"docs": ["./a"]}}}, {"protected": {"paths": {"docs": ["a/../b"]}}}, {"protected": {"paths": {"docs": ["a/*"]}}},
		{"protected": {"names": ["[a"]}}, {"protected": {"names": ["a/b"]}}, {"protected": {"files": []}},
		{"secrets": {"in": ["results"]}}, {"secrets": {"in": "args"}}, {"secrets": {"patterns": ["("]}}, {"secrets": {"patterns": [""]}}, {"secrets": {"patterns": "x"}}, {"secrets": []},
		{"hours": null}, {"hours": {}}, {"hours": {"days": ["Friday"], "from": "08:00", "to": "18:00", "offset": "Z"}}, {"hours": {"days": ["fri"], "from": "8", "to": "18:00", "offset": "Z"}},
		{"hours": {"days": ["fri"], "from": "08:00", "to": "18:00", "offset": "Europe/Berlin"}}, {"labels": {"admin": ["x"]}}, {"labels": {"read": "x"}}, {"labels": {"read": ["Two words"]}},
		{"approvals": {"read": {}}}, {"approvals": {"read": []}}, {"approvals": []}, {"limits": {"read": 5}}, {"limits": {"read": {"at_most": 0, "per": "1h"}}}, {"limits": {"read": {"at_most": 5, "per": "hour"}}},
		{"cap": null}, {"cap": {"net": []}}, {"cap": {"bounds": {"calls": 0}}}, {"flow": "no"}, {"flow": null},
	] {
		d := restricted(org, {})
		d.decision == "deny"
		"org_malformed" in {r.code | some r in d.reasons}
	}
}

# The base library looks at what is asked.
test_malformed_approvals_let_nothing_through if {
	"rules_malformed" in codes({"approvals": {"read": [{"name": "x"}]}}, {})
}

# The engine never makes such an input.
test_a_malformed_call_is_not_let_through if {
	every patch in [
		{"tool": {"class": "Read"}}, {"tool": {"tags": null}}, {"principal": {"tenant": 7}}, {"principal": {"auth": {"method": null}}}, {"session": {"labels": {}}}, {"facts": {"urls": {}}},
		{"facts": {"paths": [{}]}}, {"args": []}, {"asserted": {"justification": null}}, {"env": {"now_ns": "now"}},
	] {
		"input_malformed" in codes({}, patch)
	}
	d := callgate.restriction with input as {} with data.org as {}
	d.decision == "deny"
}
