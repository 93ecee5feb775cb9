// Package grant names the sealed grant: the value without which nothing runs.
//
// A grant says that one principal may run one tool, pinned by digest, once, with
// exactly these arguments, within these capabilities, before a time. The engine
// mints it after the decision's record is durable, and it is dead when the call
// ends. No other package can make one: the type's fields and its constructor
// live in a package internal to engine, and the zero value grants nothing.
//
// # What a grant does not protect
//
// Go code in the same process can use unsafe, and a tool written in Go can do
// anything the process can. Grants keep honest code honest there; only a guest
// in the sandbox is held by them.
package grant

import "github.com/callgate/callgate/engine/internal/seal"

// Grant lets one call of one tool run once. The zero value grants nothing.
type Grant = seal.Grant
