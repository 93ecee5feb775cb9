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
// All lines of a call are one effect of kind log, whose Count and Bytes grow.
//
// # Errors
//
// [ErrNotGranted] when the grant does not say log; [ErrTooLarge] when the line does
// not fit into the grant's log_bytes (65,536 unless it says). That line and all
// after it are dropped, and counted in an effect of their own.
func (fx *Effects) Log(line string) error {
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
func cut(s string) string {
	if len(s) <= maxLine {
		return s
	}
	i := maxLine
	for i > maxLine-utf8.UTFMax && !utf8.RuneStart(s[i]) {
		i--
	}
	return s[:i]
}

func printable(r rune) rune {
	if r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)) {
		return utf8.RuneError
	}
	return r
}
