package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/engine/tool"
	"github.com/callgate/callgate/sandbox"
)

func newToolsCompile() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "compile [DIR|FILE.wasm]",
		Short: "Compile modules ahead of time",
		Long: `Compile compiles modules into the cache of the data directory, so that the next
process that opens it does not have to: all tools below DIR, one tool, or the module in
FILE. Without it, the tools of the configuration. What the cache has already is not
compiled again. An owner may have the data directory open.

Only what is compiled by the same version of Callgate, for the same kind of processor, is
taken from the cache. Exit code 1 means that a module was refused.`,
		Example: "  callgate tools compile --config work/callgate.yaml\n  callgate tools compile --config work/callgate.yaml word-count/word-count.wasm",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			from := conf.Tools
			if len(args) == 1 {
				from = args[0]
			}
			files, err := modulesIn(from)
			if err != nil {
				return err
			}
			return compile(cmd, format, conf, files)
		},
	}
	addConfigFlags(cmd, decideTimeoutKey)
	outputFlag(cmd, &format)
	return cmd
}

// compiled is what became of one module.
type compiled struct {
	File   string `json:"file"`
	Digest string `json:"digest,omitzero"`
	Bytes  int    `json:"bytes,omitzero"`
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitzero"`
	TookUS int64  `json:"took_us"`
}

func compile(cmd *cobra.Command, format string, conf Config, files []string) (err error) {
	ctx := cmd.Context()
	box, err := local.OpenGuests(ctx, conf.local(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close(context.WithoutCancel(ctx))) }()
	list, code := []compiled{}, exitOK
	for _, f := range files {
		c, err := compileOne(ctx, box, f)
		if err != nil {
			return err
		}
		if list = append(list, c); !c.OK {
			code = exitDenied
		}
		if format == "json" {
			continue
		}
		if c.OK {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, %s\n", fromHere(f), c.Bytes, ms(time.Duration(c.TookUS)*time.Microsecond))
		} else {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s: refused: %s\n", fromHere(f), clean(c.Error))
		}
		if err != nil {
			return err
		}
	}
	if format == "json" {
		if err := writeJSON(cmd.OutOrStdout(), list); err != nil {
			return err
		}
	}
	return exitWith(code, nil)
}

// fromHere is how people name a file below where the command runs.
func fromHere(file string) string {
	if here, err := os.Getwd(); err == nil {
		if name, err := filepath.Rel(here, file); err == nil && filepath.IsLocal(name) {
			return name
		}
	}
	return file
}

func compileOne(ctx context.Context, box *sandbox.Sandbox, file string) (compiled, error) {
	module, err := readModule(file)
	if err != nil {
		return compiled{}, err
	}
	start := now()
	err = box.Install(ctx, call.Digest(module), module)
	c := compiled{File: file, Digest: call.Digest(module), Bytes: len(module), OK: err == nil, TookUS: now().Sub(start).Microseconds()}
	if err == nil {
		return c, nil
	}
	if ctx.Err() != nil || call.CodeOf(err, "") != call.CodeGuestUnavailable {
		return c, err
	}
	c.Error = err.Error()
	return c, nil
}

// modulesIn finds the modules of the tools below a directory, of a tool, or a module.
// Where a bundle has the manifests, a directory of a tool holds its module alone.
func modulesIn(from string) ([]string, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{from}, nil
	}
	files, err := modulesOf(from)
	if err != nil || files != nil {
		return files, err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, d := range entries {
		if !d.IsDir() {
			continue
		}
		more, err := modulesOf(filepath.Join(from, d.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no tool in it", from)
	}
	return files, nil
}

// modulesOf is the module that the manifest in dir names, if there is one there, and
// else every module.
func modulesOf(dir string) ([]string, error) {
	if _, err := os.Lstat(filepath.Join(dir, tool.FileName)); err == nil {
		m, _, err := tool.Load(dir) // refuses what is not the module that is pinned
		if err != nil || m.Kind != "wasm" {
			return nil, err
		}
		return []string{filepath.Join(dir, m.Module)}, nil
	}
	return wasmFiles(dir)
}

func wasmFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, d := range entries {
		if d.Type().IsRegular() && filepath.Ext(d.Name()) == ".wasm" {
			files = append(files, filepath.Join(dir, d.Name()))
		}
	}
	return files, err
}
