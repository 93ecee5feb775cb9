# METADATA
# title: What commands must not do, and what only with a second look
package agent.danger

import data.agent.git
import data.agent.paths
import rego.v2

# Every program that a line runs, among them those that run others.
_names contains name if {
	some c in input.facts.commands
	some name in array.concat([c.name], c.via)
}

_words contains word if {
	some c in input.facts.commands
	some word in array.concat(array.concat(c.reads, c.writes), c.argv)
}

# METADATA
# title: A word of a command names a place of credentials
credentials if {
	paths.suspicious(concat("\n", _words))
	some c in input.facts.commands
	some word in array.concat(array.concat(c.reads, c.writes), c.argv)
	_suspect(c, word)
	paths.credential(word)
}

# Messages and texts may speak of them.
_suspect(c, _) if not c.name in {"echo", "git", "printf"}

_suspect(c, word) if word in array.concat(c.reads, c.writes)

_suspect(c, word) if {
	c.name == "git"
	not regex.match(`(?s)^.*\s.*$`, word)
}

_suspect(c, _) if not c.opaque == false

# METADATA
# title: A program would hand out credentials
credentials if {
	some c in input.facts.commands
	some words in _keepers[c.name]
	every word in words { word in c.argv }
}

_keepers := {
	"aws": [["configure", "get"], ["configure", "export-credentials"], ["sts"], ["secretsmanager"], ["ssm", "get-parameter"]],
	"az": [["get-access-token"]],
	"bw": [[]],
	"docker": [["login"]],
	"gcloud": [["print-access-token"], ["print-identity-token"], ["secrets"]],
	"gh": [["auth", "token"], ["--show-token"]],
	"git": [["credential"], ["credential-store"], ["credential-cache"]],
	"gpg": [["--export-secret-keys"], ["--export-secret-subkeys"]],
	"keyctl": [[]],
	"kubectl": [["get", "secret"], ["get", "secrets"], ["config", "view"]],
	"op": [[]],
	"pass": [[]],
	"secret-tool": [[]],
	"security": [[]],
	"vault": [[]],
}

# METADATA
# title: The command would stay, and run again by itself
persists if {
	some c in input.facts.commands
	some path in c.writes
	paths.persistence(path)
	not _made(c, path)
}

# An empty directory sets nothing.
_made(c, path) if {
	c.name == "mkdir"
	paths.settings(path)
}

persists if git.configures

persists if {
	some c in input.facts.commands
	c.name == "crontab"
	c.argv != ["crontab", "-l"]
}

persists if _names & {"at", "batch", "chkconfig", "schtasks", "ssh-copy-id", "systemd-run", "update-rc.d"} != set()

# Other names of config.
persists if {
	some c in input.facts.commands
	c.name in {"npm", "pnpm"}
	c.argv[1] in {"c", "set"}
	not c.argv[2] in {"get", "list", "ls"}
}

persists if {
	some c in input.facts.commands
	c.name in {"launchctl", "loginctl", "npm", "pip", "pip3", "systemctl"}
	some word in c.argv
	word in {"bootstrap", "config", "daemon-reload", "edit", "enable", "enable-linger", "link", "load", "set-environment", "submit"}
	not "list" in c.argv
	not "get" in c.argv
}

# METADATA
# title: Somebody else's rights would be used or handed out
privileged if _names & {"doas", "gosu", "pkexec", "run0", "runuser", "setcap", "setpriv", "su", "su-exec", "sudo", "visudo"} != set()

privileged if {
	some c in input.facts.commands
	c.name in {"chmod", "install"}
	some word in c.argv
	regex.match(`^(?:(?:-m|--mode=)?(?:[ugoa,=+-]*[ugo]?[+=][rwxXt]*s.*|[2-7][0-7]{3}))$`, word)
}

privileged if {
	some c in input.facts.commands
	c.name in {"chown", "chgrp"}
	some word in c.argv
	regex.match(`^(?:root|0)(?:[:.].*)?$`, word)
}

# METADATA
# title: A container would get at its host
escapes if _names & {"chroot", "debugfs", "nsenter", "unshare"} != set()

escapes if {
	some c in input.facts.commands
	c.name in {"crictl", "ctr", "docker", "docker-compose", "kubectl", "lxc", "nerdctl", "podman"}
	some i, word in c.argv
	_escapes(c, i, word)
}

_escapes(_, _, word) if {
	regex.match(`^--(?:privileged|device|cap-add|security-opt|cgroupns|volumes-from|(?:pid|ipc|uts|net|network|userns)=host)`, word)
}

_escapes(_, _, word) if contains(word, ".sock")

_escapes(c, i, "host") if c.argv[i - 1] in {"--ipc", "--net", "--network", "--pid", "--userns", "--uts"}

