# METADATA
# title: What paths are
# description: >-
#   Of texts, since a path may stand anywhere in an argument: --file=/x/.env, @.env,
#   host:/etc/shadow, or in the source of a word that the shell expands. Case is
#   ignored, because some file systems do.
package agent.paths

import rego.v2

_before := `(?im)(?:^|[/=@:,;<>"'\s\x60\[\]{}()|&*])`

# METADATA
# title: One of these lines may name a place of credentials
# description: It spares looking at each of many words.
suspicious(lines) if {
	regex.match($"{_before}(?:{concat("|", _credentials)}|{_dotenv})", lines)
}

# METADATA
# title: The text names a place of credentials
credential(text) if {
	regex.match($"{_before}(?:{concat("|", _credentials)})", text)
}

credential(text) if {
	regex.match($`{_before}{_dotenv}`, regex.replace(text, _example, "$1"))
}

# Not secret, and there to be read. A language's own environment is no file.
_example := `(?im)(?:\.env[._-](?:dist|example|sample|template)|\b(?:example|sample|template|process|meta)\.env)($|[/:,;"'\s)\x60\]}])`

_dotenv := `(?:\.env(?:rc)?(?:$|[-_~./:,;"'\s)\x60*?{\[])|[\w.-]+\.env(?:$|[/:,;"'\s)\x60*?]))`

_end := `(?:$|[/:,;"'\s)\x60])`

_credentials := [
	$`\.(?:ssh|aws|azure|kube|gnupg|password-store|mozilla|vault-token|netrc|npmrc|pypirc|yarnrc|yarnrc\.yml|git-credentials|pgpass|my\.cnf|boto|s3cfg|terraformrc|authinfo|htpasswd|dockercfg|credentials\.json){_end}`,
	$`_netrc{_end}`,
	`\.docker/config\.json`,
	`\.cargo/credentials`,
	`\.gem/credentials`,
	`\.m2/settings`,
	`\.gradle/gradle\.properties`,
	`\.terraform\.d/credentials`,
	`\.config/(?:gcloud|gh|hub|rclone|op|doctl|heroku|google-chrome|chromium|BraveSoftware)`,
	`\.(?:claude|codex|cursor|gemini)/[^/]*(?:credential|auth|token)`,
	$`(?:id|ssh_host)_(?:rsa|dsa|ecdsa|ed25519)[^/]*{_end}`,
	`[^/\s]*\.(?:pem|p12|pfx|jks|keystore|kdbx|key|ppk)(?:$|[\s"'])`,
	`Library/(?:Keychains|Cookies|Application Support/(?:Google/Chrome|Firefox|BraveSoftware))`,
	`(?:credentials|secrets?)\.(?:json|ya?ml|toml|ini|env|enc)`,
	`(?:service[-_]account|application_default_credentials)[^/\s]*\.json`,
	`[^/\s]*\.tfstate`,
	`(?:Login Data|Cookies|key[34]\.db|logins\.json|wallet\.dat)(?:$|["'])`,
	`\.(?:bash|zsh|python|psql|mysql|node_repl|sqlite)_history`,
	`etc/(?:shadow|gshadow|sudoers|krb5\.keytab|security/passwd)`,
	`proc/[^/]*/(?:task/[^/]*/)?(?:environ|mem|maps|cmdline|fd|root|cwd)`,
	`run/secrets`,
	`169\.254\.169\.254`,
	`metadata\.google\.internal`,
]

# METADATA
# title: What is written there runs later, without being asked for
persistence(text) if regex.match($"{_before}(?:{concat("|", _persistence)})", text)

persistence(text) if settings(text)

# METADATA
# title: The path is all of a directory of settings
# description: Whoever puts one in its place puts every setting there.
settings(text) if regex.match($`{_before}\.(?:claude|codex|config|cursor|gemini|ssh)(?:/[.*/]*)?(?:$|[:,;"'\s)\x60])`, text)

