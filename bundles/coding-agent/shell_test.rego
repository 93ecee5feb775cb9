package callgate.rules_test

import data.callgate
import data.callgate.sample
import rego.v2

# The workspace of these tests, whatever the data says.
settings := {
	"roles": ["developer"],
	"approvers": ["lead"],
	"workspace": {"roots": ["work"], "paths": ["/work"]},
	"wrappers": ["env"],
	"commands": {
		"cat": [["**"]],
		"git": [["status", "**"], ["commit", "-m", "*"], ["push", "**"], ["reset", "**"]],
		"go": [["test", "./*"]],
		"grep": [["**"]],
		"make": [["lint", ["*", "-q"]]],
		"npm": [["**"]],
		"pwd": [[]],
		"rm": [["**"]],
		"tee": [["**"]],
	},
	"hosts": ["go.dev", "*.docs.example"],
	"protected_branches": ["main", "release/*"],
	"private": ["customers"],
}

# A command by its line, which has nothing that a shell would undo.
cmd(line) := sample.command(split(line, " "))

reading(line, files) := object.union(cmd(line), {"reads": files})

writing(line, files) := object.union(cmd(line), {"writes": files})

opaque(line) := object.union(cmd(line), {"opaque": true})

by(wrappers, c) := object.union(c, {"via": wrappers})

called(tool, facts, roles, labels) := object.union(
	sample.with_tool(tool, {}, roles),
	{"tool": {"class": "unclassified"}, "facts": facts, "session": {"labels": labels}},
)

# What becomes of commands in a session with these labels.
after(labels, commands) := under(settings, labels, commands)

under(coding, labels, commands) := d if {
	d := callgate.decision with input as called("shell", {"commands": commands}, ["developer"], labels)
		with data.coding as coding
}

run(commands) := after([], commands)

# Asks although the operator lists whatever the program is run with.
asked_though_listed(line) if {
	listed := object.union(settings, {"commands": {split(line, " ")[0]: [["**"]]}})
	outcome(under(listed, [], [cmd(line)])) == "requires-approval"
}

# allow, requires-approval, or the codes of the refusal.
outcome(d) := d.decision if {
	d.decision != "deny"
} else := {r.code | some r in d.reasons}

allowed(commands) if outcome(run(commands)) == "allow"

asked(commands) if outcome(run(commands)) == "requires-approval"

refused(commands, code) if {
	codes := outcome(run(commands))
	is_set(codes)
	code in codes
}

test_routine_commands if {
	every c in [
		reading("cat a.go", ["a.go"]),
		reading("cat /work/a.go", ["/work/a.go"]),
		writing("rm -rf build", ["build"]),
		writing("tee /dev/null", ["/dev/null"]),
		object.union(cmd("/usr/bin/git status"), {"name": "git"}),
		object.union(cmd("/bin/pwd"), {"name": "pwd"}),
		cmd("git --no-pager status"),
		sample.command(["git", "commit", "-m", "fix: read ~/.ssh/config"]),
		cmd("go test ./..."),
		cmd("grep /etc/x src"),
		cmd("grep -r --include=*.go x src"),
		cmd("git status feature..main/x"),
		cmd("cat a b"),
		cmd("make lint a -q"),
		cmd("pwd"),
		by(["env"], cmd("pwd")),
		object.union(sample.command([""]), {"name": "", "argv": [], "writes": ["out"]}),
	] {
		allowed([c])
		allowed([cmd("pwd"), c])
	}
}

test_a_vector_is_a_command_too if {
	d := callgate.decision with input as called("git", {"commands": [cmd("git status")]}, ["developer"], [])
		with data.coding as settings
	d.decision == "allow"
}