_escapes(c, i, word) if {
	c.argv[i - 1] in {"--mount", "--volume", "-v"}
	_mounts(word)
}

_escapes(_, _, word) if {
	regex.match(`^(?:-v|--volume=|--mount=)[^=]`, word)
	_mounts(regex.replace(word, `^(?:-v|--volume=|--mount=)`, ""))
}

_mounts(word) if {
	source := regex.replace(regex.replace(word, `^.*(?:source|src)=`, ""), `[:,].*$`, "")
	regex.match(`^(?:[/~$]|\.\.)`, source)
	not paths.inside(source)
}

# METADATA
# title: The command removes or overwrites what it is given
removes(c) if c.name in {"dd", "find", "rm", "rmdir", "shred", "srm", "trash", "truncate", "unlink"}

removes(c) if {
	c.name in {"chgrp", "chmod", "chown"}
	some word in c.argv
	regex.match(`^(?:-[a-zA-Z]*R.*|--recursive)$`, word)
}

removes(c) if {
	c.name == "rsync"
	some word in c.argv
	startswith(word, "--del")
}

# METADATA
# title: What is outside the workspace, or all of it, would be lost
destroys if {
	some c in input.facts.commands
	removes(c)
	some path in c.writes
	path != "."
	regex.match(`^(?:/|~|\$\{?HOME|\.\.|\*$)`, path)
	_lost(path)
}

_lost(path) if not paths.inside(path)

_lost(path) if paths.whole(path)

destroys if {
	some c in input.facts.commands
	some path in c.writes
	regex.match(`^/dev/(?:[shv]d|xvd|nvme|disk|mapper|dm-|mem|kmem|port|loop|mmcblk|md)`, path)
}

destroys if {
	some name in _names
	regex.match(`^(?:mkfs.*|mke2fs|mkswap|wipefs|fdisk|sfdisk|sgdisk|parted|blkdiscard|hdparm|shutdown|reboot|halt|poweroff|telinit|killall5|cryptsetup|lvremove|vgremove|pvremove|zpool|diskutil)$`, name)
}

destroys if {
	some c in input.facts.commands
	c.name == "kill"
	count(c.argv) > 2
	c.argv[count(c.argv) - 1] in {"-1", "1"}
}

# METADATA
# title: Packages would be installed or run from a registry
installs if {
	some c in input.facts.commands
	some word in c.argv
	word in _installers[c.name]
}

installs if _names & {"apk", "apt", "apt-get", "aptitude", "brew", "bunx", "dnf", "easy_install", "npx", "pacman", "pipx", "pnpx", "snap", "uvx", "yum", "zypper"} != set()

installs if {
	some c in input.facts.commands
	c.name == "go"
	some word in c.argv
	regex.match(`^--?mod=mod$`, word)
}

installs if {
	some c in input.facts.commands
	regex.match(`^python[0-9.]*$`, c.name)
	some i, "-m" in c.argv
	c.argv[i + 1] in {"ensurepip", "pip", "pipx", "uv"}
}

installs if {
	some c in input.facts.commands
	c.name in {"yarn", "bundle"}
	count(c.argv) == 1
}

_installers := {
	"bun": {"a", "add", "create", "i", "install", "update", "x"},
	"bundle": {"add", "install", "update"},
	"cargo": {"add", "install", "update"},
	"composer": {"install", "require", "update"},
	"conda": {"create", "install", "update"},
	"dotnet": {"add", "restore", "tool"},
	"gem": {"install", "update"},
	"go": {"generate", "get", "install", "mod", "run", "work"},
	"mvn": {"deploy", "install"},
	"npm": {"add", "ci", "clean-install", "create", "dlx", "exec", "i", "in", "init", "install", "install-test", "isntall", "it", "link", "rebuild", "up", "update", "x"},
	"pip": {"download", "install", "wheel"},
	"pip3": {"download", "install", "wheel"},
	"pnpm": {"add", "create", "dlx", "exec", "i", "install", "up", "update"},
	"poetry": {"add", "install", "update"},
	"uv": {"add", "lock", "pip", "run", "sync", "tool"},
	"yarn": {"add", "create", "dlx", "install", "up", "upgrade"},
}

# METADATA
# title: A database would lose tables
drops if {
	some c in input.facts.commands
	c.name in {"clickhouse-client", "cockroach", "duckdb", "mariadb", "mongo", "mongosh", "mysql", "psql", "redis-cli", "sqlcmd", "sqlite3"}
	some word in c.argv
	regex.match(`(?is)^.*\b(?:drop|truncate|flushall|flushdb|dropdatabase|dropuser|delete\s+from)\b.*$`, word)
}

drops if _names & {"dropdb", "dropuser"} != set()
