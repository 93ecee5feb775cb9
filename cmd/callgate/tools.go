package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/tool"
)

func newTools() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Write, look into, try and compile tools",
		Long: `Tools is for whoever writes tools that run as WebAssembly. docs/tool-authors.md
leads from nothing to a tool that runs behind policy.`,
		Example: `  callgate tools new --lang go word-count
  callgate tools inspect word-count/word-count.wasm`,
		RunE: needSubcommand,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newToolsNew(), newToolsInspect(), newToolsRun(), newToolsCompile())
	return cmd
}

// readModule reads a module that somebody names on the command line. A pipe or a device
// would hold us up, so only regular files will do.
func readModule(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, tool.MaxModuleBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(b) > tool.MaxModuleBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, tool.MaxModuleBytes)
	}
	return b, nil
}
