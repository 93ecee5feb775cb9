package hostfx

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/callgate/callgate/engine/call"
)

// Limits of what a tool logs, in bytes.
const (
	maxLine         = 4096
	defaultLogBytes = 16 * maxLine
)

// Level says how much a line that is logged matters. The zero value is Info.
type Level int

// The levels of lines.
const (
	Debug Level = iota - 1
	Info
	Warn
	Error
)

// mark is what a line of the level begins with.
func (l Level) mark() string {
	switch {
	case l < Info:
		return "debug: "
	case l == Info:
		return ""
	case l == Warn:
		return "warn: "
	}
	return "error: "
}

// lines are what the tool logged.
type lines struct {
	mu   sync.Mutex // protects the fields below
	text []byte
	left int64
	full bool
}

// Log adds one line to what the tool says to its caller. It never reaches a
// record. Characters that would end the line or move a terminal's cursor, and
// bytes that are not UTF-8, become U+FFFD; what is beyond 4,096 bytes is cut.
//
// All lines of a call are one effect of kind log, whose Count and BytesOut grow.
//
// # Errors
//
// [ErrNotGranted] when the grant does not say log; [ErrTooLarge] when the line does
// not fit into the grant's log_bytes (65,536 unless it says). That line and all
// after it are dropped, and counted in an effect of their own.
func (fx *Effects) Log(line string) error { return fx.LogAt(Info, line) }

// LogAt is [Effects.Log] of a line that matters more or less than others: it begins
// with "debug: ", "warn: " or "error: ", which counts as part of it.
func (fx *Effects) LogAt(level Level, line string) error {
	line = level.mark() + line
	fx.life.RLock()
	defer fx.life.RUnlock()
	if err := fx.gone(); err != nil {
		return err
	}
	within := fx.caps.Within(call.Op{Kind: call.OpLog})
	if within == "" {
		fx.log.addLine("", refused, 0)
		return ErrNotGranted
	}
	n, err := fx.lines.add(line)
	code := ok
	if err != nil {
		code = overCap
	}
	fx.log.addLine(within, code, n)
	return err
}

// Logged returns what the tool logged, a line break after each line. It may hold
// anything that the tool saw, so it is for the caller only, and for no record.
func (fx *Effects) Logged() []byte {
	fx.lines.mu.Lock()
	defer fx.lines.mu.Unlock()
	return append([]byte(nil), fx.lines.text...)
}

// add returns how many bytes were kept.
func (l *lines) add(line string) (int, error) {
	line = cut(strings.Map(printable, cut(line))) + "\n"
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full || int64(len(line)) > l.left {
		l.full = true // a line that is missing shows only at the end
		return 0, ErrTooLarge
	}
	l.left -= int64(len(line))
	l.text = append(l.text, line...)
	return len(line), nil
}

// cut keeps whole characters.
func cut(s string) string { return s[:endWithin(s, maxLine)] }

// shortened is what is kept of s, at most so many bytes, without the rest in memory.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(s[:endWithin(s, most)])
}

// endWithin is where at most so many bytes of whole characters end.
func endWithin(s string, most int) int {
	if len(s) <= most {
		return len(s)
	}
	i := most
	for i > most-utf8.UTFMax && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

func printable(r rune) rune {
	if r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)) {
		return utf8.RuneError
	}
	return r
}
