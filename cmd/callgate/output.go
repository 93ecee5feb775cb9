package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// outputFlag adds -o, which every command that prints a result has.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "text", "text or json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *format != "text" && *format != "json" {
			return fmt.Errorf("-o %s: want text or json", *format)
		}
		return nil
	}
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", escapeControls(b))
	return err
}

// escapeControls writes characters that JSON lets stand in strings, and that nobody
// sees or terminals obey, as escapes: see visible. Line breaks here are the layout's.
func escapeControls(b []byte) []byte {
	if !bytes.ContainsFunc(b, func(r rune) bool { return r != '\n' && hidden(r) }) {
		return b
	}
	lines := strings.Split(string(b), "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return []byte(strings.Join(lines, "\n"))
}

// terminal reports whether w is one, or any other device but the one for nothing.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// writeOutput writes what a tool returned, as it is unless a terminal would obey it.
func writeOutput(w io.Writer, output []byte) error {
	if terminal(w) {
		output = []byte(clean(string(output)))
	}
	if n := len(output); n > 0 && output[n-1] != '\n' {
		output = append(slices.Clip(output), '\n')
	}
	_, err := w.Write(output)
	return err
}

// clean takes control characters out of text that a tool or a policy wrote, so
// that it cannot drive the terminal. Line breaks and tabs stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// ms prints a duration as a person reads it.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// now is the clock of what people read.
func now() time.Time { return time.Now() }

// said is what a tool says beside its result, each line under the tool's name: nothing
// that it writes looks like a line of this program.
func said(w io.Writer, tool, text string) {
	if text = strings.TrimRight(clean(text), "\n"); text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(w, "%s| %s\n", clean(tool), line)
	}
}
