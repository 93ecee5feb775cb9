// Package facts derives from the arguments of a call what policies reason about:
// URLs and file paths, each in the one form that all programs read alike.
package facts
