// Package facts derives from the arguments of a call what policies reason about:
// URLs and file paths, each in the one form that all programs read alike, and the
// commands that a shell line or an argument vector runs.
package facts
