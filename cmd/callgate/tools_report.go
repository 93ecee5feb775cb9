package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
)

// aloneNote says what a run by hand is not.
const aloneNote = "no policy was asked and nothing is recorded: the tool had what the grant gives, of what you can do yourself"

// runResult is what -o json prints of a tool that was tried alone.
type runResult struct {
	Note       string         `json:"note"`
	File       string         `json:"file"`
	Code       call.Code      `json:"code"`
	Meaning    string         `json:"meaning"`
	Detail     string         `json:"detail,omitzero"`
	Output     jsontext.Value `json:"output,omitzero"`      // when it is JSON
	OutputText string         `json:"output_text,omitzero"` // when it is other text
	OutputRaw  []byte         `json:"output_base64,omitzero"`
	Stderr     string         `json:"stderr,omitzero"`
	Outcome    *call.Outcome  `json:"outcome,omitzero"`
	TookUS     int64          `json:"took_us,omitzero"`
}

// report prints what became of the run and returns its exit code, which is that of a
// call that ended so.
func (p *toolRun) report(cmd *cobra.Command, file string, res *engine.Result, err error) error {
	_, denied := errors.AsType[*engine.Denial](err)
	_, failed := errors.AsType[*engine.ToolError](err)
	if err != nil && !denied && !failed {
		return err // the module, the grant or this machine: nothing was tried
	}
	r := describe(file, res, err)
	code := exitOf(r.Code.Info().Class)
	if r.Outcome == nil && code == exitFailed {
		code = exitUnsure
	}
	if p.output == "json" {
		err := writeJSON(cmd.OutOrStdout(), runResult{
			aloneNote, file, r.Code, r.Meaning, r.Detail, r.Output, r.OutputText, r.OutputRaw, r.Stderr, r.Outcome, r.TookUS,
		})
		if err != nil {
			return err
		}
		return exitWith(code, nil)
	}
	if res != nil {
		if err := writeOutput(cmd.OutOrStdout(), res.Output); err != nil {
			return err
		}
	}
	printRun(cmd.ErrOrStderr(), r)
	return exitWith(code, nil)
}

func printRun(w io.Writer, r callResult) {
	said(w, filepath.Base(r.Tool), r.Stderr)
	fmt.Fprintf(w, "%s: %s", r.Code, r.Meaning)
	if r.Detail != "" {
		fmt.Fprintf(w, " (%s)", clean(r.Detail))
	}
	fmt.Fprintln(w)
	if o := r.Outcome; o != nil {
		if r.Code == call.CodeToolError {
			fmt.Fprintf(w, "  exit %d\n", o.Exit)
		}
		fmt.Fprintf(w, "  %s, fuel %d, memory %s\n", ms(o.Took), o.Fuel, mib(o.MemoryBytes))
		if o.MemoryRefused {
			fmt.Fprintln(w, "  it asked for more memory than it may have")
		}
		for _, fx := range o.Effects {
			fmt.Fprintln(w, "  "+effectLine(fx))
		}
	}
	fmt.Fprintln(w, aloneNote)
}