_persistence := [
	$`\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc|cshrc|tcshrc|inputrc|xinitrc|xsession|xprofile|vimrc|gitconfig|pythonrc|pam_environment|forward){_end}`,
	`\.config/(?:fish|autostart|systemd|git|nvim|environment\.d)`,
	`\.ssh/(?:authorized_keys|rc|config|environment)`,
	`\.git/(?:hooks|config|info/attributes|modules)`,
	`etc/(?:cron|profile|rc\.|init|systemd|ld\.so|sudoers|pam\.d|udev|xdg|environment|hosts|bash|zsh|apt/apt\.conf)`,
	`(?:var/spool/cron|var/spool/at|usr/lib/systemd|lib/systemd)`,
	`Library/(?:LaunchAgents|LaunchDaemons|StartupItems)`,
	`(?:sitecustomize|usercustomize)\.py`,
	`site-packages/[^/]*\.pth`,
	`\.(?:claude|codex|cursor|gemini)/(?:settings|hooks|mcp|config)`,
	# A directory with HEAD in it may be a repository, whose config and hooks git obeys.
	`HEAD(?:$|[:,;"'\s)\x60])`,
	`hooks/(?:(?:applypatch|commit|prepare-commit|sendemail)-[a-z]+|(?:pre|post)-[a-z-]+|fsmonitor[a-z-]*|p4-[a-z-]+|push-to-checkout|reference-transaction|update|proc-receive)(?:$|[:,;"'\s)\x60])`,
]

# METADATA
# title: What is written there runs in others' hands, so a person looks at it
pipeline(text) if regex.match($"{_before}(?:{concat("|", _pipelines)})", text)

_pipelines := [
	$`\.(?:github|claude|codex|cursor|gemini){_end}`,
	`config(?:$|[:,;"'\s)\x60])`,
	`\.gitlab-ci`,
	`\.(?:circleci|husky|buildkite|drone|woodpecker|travis|tekton)`,
	`(?:Jenkinsfile|azure-pipelines|bitbucket-pipelines|cloudbuild|buildspec|appveyor)`,
	`\.(?:pre-commit-config|lefthook|envrc|mcp\.json|vscode|devcontainer|gitattributes|gitmodules)`,
	`\.(?:idea|zed|windsurf|cursorrules|clinerules|exrc|gdbinit|lldbinit|nvim\.lua|pnpmfile|bazelrc)`,
	`\.cargo/config`,
	`(?:lefthook|CODEOWNERS|AGENTS\.md|CLAUDE\.md|GEMINI\.md)`,
	$`(?:Dockerfile|Justfile|Rakefile|Taskfile\.ya?ml|setup\.py|conftest\.py|package\.json){_end}`,
	# Make makes its own file anew, of Makefile.sh for one.
	$`(?:s\.)?(?:GNU)?Makefile(?:\.[^/]*)?{_end}`,
]

# METADATA
# title: The path of a command is within the workspace
# description: >-
#   Relative ones are, since lines start there, unless they go up or are home or an
#   expansion.
inside(path) if {
	not startswith(path, "/")
	regex.match(`(?s)^[^~$\x60*?\[{].*$`, path)
	not up(path)
	not contains(path, ":")
}

inside(path) if {
	some dir in data.coding.workspace.paths
	_below(path, dir)
	not up(path)
}

inside("/dev/null")

_below(path, path)

_below(path, dir) if startswith(path, $"{dir}/")

# METADATA
# title: The path goes up
up(path) if ".." in split(path, "/")

# METADATA
# title: The path is the workspace, or holds it
# description: Whoever removes it removes all of the work.
whole(path) if path in {".", "/", "~", "/*", "*"}

whole(path) if {
	some dir in data.coding.workspace.paths
	_below(dir, path)
}

# METADATA
# title: The word of a command names what is private
# description: Whatever its case, and as the value of an option too.
private(word) if {
	some name in data.coding.private
	some form in [word, regex.replace(word, `^-[a-zA-Z]`, "")]
	lower(name) in regex.split(`[/:=@,;"'\s()<>]`, lower(form))
}

# METADATA
# title: Paths of file tools, as texts
texts contains $"/{p.root}/{p.path}" if some p in input.facts.paths

# METADATA
# title: Paths of file tools that are more than read or listed, as texts
written contains $"/{p.root}/{p.path}" if {
	some p in input.facts.paths
	not p.mode in {"read", "list"}
}
