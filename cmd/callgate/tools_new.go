package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"
)

//go:embed templates
var templates embed.FS

// languages are those that there is a template for.
var languages = map[string]language{
	"go":   {source: "main.go", needs: "Go 1.26 or later", build: addGoModule},
	"c":    {source: "main.c", needs: "clang, lld and wasi-libc"},
	"rust": {source: "main.rs", needs: "rustc with the target wasm32-wasip1"},
	"as":   {source: "main.ts", needs: "Node.js and npm, for AssemblyScript"},
}

type language struct {
	source, needs string
	build         func(values map[string]string, sdk string, info *debug.BuildInfo) error // what is only known now
}

// toolName is what a manifest takes, and no name of a file that means something else.
var toolName = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$`)

func newToolsNew() *cobra.Command {
	var lang, sdk string
	langs := slices.Sorted(maps.Keys(languages))
	cmd := &cobra.Command{
		Use:   "new NAME --lang " + strings.Join(langs, "|"),
		Short: "Write a small tool that builds and runs",
		Long: `New writes a tool into a new directory NAME: source, manifest, a script that builds
it, and what to try it with. The last part of NAME is the name of the tool. The tool is a
reactor, which the host can take a snapshot of.

In Go, the tool needs the release of Callgate that this command is of. Where the
command was built from a checkout, --sdk says where that is.`,
		Example: `  callgate tools new --lang c word-count
  callgate tools new --lang go --sdk ~/src/callgate word-count`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, ok := languages[lang]
			if !ok {
				return fmt.Errorf("--lang %q: want %s", lang, strings.Join(langs, ", "))
			}
			if sdk != "" && l.build == nil {
				return fmt.Errorf("--sdk: a tool in %s takes nothing from there", lang)
			}
			if err := writeTool(args[0], lang, sdk); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), `wrote %[1]s

  cd %[1]s && sh build.sh    # needs %[3]s
  callgate tools inspect %[2]s.wasm
  callgate tools run %[2]s.wasm --grant grant.json --root files=files --args @args.json
`, args[0], filepath.Base(args[0]), l.needs)
			return err
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "language: "+strings.Join(langs, ", "))
	cmd.Flags().StringVar(&sdk, "sdk", "", "of a tool in Go: directory of a checkout of Callgate, in place of a release")
	if err := cmd.MarkFlagRequired("lang"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

// writeTool writes a tool into dir, which must not be there: what is there is not
// ours, and a link leads who knows where.
func writeTool(dir, lang, sdk string) (err error) {
	name := filepath.Base(dir)
	if !toolName.MatchString(name) || len(name) > 64 {
		return fmt.Errorf("%s: the name of a tool is of a-z, 0-9, dot, - and _, at most 64, a letter first", strconv.QuoteToASCII(name))
	}
	values := map[string]string{"name": name, "source": languages[lang].source, "needs": languages[lang].needs}
	if build := languages[lang].build; build != nil {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return errors.New("this command does not know what it was built from")
		}
		if err := build(values, sdk, info); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, part := range []string{"templates/common", "templates/" + lang} {
		if err := fill(root, part, values); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a template, with values in place of what stands between two @.
func fill(root *os.Root, part string, values map[string]string) error {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "@"+name+"@", value)
	}
	replace := strings.NewReplacer(pairs...)
	return fs.WalkDir(templates, part, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == part {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(name, part+"/"), ".tmpl")
		if d.IsDir() {
			return root.Mkdir(to, 0o755)
		}
		b, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if path.Ext(to) == ".sh" {
			mode = 0o755
		}
		f, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = replace.WriteString(f, string(b))
		return errors.Join(err, f.Close())
	})
}

const (
	ownModule  = "github.com/callgate/callgate"
	jsonModule = "github.com/go-json-experiment/json"
)

// addGoModule says which versions a tool in Go is built with: those of this command.
func addGoModule(values map[string]string, sdk string, info *debug.BuildInfo) error {
	for _, d := range info.Deps {
		if d.Path == jsonModule {
			values["json"] = d.Version
		}
	}
	if values["json"] == "" {
		return errors.New("this command does not know its version of " + jsonModule)
	}
	if sdk == "" {
		// A version that stands for a commit is of a checkout, and may be nowhere else.
		if v := info.Main.Version; info.Main.Path == ownModule && strings.HasPrefix(v, "v") && !module.IsPseudoVersion(v) && !strings.Contains(v, "+") {
			values["version"], values["replace"] = v, ""
			return nil
		}
		return errors.New("this command was built from a checkout: say where that is, with --sdk DIR")
	}
	sdk, err := filepath.Abs(sdk)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(sdk, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module "+ownModule+"\n") {
		return fmt.Errorf("--sdk %s: is not a checkout of %s", sdk, ownModule)
	}
	values["version"] = "v0.0.0"
	values["replace"] = fmt.Sprintf("\nreplace %s => %s\n", ownModule, strconv.Quote(sdk))
	return nil
}
