package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

// wordOf makes an address or a length of two bytes: mostly in the memory that is
// free for programs, and often around its end and at the far end of all.
func wordOf(v uint16) uint32 {
	switch {
	case v < 0xf000:
		return uint32(v)
	case v < 0xf800:
		return pokeMemory - 0x400 + uint32(v&0x7ff)
	default:
		return 0xffffffff - uint32(v&0x7ff)
	}
}

// programOf reads a program from the fuzzer's bytes, so that most of them are
// programs that do something.
func programOf(in []byte) program {
	var p program
	next := func(n int) []byte {
		b := make([]byte, n)
		in = in[copy(b, in):]
		return b
	}
	for len(in) > 0 && len(p) < 16<<10 {
		op := next(1)[0] % steps
		w := next(6)
		a, b, c := binary.LittleEndian.Uint16(w), binary.LittleEndian.Uint16(w[2:]), binary.LittleEndian.Uint16(w[4:])
		switch op {
		case put:
			b %= 512
			p = p.put(uint32(a), string(next(int(min(b, uint16(len(in)))))))
		case show, showTaken: // what is not the host's doing stays out
		case fill:
			p = p.step(fill, uint32(a), uint32(b%4096), uint32(c&0xff))
		default:
			p = p.step(op, wordOf(a), wordOf(b), wordOf(c))
		}
	}
	return p
}

// memory is what a guest's memory must be after a program: the free part of it,
// and which bytes the host may have written.
type memory struct {
	want  []byte
	mayBe []bool
	wild  bool // it wrote where poke keeps its own
}

func (m *memory) touch(at, n uint32) {
	if uint64(at)+uint64(n) > pokeFree {
		m.wild = true
		return
	}
	for i := at; i < at+n; i++ {
		m.mayBe[i] = true
	}
}

func (m *memory) set(at uint32, b []byte) {
	if uint64(at)+uint64(len(b)) > pokeFree {
		m.wild = true
		return
	}
	copy(m.want[at:], b)
	for i := range b {
		m.mayBe[int(at)+i] = false
	}
}

// simulate runs a program on m, given the numbers that it printed.
func (m *memory) simulate(p program, numbers string) {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(p[i:]) }
	for len(p) > 0 && !m.wild {
		op, a, b, c := p[0], word(1), word(5), word(9)
		p = p[13:]
		switch op {
		case put:
			m.set(a, p[:b])
			p = p[b:]
			continue
		case fill:
			m.set(a, bytes.Repeat([]byte{byte(c)}, int(b)))
			continue
		}
		ok := numbers[0] == '0'
		numbers = numbers[1:]
		switch {
		case !ok || silent[op]:
		case op == callAnswer:
			m.touch(a, b)
		case op == take:
			m.touch(a, longest) // how long it was is not known here
		default:
			m.touch(c, 4)
		}
	}
}

// silent are the functions without an answer.
var silent = map[byte]bool{
	callLog: true, callWrite: true, callAppend: true, callMkdir: true, callRemove: true, callRename: true, callCharge: true,
	callKill: true, callRegister: true, callAdvance: true, callReplan: true,
}

// words are what programOf reads as words.
func words(vs ...uint16) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

// longest is more than any answer in FuzzHostFunctions has: each byte of a body is at
// most six in JSON.
const (
	drop     = "/docs/drop" // a folder to change, and nothing else
	longest  = 4096
	longBody = 256
)

// brief leaves out what a handler writes beyond a long body.
type brief struct {
	http.ResponseWriter
	left int
}

func (s *brief) Write(b []byte) (int, error) {
	n := min(len(b), s.left)
	s.left -= n
	_, err := s.ResponseWriter.Write(b[:n])
	return len(b), err
}

