package story

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// This is the name of the bundle that a story is told of when it is given to [Tell],
// beside the names of those that are shipped.
const This = "this"

// MaxBytes is how large one story may be.
const MaxBytes = 4 << 20

// Options say how to tell stories.
type Options struct {
	// This is the bundle named this. Nil: stories of it are errors.
	This fs.FS

	// Run says which scenes to tell, by STORY/SCENE. Nil means all.
	Run func(name string) bool

	// Now is the clock that scenes are timed by. Nil means time.Now.
	Now func() time.Time
}

// Result is how one scene ended.
type Result struct {
	Name    string        // STORY/SCENE
	File    string        // of the story
	Why     string        // what the scene is about
	Differs []string      // where it did not end as it is told
	Err     error         // it could not be told
	Took    time.Duration // of all layers or the whole road
}

// Tell tells all stories in dir, the files NAME.txtar, and says how each scene
// ended.
//
// # Errors
//
// An error means that a story cannot be read, that there are none, or that ctx
// ended.
func Tell(ctx context.Context, dir fs.FS, o Options) ([]Result, error) {
	names, err := fs.Glob(dir, "*"+storySuffix)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("there are no stories NAME" + storySuffix)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var out []Result
	for _, name := range names {
		src, err := readStory(dir, name)
		if err != nil {
			return nil, err
		}
		s, err := parseStory(name, src, o.This)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		told, err := s.tell(ctx, name, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, told...)
	}
	return out, ctx.Err()
}

func readStory(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxBytes {
		return nil, fmt.Errorf("%s: is no regular file of at most %d bytes", name, MaxBytes)
	}
	return fs.ReadFile(dir, name)
}

func (s *story) tell(ctx context.Context, file string, o Options) ([]Result, error) {
	var todo []*scene
	for _, c := range s.scenes {
		if o.Run == nil || o.Run(s.name+"/"+c.name) {
			todo = append(todo, c)
		}
	}
	if len(todo) == 0 {
		return nil, nil
	}
	layers, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, c := range todo {
		r := Result{Name: s.name + "/" + c.name, File: path.Clean(file), Why: strings.TrimSpace(c.Why)}
		began := o.Now()
		var got want
		if c.Steps != nil {
			got, r.Err = s.walk(ctx, layers, c)
		} else {
			got, r.Err = s.decided(ctx, layers, c.ask)
		}
		r.Took = o.Now().Sub(began)
		switch {
		case r.Err != nil:
		case c.want == nil:
			r.Differs = []string{"the story does not say what becomes of it: " + oneLine(got)}
		default:
			r.Differs = c.want.against(got)
		}
		out = append(out, r)
	}
	return out, nil
}

func oneLine(w want) string {
	return strings.Join(strings.Split(strings.TrimSpace(string(w.text())), "\n"), "; ")
}

// against says where got is not what is told.
func (w want) against(got want) []string {
	var out []string
	told, is := reflect.ValueOf(w), reflect.ValueOf(got)
	for i := range told.NumField() {
		name, _, _ := strings.Cut(told.Type().Field(i).Tag.Get("yaml"), ",")
		if x, y := told.Field(i).Interface(), is.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			out = append(out, fmt.Sprintf("%s: told %s, is %s", name, shown(x), shown(y)))
		}
	}
	slices.Sort(out)
	return out
}

func shown(x any) string {
	if s := fmt.Sprint(x); s != "" && s != "[]" && s != "map[]" {
		return s
	}
	return "nothing"
}

// begins are the files that a layer begins with.
func (s *story) begins(l layer) fs.FS {
	if l.Bundle == This {
		return s.this
	}
	return shipped[l.Bundle]()
}
