# METADATA
# title: How commands reach the network
package agent.network

import data.agent.danger
import rego.v2

_fetchers := {"aria2c", "axel", "curl", "fetch", "http", "httpie", "https", "lwp-request", "wget", "xh"}

_interpreters := `^(?:sh|bash|dash|ash|zsh|ksh|fish|eval|source|\.|python[0-9.]*|perl|ruby|node|nodejs|php|lua|deno|bun|xargs|osascript|pwsh|powershell)$`

_others := {
	"aws", "az", "cloudflared", "croc", "dig", "drill", "ftp", "gcloud", "gh", "glab", "gsutil", "host", "lftp", "mail", "mailx", "mutt", "nc",
	"ncat", "netcat", "ngrok", "nslookup", "ping", "rclone", "s3cmd", "scp", "sendmail", "sftp", "smbclient", "socat", "ssh", "telnet",
	"tftp", "twine", "whois", "wormhole",
}

_resolvers := {"dig", "drill", "host", "nslookup", "ping"}

_talkers := _fetchers | _others

_outbound(c) if c.name in _talkers

_outbound(c) if {
	c.name == "git"
	some word in c.argv
	word in {"bundle", "clone", "fetch", "ls-remote", "pull", "push", "remote", "request-pull", "send-email", "submodule"}
}

_outbound(c) if {
	c.name in {"cargo", "docker", "gem", "npm", "pnpm", "podman", "poetry", "yarn"}
	some word in c.argv
	word in {"login", "publish", "push"}
}

_outbound(c) if {
	c.name == "openssl"
	"s_client" in c.argv
}

_outbound(c) if {
	some path in array.concat(c.reads, c.writes)
	_remote(path)
}

_remote(path) if regex.match(`(?s)^(?:/dev/(?:tcp|udp)/|[^/]+:).*$`, path)

# METADATA
# title: A command may carry something out
outbound if {
	some c in input.facts.commands
	_outbound(c)
}

# What is fetched is chosen by whoever asks, and the choice is data too.
outbound if danger.installs

# METADATA
# title: Code that comes from the network would run
fetched_code if {
	some c in input.facts.commands
	c.name in _fetchers
	some d in input.facts.commands
	regex.match(_interpreters, d.name)
	not d.opaque == false
}

fetched_code if {
	some c in input.facts.commands
	c.name in _fetchers
	some d in input.facts.commands
	trim_prefix(d.argv[0], "./") in c.writes
}

# METADATA
# title: A local file would be sent
uploads if {
	some c in input.facts.commands
	c.name in _fetchers
	count(c.reads) > 0
}

uploads if {
	some c in input.facts.commands
	c.name in _fetchers
	some i, word in c.argv
	_sends(c, i, word)
}

_sends(_, _, word) if regex.match(`^(?:-[a-zA-Z]*[dFT]|--(?:data[a-z-]*|form|upload-file|json|post-file|body-file)=?)-$|[@<]-$`, word)

# By itself, it may as well be where what is fetched goes.
_sends(c, i, "-") if regex.match(`^(?:-[a-zA-Z]*[dFT]|--(?:data[a-z-]*|form|upload-file|json|post-file|body-file))$`, c.argv[i - 1])

uploads if {
	some c in input.facts.commands
	c.name in {"nc", "ncat", "netcat", "socat", "telnet"}
	_fed(c)
}

uploads if {
	some c in input.facts.commands
	some path in c.writes
	_remote(path)
}

# Something else in the line may feed it.
_fed(c) if count(c.reads) > 0

_fed(_) if count(input.facts.commands) > 1

# METADATA
# title: Data would leave in the names that are looked up
tunnels if {
	some c in input.facts.commands
	c.name in _resolvers
	not c.opaque == false
}

tunnels if {
	some c in input.facts.commands
	c.name in _resolvers
	some word in c.argv
	regex.match(`(?i)[a-z0-9+/=_-]{40,}`, word)
}