test_what_is_not_routine_asks if {
	every c in [
		opaque("cat $X"),
		cmd("./deploy.sh"),
		cmd("go test -v"),
		cmd("go build ./..."),
		cmd("pwd -P"),
		cmd("git commit -m --amend"),
		object.union(cmd("./git status"), {"name": "git"}),
		cmd("git --exec-path status"),
		by(["nohup"], cmd("pwd")),
		reading("cat /etc/hosts", ["/etc/hosts"]),
		reading("cat ../x", ["../x"]),
		reading("cat /work/../x", ["/work/../x"]),
		reading("cat /workshop/x", ["/workshop/x"]),
		cmd("git -C sub status -s"),
		cmd("make lint -n"),
		cmd("make lint a -q=1"),
		cmd("make"),
		cmd("cat --in=../x"),
		cmd("cat -I../x"),
		cmd("cat sub/../../x"),
		cmd("cat -C ../x"),
		cmd("cat -I/etc"),
		cmd("cat a=/etc/x"),
		cmd("cat @../x"),
		cmd("go test ./... -coverprofile=/etc/x"),
		cmd("env"),
		cmd("curl https://go.dev"),
		cmd("ssh host uptime"),
		cmd("openssl s_client"),
	] {
		asked([c])
		asked([cmd("pwd"), c])
	}
}

test_a_person_is_told_why if {
	d := run([opaque("cat $X"), reading("cat /etc/hosts", ["/etc/hosts"])])
	d.approvals == {{
		"name": "coding",
		"count": 1,
		"from": {"roles": ["lead"]},
		"reason": "a command could not be reduced to a program and its words; a path is outside the workspace; not every command is a routine one",
	}}
}

test_nothing_to_look_at if {
	every facts in [{}, {"commands": []}, {"commands": "ls"}] {
		d := callgate.decision with input as called("shell", facts, ["developer"], []) with data.coding as settings
		d.decision == "deny"
	}
}

test_only_developers if {
	d := callgate.decision with input as called("shell", {"commands": [cmd("pwd")]}, ["intern"], []) with data.coding as settings
	outcome(d) == {"no_rule_allows"}
}

test_settings_that_are_not_sound if {
	every name, value in {
		"roles": "developer", "approvers": [], "wrappers": null, "hosts": {"go.dev": true}, "protected_branches": "main",
		"private": [7], "commands": null, "commands": ["cat"], "workspace": {"roots": ["work"], "paths": ["/"]},
	} {
		d := callgate.decision with input as called("shell", {"commands": [cmd("pwd")]}, ["developer"], [])
			with data.coding as object.union(object.remove(settings, [name]), {name: value})
		outcome(d) == {"coding_settings"}
	}
}

test_settings_that_would_not_hold if {
	every patch in [
		{"private": ["a/b"]}, {"private": ["customers/"]}, {"private": ["*.csv"]}, {"private": [".."]}, {"private": [""]},
		{"protected_branches": ["release["]}, {"protected_branches": ["{main"]}, {"protected_branches": ["refs/heads/main"]}, {"protected_branches": [""]},
		{"workspace": {"roots": ["work"], "paths": ["/a/../b"]}},
	] {
		outcome(under(object.union(settings, patch), [], [cmd("pwd")])) == {"coding_settings"}
	}
	every pattern in ["main", "release/**", "{a,b}", "v[0-9]", "v[!ab]", "?"] {
		outcome(under(object.union(settings, {"protected_branches": [pattern]}), [], [cmd("pwd")])) == "allow"
	}
}