// Whatever a guest passes to the functions of the host, a run ends in one of few
// ways, and the host writes nowhere but where it was told to.
func FuzzHostFunctions(f *testing.F) {
	h := handler()
	w := online(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&brief{w, longBody}, r) }))
	digest := w.install(f, "poke")
	for _, s := range []struct {
		op  byte
		req string
	}{
		{callHTTP, get("/echo")},
		{callHTTP, `{"method":"POST","url":"` + site + `/echo","headers":{"A":"b"},"secret":"notes"}` + "\nbody"},
		{callHTTP, get("/away")},
		{callRead, "/docs/reports/a.txt"},
		{callRead, "/docs/secret.txt"},
		{callList, "/docs/reports"},
		{callLog, "line"},
		{callStat, "/docs/reports/a.txt"},
		{callExec, `{"path":"/bin/cat","args":["a"],"dir":"/docs/drop"}` + "\nstdin"},
		{callStart, `{"path":"/bin/cat","env":["A=b"],"ports":[1]}` + "\n"},
		{callOutput, "id"},
		{callPlan, ""},
		{callRegister, `{"id":"a","tools":["b"],"after":["c"]}`},
	} {
		n := uint16(len(s.req))
		in := slices.Concat([]byte{put}, words(0, n, 0), []byte(s.req), []byte{s.op}, words(0, n, 0x4000), []byte{take}, words(0x4000, 0x4000, 0))
		f.Add(in)
		f.Add(slices.Concat(in, []byte{s.op}, words(0, n, 0xf3fd), []byte{callAnswer}, words(0xf3f0, 5, 0), []byte{s.op}, words(0xffff, n, 8)))
	}
	for _, op := range []byte{callWrite, callAppend, callMkdir, callRemove, callRename, callCharge, callKill, callAdvance, callReplan} {
		n := uint16(len(drop) + 2)
		in := slices.Concat([]byte{put}, words(0, n, 0), []byte(drop+"/a"), []byte{put}, words(0x100, 8, 0), []byte("\x00\x00\x00\x00\x0c\x00\x00\x00"), []byte{op}, words(0, n, 0x100))
		f.Add(in)
		f.Add(slices.Concat(in, []byte{op}, words(0xf3f0, n, 0x100), []byte{op}, words(0, n, 0xf3fd)))
	}
	dropped := filepath.Join(w.dir, drop)
	must(f, os.Mkdir(dropped, 0o700))
	w.more.FS = []call.FS{{Root: "docs", Path: "drop", Modes: []string{"write", "append", "remove"}}, {Root: "docs", Path: "reports", Modes: []string{"read", "list"}}}
	codes := []call.Code{call.CodeOK, call.CodeGuestTrap, call.CodeTimeExceeded}
	f.Fuzz(func(t *testing.T, in []byte) {
		p := programOf(in)
		fx := w.effects(t, call.Bounds{TimeoutMS: 5000})
		out, o := w.box.Run(t.Context(), digest, args(t, p.step(show, 0, pokeFree).args()), fx)
		if !slices.Contains(codes, o.Code) {
			t.Fatalf("ended %s", o.Code)
		}
		for _, e := range fx.Close() {
			within := "/docs/reports"
			if slices.Contains([]string{"fs.write", "fs.append", "fs.remove"}, e.Kind) {
				within = drop
			}
			if strings.Contains(e.Within+e.Kind, secret) || e.Code == "ok" && strings.HasPrefix(e.Kind, "fs.") && e.Within != within || !strings.HasPrefix(e.Kind, "fs.") && !strings.HasPrefix(e.Kind, "http.") && e.Kind != "log" && e.Kind != "" && e.Code != "refused" {
				t.Errorf("effect %v", e)
			}
		}
		if b, err := os.ReadFile(filepath.Join(w.dir, "docs/reports/a.txt")); err != nil || string(b) != "alpha" {
			t.Fatalf("a.txt is %q, %v", b, err)
		}
		if made, err := os.ReadDir(dropped); err != nil || len(made) > 0 {
			must(t, os.RemoveAll(dropped))
			must(t, os.Mkdir(dropped, 0o700))
		}
		if bytes.Contains(out, []byte(canary)) || bytes.Contains(out, []byte(secret)) {
			t.Error("the guest has what no grant gives")
		}
		numbers := string(out[:max(0, len(out)-pokeFree)])
		if strings.Trim(numbers, "0123456789:;<=>?") != "" {
			t.Fatalf("error numbers %q", numbers)
		}
		if o.Code != call.CodeOK {
			return
		}
		m := memory{want: make([]byte, pokeFree), mayBe: make([]bool, pokeFree)}
		m.simulate(p, numbers)
		for i, b := range out[len(numbers):] {
			if !m.wild && !m.mayBe[i] && b != m.want[i] {
				t.Fatalf("the byte at %#x is %#x, want %#x", i, b, m.want[i])
			}
		}
	})
}
