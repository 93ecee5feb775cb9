package facts

import "strings"

// obeyedByNobody are variables that change how programs speak, not what they do.
var obeyedByNobody = wordSet(`LANG LANGUAGE TZ TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI DEBUG VERBOSE LOG_LEVEL
		NODE_ENV RAILS_ENV RACK_ENV APP_ENV GOOS GOARCH GOARM CGO_ENABLED GO111MODULE RUST_BACKTRACE RUST_LOG
		PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONHASHSEED DEBIAN_FRONTEND GIT_TERMINAL_PROMPT`)

// harmless reports whether a program that gets a variable of this name does the same
// as without.
func harmless(name string) bool {
	return obeyedByNobody[name] || strings.HasPrefix(name, "LC_")
}

// sets notes that the shell sets a variable, and reports whether nothing but the
// line itself takes notice of it: a name in small letters that is not exported.
func (r *reader) sets(name string) bool {
	lower := name == strings.ToLower(name) && !strings.Contains(name, "proxy") && !strings.HasPrefix(name, "npm_") && !tiedInZsh[name]
	if !lower && !harmless(name) {
		r.res.taken = true
		return false
	}
	return true
}

// tiedInZsh are names in small letters that zsh obeys.
var tiedInZsh = wordSet("path fpath cdpath manpath module_path mailpath psvar aliases functions commands options builtins galiases saliases")