test_searches_that_show_what_they_do_not_name if {
	every line in [
		"grep -r x", "grep -rn x src", "grep -R x .", "grep --recursive x", "grep --dereference-recursive x", "grep -d recurse x", "grep --directories=recurse x", "grep -r --include=*.go --include=* x",
		"egrep -r x", "grep --di=recurse x", "grep --der x", "rg --type-add x:.e* -tx y", "rg -tall x", "rg -nt sh x", "rg --type=all x", "rg --type sh x",
		"diff -N . e", "diff -uN a e", "diff --new-file a e", "diff --unidirectional-new-file a e", "rg -u x", "rg -uuu x", "rg -n. x", "rg --hidden x", "rg --no-ignore x", "rg --no-ignore-vcs x", "rg -g * x", "rg --glob=* x", "rg --glob=*.go --hidden x", "ag x",
		"diff -r a b", "diff --recursive a b", "git diff --no-index a b", "git log -p --all", "git log --patch --branches", "git log -Sx --all", "git log -g -p",
	] {
		asked_though_listed(line)
	}
	outcome(under(object.union(settings, {"commands": {"diff": [["**"]]}}), [], [reading("diff . e", [".", "e"])])) == "requires-approval"
	every line in ["grep -n x a", "rg -tgo x", "rg -Trust x", "rg -t go x", "diff -u a b", "diff --new-line-format=x a b", "rg x", "rg -n --glob=*.go x", "diff a b", "git log --all", "git log -p", "git diff a"] {
		listed := object.union(settings, {"commands": {split(line, " ")[0]: [["**"]]}})
		outcome(under(listed, [], [cmd(line)])) == "allow"
	}
}

test_patterns_that_are_none_fit_nothing if {
	every patterns in ["**", [["cat"]], ["ab"], {"x": "**"}, null, []] {
		under(object.union(settings, {"commands": {"cat": patterns}}), [], [cmd("cat a")]).decision == "requires-approval"
	}
}

# Listed or not, these are looked at.
test_work_that_would_be_lost if {
	every c in [
		writing("rm -rf .", ["."]),
		writing("rm -rf .git", [".git"]),
		writing("tee .git/x", [".git/x"]),
		writing("rm -rf .GIT", [".GIT"]),
		cmd("git reset --hard"),
		cmd("git push --force origin topic"),
	] {
		asked([c])
	}
	every line in [
		"clean -fdx", "clean --forc", "reset --har", "checkout --forc x", "switch -qf x", "restore --work x", "branch --del x", "checkout -- .", "restore .", "branch -D x", "stash drop", "reflog expire --all", "rebase main", "gc",
	] {
		asked_though_listed($"git {line}")
	}
}

test_ignored_files_are_not_taken_in if {
	every line in ["git add -f .", "git add -Af", "git add --force .", "git add --for x"] { asked_though_listed(line) }
	listed := object.union(settings, {"commands": {"git": [["**"]]}})
	every line in ["git add -A", "git add --all", "git add src/f"] { outcome(under(listed, [], [cmd(line)])) == "allow" }
}

test_pipelines_and_hooks_ask if {
	every file in [
		".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-commit", ".github", ".github/dependabot.yml", ".husky", ".claude/commands/x.md", "repo/config", "sub/Makefile", "/work/package.json",
		"Makefile.sh", "s.Makefile", "RCS/Makefile,v", "makefile", ".vscode/tasks.json", ".idea/runConfigurations/x.xml", ".cargo/config.toml", ".cursorrules", ".exrc", "GEMINI.md", "Justfile", "Taskfile.yml",
	] {
		asked([writing($"tee {file}", [file])])
	}
	every file in ["notes.txt", "docs/makefiles.md", "src/justfiles.go"] { allowed([writing($"tee {file}", [file])]) }
}

test_packages_ask if {
	every line in [
		"npm install left-pad", "npm i", "npm exec cowsay", "npx cowsay", "yarn", "pip install x", "python3 -m pip install x",
		"go run x.example/y@latest", "go build -mod=mod ./...", "cargo install x", "gem install x", "uvx x", "apt-get install x",
	] {
		asked_though_listed(line)
	}
}

test_databases_ask if {
	every c in [sample.command(["psql", "-c", "DROP TABLE users"]), sample.command(["mysql", "-e", "delete from users"]), cmd("dropdb x")] {
		asked([c])
	}
}

# The library's budget for unclassified tools would stop an agent at its third command.
test_routine_commands_have_a_budget_of_their_own if {
	{l.name | some l in run([cmd("pwd")]).limits} == {"commands"}
	{l.name | some l in run([cmd("make")]).limits} == {"class:destructive", "commands"}
}
