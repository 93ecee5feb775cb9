package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

file(tool, root, path, mode) := d if {
	d := callgate.decision with input as object.union(
		called(tool, {"paths": [sample.path(root, path, mode)]}, ["developer"], []),
		{"tool": {"class": "write"}},
	)
		with data.coding as settings
}

test_files_of_the_workspace if {
	d := file("read-file", "work", "src/main.go", "read")
	outcome(d) == "allow"
	{g.fs | some g in d.grants} == {[{"root": "work", "path": ".", "modes": ["list", "read"]}]}
	outcome(file("list-dir", "work", ".", "list")) == "allow"
	outcome(file("write-file", "work", "src/main.go", "write")) == "allow"
	outcome(file("edit-file", "work", "src/main.go", "write")) == "allow"
}

test_files_elsewhere if {
	outcome(file("read-file", "home", "x", "read")) == {"no_rule_allows"}
	outcome(file("read-file", "work", "x", "write")) == {"no_rule_allows"}
	outcome(file("edit-file", "work", "x", "remove")) == {"no_rule_allows"}
}

test_files_of_credentials if {
	every path in [".env", "sub/.env.local", ".npmrc", "keys/server.pem", ".git-credentials", ".docker/config.json"] {
		outcome(file("read-file", "work", path, "read")) == {"credentials"}
		"credentials" in outcome(file("write-file", "work", path, "write"))
	}
	outcome(file("read-file", "work", ".env.example", "read")) == "allow"
}

test_files_that_run_later if {
	every path in [".git/hooks/pre-commit", ".git/config", ".bashrc", ".config/systemd/user/x.service", ".claude/settings.json", "stage/HEAD", "stage/hooks/pre-push"] {
		outcome(file("write-file", "work", path, "write")) == {"persistence"}
		outcome(file("read-file", "work", path, "read")) == "allow"
	}
}

test_files_of_pipelines if {
	every path in [".github/workflows/ci.yml", ".husky/pre-push", ".github/CODEOWNERS", ".cursor/rules/x.md", "package.json", "sub/Dockerfile"] {
		outcome(file("edit-file", "work", path, "write")) == "requires-approval"
		outcome(file("read-file", "work", path, "read")) == "allow"
	}
}

test_private_files_leave_a_mark if {
	file("read-file", "work", "customers/a.csv", "read").labels == {"private-data"}
	file("read-file", "work", "Customers/a.csv", "read").labels == {"private-data"}
	file("read-file", "work", "src/customers.go", "read").labels == set()
}

fetch(host, method, labels) := d if {
	d := callgate.decision with input as object.union(
		called("fetch", {"urls": [object.union(sample.url(host), {"method": method, "wildcard": "*.docs.example"})]}, ["developer"], labels),
		{"tool": {"class": "read"}},
	)
		with data.coding as settings
}

test_fetch if {
	d := fetch("go.dev", "GET", [])
	outcome(d) == "allow"
	d.labels == {"untrusted-input"}
	{h | some g in d.grants; some e in g.http; some h in e.hosts} == {"go.dev", "*.docs.example"}
	outcome(fetch("a.docs.example", "HEAD", [])) == "allow"
}

test_fetch_to_elsewhere if {
	d := callgate.decision with input as called("fetch", {"urls": [sample.url("x.example")]}, ["developer"], []) with data.coding as settings
	outcome(d) == {"no_rule_allows"}
}

test_fetch_does_not_send if outcome(fetch("go.dev", "POST", [])) == {"no_rule_allows"}

test_fetch_after_private_data if outcome(fetch("go.dev", "GET", ["private-data"])) == "requires-approval"

test_fetch_over_https_on_its_port_alone if {
	every patch in [{"scheme": "http"}, {"port": 8443}, {"scheme": "http", "port": 80}] {
		url := object.union(sample.url("go.dev"), patch)
		d := callgate.decision with input as called("fetch", {"urls": [url]}, ["developer"], [])
			with data.coding as settings
		outcome(d) != "allow"
	}
}
