package sandbox_test

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// Steps of the guest poke.
const (
	put = iota
	callHTTP
	callRead
	callList
	callAnswer
	callLog
	show
	take
	showTaken
	fill
	callStat
	callWrite
	callAppend
	callMkdir
	callRemove
	callRename
	callExec
	callCharge
	callStart
	callOutput
	callKill
	callPlan
	callRegister
	callAdvance
	callReplan
	steps // how many there are
)

// Memory of the guest poke.
const (
	pokeFree   = 128 << 10 // from 0, for programs
	pokeMemory = 256 << 10
	lengthAt   = 0x1fff0 // where these tests want lengths
	moreAt     = 0x1ffe0 // where they put the parameters that a step has no words for
)

// program is what the guest poke is to do. Nothing that it puts into memory
// may reach beyond pokeFree.
type program []byte

func (p program) step(op byte, words ...uint32) program {
	p = append(p, op)
	for i := range 3 {
		var w uint32
		if i < len(words) {
			w = words[i]
		}
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	return p
}

func (p program) put(at uint32, s string) program {
	return append(p.step(put, at, uint32(len(s))), s...)
}

// ask puts a request at 0, makes it, takes the answer to 0x8000 and shows it.
func (p program) ask(op byte, req string) program {
	return p.put(0, req).step(op, 0, uint32(len(req)), lengthAt).step(take, 0x8000, lengthAt).step(showTaken, 0x8000, lengthAt)
}

// tell puts a request at 0 and another at 0x4000, and makes a request of both.
func (p program) tell(op byte, req, other string) program {
	return p.put(0, req).put(0x4000, other).words(0x4000, uint32(len(other))).step(op, 0, uint32(len(req)), moreAt)
}

// words puts words at moreAt.
func (p program) words(words ...uint32) program {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return p.put(moreAt, string(b))
}

func (p program) args() string { return `{"p":"` + hex.EncodeToString(p) + `"}` }

// poke runs a program once with the modes granted.
func (w *world) poke(t testing.TB, p program, b call.Bounds, modes ...string) (string, call.Outcome) {
	t.Helper()
	return w.run(t, "poke", p.args(), b, modes...)
}

// taken is what ask prints, without what it shows when it got no answer.
func taken(out string) string {
	if len(out) > 2 && out[0] != '0' {
		return out[:2]
	}
	return out
}
