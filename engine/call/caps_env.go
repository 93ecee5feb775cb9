package call

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const maxEnvName = 128 // bytes

// envFault is about one NAME=value of a command's environment.
func envFault(v string) string {
	name, _, found := strings.Cut(v, "=")
	switch {
	case !found:
		return "is not NAME=value"
	case len(v) > maxPath:
		return "is too long"
	case !utf8.ValidString(v):
		return "is not UTF-8"
	case strings.ContainsRune(v, 0):
		return "has a NUL"
	case !envName(name):
		return "has a name that is not [A-Za-z_][A-Za-z0-9_]* of at most 128 bytes"
	case runsCode(name):
		return "has a name by which a program is made to run other code"
	}
	return ""
}

func envName(name string) bool {
	return name != "" && len(name) <= maxEnvName && (name[0] < '0' || name[0] > '9') && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// envRepeats is about a list: of two values for one name, programs differ in which
// they take.
func envRepeats(env []string) string {
	names := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if names[name] {
			return "has a name twice"
		}
		names[name] = true
	}
	return ""
}

// runsCode reports whether a name is known to make loaders, shells, interpreters and
// other programs run code that a value names or holds, which the patterns of arguments
// would then say nothing about. It keeps authors from mistakes: no list of such names is
// complete, and each value is the grant's own word.
func runsCode(name string) bool {
	switch {
	case slices.Contains(harmless, name):
		return false
	case slices.Contains(runners, name):
		return true
	}
	return slices.ContainsFunc(runnerFamilies, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.ContainsFunc(runnerEndings, func(s string) bool { return strings.HasSuffix(name, s) })
}

// runnerFamilies are what names begin with that runners and interpreters keep for
// themselves: new ones join them.
var runnerFamilies = []string{
	"LD_", "DYLD_", "_RLD", // loaders
	"BASH_", "GIT_", "PERL", "PYTHON", "RUBY", "NODE_", "LUA_", "PHP", "JULIA_", "CARGO_", "RUSTC_", "npm_config_", "NPM_CONFIG_",
}

// runnerEndings are of names whose values are commands: GIT_PAGER, KUBE_EDITOR,
// RSYNC_CONNECT_PROG.
var runnerEndings = []string{"_COMMAND", "_EDITOR", "_PAGER", "_ASKPASS", "_WRAPPER", "_PROG", "_RSH"}

var runners = []string{
	"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "MALLOC_TRACE", "NLSPATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
	"ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "ZDOTDIR", "FPATH", "SHELL",
	"EDITOR", "VISUAL", "PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "MANPAGER", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH",
	"AWKPATH", "AWKLIBPATH", "TCLLIBPATH", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER",
	"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS", "DOTNET_STARTUP_HOOKS",
	"MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "GOFLAGS", "GOENV", "GOTOOLCHAIN", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "EMACSLOADPATH", "VIMINIT", "EXINIT",
	"GTK_MODULES", "GTK_PATH", "GIO_EXTRA_MODULES", "QT_PLUGIN_PATH",
}

// harmless are of a family, and only say who, when or how much.
var harmless = []string{
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_CEILING_DIRECTORIES", "GIT_CONFIG_NOSYSTEM",
	"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "NODE_ENV", "CARGO_TERM_COLOR",
}
