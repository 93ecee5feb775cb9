package story

import (
	"context"
	"embed"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/txtar"

	"github.com/callgate/callgate/bundles"
	"github.com/callgate/callgate/rego"
)

// shipped are the bundles that a layer can begin with.
var shipped = map[string]func() fs.FS{
	"none":         nothing,
	"base":         nothing,
	"project":      bundles.Project,
	"starter":      bundles.Starter,
	"coding-agent": bundles.CodingAgent,
	"org-baseline": bundles.OrgBaseline,
}

func nothing() fs.FS { return embed.FS{} }

const vendored = "callgate" // where the library stands in a bundle

// bundle is the layer's files: those that are shipped, without their tests, the
// library beside them, and over them what the archive has. Where it has a data.json,
// it takes the place of all shipped data in that directory and below.
func (s *story) bundle(l layer) (fs.FS, error) {
	out := files{}
	if err := out.add("", s.begins(l)); err != nil {
		return nil, err
	}
	for _, f := range s.files.Files {
		name, ok := strings.CutPrefix(f.Name, l.Name+"/")
		if ok && path.Base(name) == dataFile {
			maps.DeleteFunc(out, func(old string, _ []byte) bool {
				dir := path.Dir(name)
				return path.Base(old) == dataFile && (dir == "." || strings.HasPrefix(old, dir+"/"))
			})
		}
	}
	for _, f := range s.files.Files {
		if name, ok := strings.CutPrefix(f.Name, l.Name+"/"); ok {
			out[name] = f.Data
		}
	}
	if l.Bundle != "none" && l.Bundle != This {
		if err := out.add(vendored, bundles.Base()); err != nil {
			return nil, err
		}
	}
	return out.fs()
}

const dataFile = "data.json"

// files are a bundle's, by name.
type files map[string][]byte

func (to files) add(dir string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.rego") {
			return err
		}
		to[path.Join(dir, name)], err = fs.ReadFile(from, name)
		return err
	})
}

// fs makes a file system of f.
func (f files) fs() (fs.FS, error) {
	a := &txtar.Archive{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		a.Files = append(a.Files, txtar.File{Name: name, Data: f[name]})
	}
	return txtar.FS(a)
}

// opened keeps compiled layers: many stories are told of the same ones.
var opened = struct {
	mu  sync.Mutex
	all map[string]*rego.Policy
}{all: map[string]*rego.Policy{}}

// openLayer compiles a layer. Stories of one layer name it as a project does that
// has no others.
func (s *story) openLayer(ctx context.Context, l layer) (*rego.Policy, error) {
	files, err := s.bundle(l)
	if err != nil {
		return nil, err
	}
	digest, err := bundles.Digest(files)
	if err != nil {
		return nil, err
	}
	o := rego.Options{Name: l.Name, Role: l.Role, Entrypoint: l.Entrypoint}
	key := strings.Join([]string{digest, o.Name, string(o.Role), o.Entrypoint}, "\n")
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if p := opened.all[key]; p != nil {
		return p, nil
	}
	p, err := rego.Open(ctx, files, o)
	if err == nil {
		opened.all[key] = p
	}
	return p, err
}

// open compiles the story's layers.
func (s *story) open(ctx context.Context) (*rego.Set, error) {
	var layers []*rego.Policy
	for _, l := range s.layers {
		p, err := s.openLayer(ctx, l)
		if err != nil {
			return nil, err
		}
		layers = append(layers, p)
	}
	return rego.NewSet(layers...)
}
