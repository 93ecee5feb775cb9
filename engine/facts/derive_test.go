package facts_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

func canonical(t *testing.T, s string) call.Args {
	t.Helper()
	a, err := call.Canonical([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func web(host, method string) call.URL {
	return call.URL{
		Scheme: "https", Host: host, Wildcard: "", Port: 443, Path: "/", Segments: []string{}, Method: method,
	}
}

func TestDerive(t *testing.T) {
	get := facts.Declaration{URLs: []facts.URLAt{{At: "/url", Method: "GET"}}}
	tests := []struct {
		name       string
		d          facts.Declaration
		give, want string // "" for same as give
		facts      call.Facts
	}{
		{"nothing declared", facts.Declaration{}, `{"url":"HTTPS://X.io"}`, ``, call.Facts{}},
		{"url", get, `{"url":"HTTPS://X.io:443","z":1}`, `{"url":"https://x.io/","z":1}`, call.Facts{URLs: []call.URL{web("x.io", "GET")}}},
		{"url that is canonical", get, `{"n":0.1,"url":"https://x.io/"}`, ``, call.Facts{URLs: []call.URL{web("x.io", "GET")}}},
		{
			"method among the arguments", facts.Declaration{URLs: []facts.URLAt{{At: "/r/url", MethodAt: "/m"}}},
			`{"m":"M-SEARCH","r":{"url":"https://x.io/"}}`, ``, call.Facts{URLs: []call.URL{web("x.io", "M-SEARCH")}},
		},
		{
			"items, in order of declaration and array",
			facts.Declaration{URLs: []facts.URLAt{{At: "/b/*", Method: "GET"}, {At: "/a", Method: "PUT"}}},
			`{"a":"https://a.io","b":["https://c.io","https://b.io/"]}`, `{"a":"https://a.io/","b":["https://c.io/","https://b.io/"]}`,
			call.Facts{URLs: []call.URL{web("c.io", "GET"), web("b.io", "GET"), web("a.io", "PUT")}},
		},
		{
			"items of items with words of their own", facts.Declaration{Paths: []facts.PathAt{{At: "/l/*/p/*/x", ModeAt: "/l/*/p/*/m"}}},
			`{"l":[{"p":[{"m":"read","x":"/w/1"},{"m":"write","x":"/w//2"}]},{"p":[{"m":"list","x":"/w/"}]}]}`,
			`{"l":[{"p":[{"m":"read","x":"/w/1"},{"m":"write","x":"/w/2"}]},{"p":[{"m":"list","x":"/w"}]}]}`,
			call.Facts{Paths: []call.Path{
				{Root: "w", Path: "1", Segments: []string{"1"}, Mode: "read"},
				{Root: "w", Path: "2", Segments: []string{"2"}, Mode: "write"},
				{Root: "w", Path: ".", Segments: []string{}, Mode: "list"},
			}},
		},
		{
			"word of an outer item", facts.Declaration{Paths: []facts.PathAt{{At: "/l/*/p/*", ModeAt: "/l/*/m"}}},
			`{"l":[{"m":"read","p":["/a"]},{"m":"write","p":["/b","/c"]}]}`, ``,
			call.Facts{Paths: []call.Path{
				{Root: "a", Path: ".", Segments: []string{}, Mode: "read"},
				{Root: "b", Path: ".", Segments: []string{}, Mode: "write"},
				{Root: "c", Path: ".", Segments: []string{}, Mode: "write"},
			}},
		},
		{
			"both families, one path twice",
			facts.Declaration{
				URLs:  []facts.URLAt{{At: "/a~1b~0", Method: "GET"}},
				Paths: []facts.PathAt{{At: "/p", Mode: "read"}, {At: "/p", Mode: "write"}},
			},
			`{"a/b~":"https://x.io","p":"/w/"}`, `{"a/b~":"https://x.io/","p":"/w"}`,
			call.Facts{URLs: []call.URL{web("x.io", "GET")}, Paths: []call.Path{
				{Root: "w", Path: ".", Segments: []string{}, Mode: "read"},
				{Root: "w", Path: ".", Segments: []string{}, Mode: "write"},
			}},
		},
		{
			"commands stay as they are", facts.Declaration{Commands: []facts.CommandAt{{At: "/line"}, {Argv: "/l/*/argv"}}},
			`{"l":[{"argv":["sudo","rm","x"]},{"argv":["ls"]}],"line":"ls  -l|cat"}`, ``,
			call.Facts{Commands: []call.Command{
				{Name: "ls", Argv: []string{"ls", "-l"}, Via: []string{}, Reads: []string{}, Writes: []string{}},
				{Name: "cat", Argv: []string{"cat"}, Via: []string{}, Reads: []string{}, Writes: []string{}},
				{Name: "rm", Argv: []string{"rm", "x"}, Via: []string{"sudo"}, Reads: []string{}, Writes: []string{"x"}},
				{Name: "ls", Argv: []string{"ls"}, Via: []string{}, Reads: []string{}, Writes: []string{}},
			}},
		},
		{
			"the rest stays as it is", get,
			`{"a":[1e-7,5e-324,9007199254740991,-0.5,null,true,"\u000f\u20ac<>&\ud83d\ude00",{}],"url":"https://x.io"}`,
			"{\"a\":[1e-7,5e-324,9007199254740991,-0.5,null,true,\"\\u000f€<>&\U0001f600\",{}],\"url\":\"https://x.io/\"}",
			call.Facts{URLs: []call.URL{web("x.io", "GET")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.give
			}
			f, args, err := tt.d.Derive(canonical(t, tt.give))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(args.Bytes()); got != want {
				t.Errorf("arguments are %s, want %s", got, want)
			}
			if d := cmp.Diff(tt.facts, f); d != "" { // tells nil from empty
				t.Errorf("facts (-want +got):\n%s", d)
			}
		})
	}
}

func TestDeriveRefuses(t *testing.T) {
	const unparsable = call.CodeFactsUnparsable
	url := func(at string) facts.Declaration {
		return facts.Declaration{URLs: []facts.URLAt{{At: at, Method: "GET"}}}
	}
	by := func(at, modeAt string) facts.Declaration {
		return facts.Declaration{Paths: []facts.PathAt{{At: at, ModeAt: modeAt}}}
	}
	line := func(at string) facts.Declaration { return facts.Declaration{Commands: []facts.CommandAt{{At: at}}} }
	argv := func(at string) facts.Declaration { return facts.Declaration{Commands: []facts.CommandAt{{Argv: at}}} }
	tests := []struct {
		name, give string
		d          facts.Declaration
		code       call.Code
		want       string
	}{
		{"url", `{"u":"https://canary@x.io"}`, url("/u"), unparsable, "at /u: the URL has user information"},
		{"path", `{"p":"/canary/..","m":"read"}`, by("/p", "/m"), unparsable, "at /p: the path has a dot segment"},
		{"missing", `{"canary":1}`, url("/u"), unparsable, "at /u: is missing"},
		{"in another case", `{"U":"https://x.io"}`, url("/u"), unparsable, "at /u: is missing"},
		{"null", `{"u":null}`, url("/u"), unparsable, "at /u: is not a string"},
		{"number", `{"u":1}`, url("/u"), unparsable, "at /u: is not a string"},
		{"array", `{"u":["https://x.io"]}`, url("/u"), unparsable, "at /u: is not a string"},
		{"one of many items", `{"u":["https://x.io","canary"]}`, url("/u/*"), unparsable, "at /u/*: the URL does not begin"},
		{"no items", `{"u":[]}`, url("/u/*"), unparsable, "at /u/*: is missing, since the array has no items"},
		{"no inner items", `{"u":[["https://x.io"],[]]}`, url("/u/*/*"), unparsable, "at /u/*/*: is missing"},
		{"not an array", `{"u":{"*":"https://x.io"}}`, url("/u/*"), unparsable, "at /u/*: is not within an array"},
		{"not an object", `{"u":["https://x.io"]}`, url("/u/0"), unparsable, "at /u/0: is not within an object"},
		{"beyond a string", `{"u":"canary"}`, url("/u/x"), unparsable, "at /u/x: is not within an object"},
		{"mode missing", `{"p":"/w"}`, by("/p", "/m"), unparsable, "at /m: is missing, or is not a string"},
		{"mode is null", `{"p":"/w","m":null}`, by("/p", "/m"), unparsable, "at /m: is missing, or is not a string"},
		{"mode is a list", `{"p":"/w","m":["read"]}`, by("/p", "/m"), unparsable, "at /m: is missing, or is not a string"},
		{"mode unknown", `{"p":"/w","m":"canary"}`, by("/p", "/m"), unparsable, "at /m: is not a mode that is known"},
		{"mode in capitals", `{"p":"/w","m":"READ"}`, by("/p", "/m"), unparsable, "at /m: is not a mode that is known"},
		{"mode of an item", `{"l":[{"p":"/w","m":"read"},{"p":"/w"}]}`, by("/l/*/p", "/l/*/m"), unparsable, "at /l/*/m: is missing"},
		{"mode beyond a string", `{"p":"/w","m":"read"}`, by("/p", "/m/x"), unparsable, "at /m/x: is missing"},
		{
			"method in small letters", `{"u":"https://x.io","m":"get"}`,
			facts.Declaration{URLs: []facts.URLAt{{At: "/u", MethodAt: "/m"}}}, unparsable, "at /m: is not a method that is known",
		},
		{"line", `{"c":"echo 'canary"}`, line("/c"), unparsable, "at /c: the command cannot be read"},
		{"line that runs nothing", `{"c":"# canary"}`, line("/c"), unparsable, "at /c: the command runs nothing"},
		{"line that is none", `{"c":["canary"]}`, line("/c"), unparsable, "at /c: is not a string"},
		{"line that is null", `{"c":null}`, line("/c"), unparsable, "at /c: is not a string"},
		{"argv that is a line", `{"c":"canary"}`, argv("/c"), unparsable, "at /c: is not an array of strings"},
		{"argv that is null", `{"c":null}`, argv("/c"), unparsable, "at /c: is not an array of strings"},
		{"argv of numbers", `{"c":["canary",1]}`, argv("/c"), unparsable, "at /c: is not an array of strings"},
		{"argv that is empty", `{"c":[]}`, argv("/c"), unparsable, "at /c: the command names no program"},
		{"too many commands in all", `{"c":["` + strings.Repeat("a;", 200) + `","` + strings.Repeat("a;", 200) + `"]}`, line("/c/*"), unparsable, "at /c/*: has too many commands"},
		{"bad declaration", `{"u":"https://x.io"}`, facts.Declaration{URLs: []facts.URLAt{{At: "/u"}}}, unparsable, "no valid declaration"},
		{
			"both families, the second bad", `{"u":"https://x.io","p":"canary"}`,
			facts.Declaration{URLs: []facts.URLAt{{At: "/u", Method: "GET"}}, Paths: []facts.PathAt{{At: "/p", Mode: "read"}}},
			unparsable, "at /p: the path does not begin with /",
		},
		{"too large when canonical", fmt.Sprintf(`{"u":"https://x.io","x":%q}`, strings.Repeat("x", call.MaxArgsBytes-len(`{"u":"https://x.io","x":""}`))), url("/u"), call.CodeArgsTooLarge, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, args, err := tt.d.Derive(canonical(t, tt.give))
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code != tt.code || !strings.HasPrefix(e.Detail, tt.want) || strings.Contains(err.Error(), "canary") {
				t.Fatalf("%v, want %s: %s", err, tt.code, tt.want)
			}
			if !args.IsZero() || f.URLs != nil || f.Paths != nil || f.Commands != nil {
				t.Errorf("refused, yet gave %+v", f)
			}
		})
	}
	many := func(n int) call.Args {
		return canonical(t, `{"u":["https://x.io"`+strings.Repeat(`,"https://x.io"`, n-1)+`]}`)
	}
	if f, _, err := url("/u/*").Derive(many(1024)); err != nil || len(f.URLs) != 1024 {
		t.Errorf("1,024 items: %d facts, %v", len(f.URLs), err)
	}
	if _, _, err := url("/u/*").Derive(many(1025)); call.CodeOf(err, "") != unparsable || !strings.Contains(err.Error(), "more than 1024 items") {
		t.Errorf("1,025 items: %v", err)
	}
	if _, _, err := url("/u").Derive(call.Args{}); call.CodeOf(err, "") != unparsable {
		t.Errorf("zero arguments: %v", err)
	}
}

func TestDeclarationValidate(t *testing.T) {
	u := func(at, method, methodAt string) facts.Declaration {
		return facts.Declaration{URLs: []facts.URLAt{{At: at, Method: method, MethodAt: methodAt}}}
	}
	p := func(at, mode, modeAt string) facts.Declaration {
		return facts.Declaration{Paths: []facts.PathAt{{At: at, Mode: mode, ModeAt: modeAt}}}
	}
	c := func(at, argv string) facts.Declaration {
		return facts.Declaration{Commands: []facts.CommandAt{{At: at, Argv: argv}}}
	}
	tests := []struct {
		name string
		d    facts.Declaration
		want string // "" for valid
	}{
		{"nothing", facts.Declaration{}, ""},
		{"method", u("/u", "GET", ""), ""},
		{"method elsewhere", u("/l/*/u", "", "/m"), ""},
		{"method of the item", u("/l/*/u", "", "/l/*/m"), ""},
		{"mode", p("/p", "append", ""), ""},
		{"no place", u("", "GET", ""), "urls[0]: at is missing"},
		{"no slash", u("url", "GET", ""), "urls[0]: at is missing, or is not a JSON pointer"},
		{"a URI fragment", u("#/url", "GET", ""), "urls[0]: at is missing, or is not a JSON pointer"},
		{"bad escape", u("/a~2", "GET", ""), "urls[0]: at is missing, or is not a JSON pointer"},
		{"escape cut off", u("/a~", "GET", ""), "urls[0]: at is missing, or is not a JSON pointer"},
		{"no method", u("/u", "", ""), "urls[0]: needs one of method and method_at"},
		{"two methods", u("/u", "GET", "/m"), "urls[0]: needs one of method and method_at"},
		{"method in small letters", u("/u", "get", ""), "urls[0]: method is not one"},
		{"long method", u("/u", strings.Repeat("A", 33), ""), "urls[0]: method is not one"},
		{"method with a space", u("/u", "GET /", ""), "urls[0]: method is not one"},
		{"bad method_at", u("/u", "", "m"), "urls[0]: method_at is not a JSON pointer"},
		{"method of another list", u("/l/*/u", "", "/k/*/m"), "urls[0]: method_at has a *"},
		{"method of a deeper list", u("/l/*/u", "", "/l/*/m/*"), "urls[0]: method_at has a *"},
		{"method of items, one url", u("/u", "", "/m/*"), "urls[0]: method_at has a *"},
		{"no mode", p("/p", "", ""), "paths[0]: needs one of mode and mode_at"},
		{"unknown mode", p("/p", "execute", ""), "paths[0]: mode is not one"},
		{"bad mode_at", p("/p", "", "~"), "paths[0]: mode_at is not a JSON pointer"},
		{"twice", facts.Declaration{Paths: []facts.PathAt{{At: "/p", Mode: "read"}, {At: "/p", Mode: "read"}}}, "paths[1]: stands there twice"},
		{"url twice", facts.Declaration{URLs: []facts.URLAt{{At: "/p", Method: "A"}, {At: "/p", Method: "A"}}}, "urls[1]: stands there twice"},
		{"path and url", facts.Declaration{URLs: []facts.URLAt{{At: "/p", Method: "GET"}}, Paths: []facts.PathAt{{At: "/p", Mode: "read"}}}, "paths[0]: is declared as a URL too"},
		{"line", c("/c", ""), ""},
		{"argv", c("", "/l/*/c"), ""},
		{"no command", c("", ""), "commands[0]: needs one of at and argv"},
		{"line and argv", c("/c", "/c"), "commands[0]: needs one of at and argv"},
		{"bad line", c("c", ""), "commands[0]: at or argv is not a JSON pointer"},
		{"bad argv", c("", "/~"), "commands[0]: at or argv is not a JSON pointer"},
		{"command twice", facts.Declaration{Commands: []facts.CommandAt{{At: "/c"}, {At: "/c"}}}, "commands[1]: stands there twice"},
		{"command and path", facts.Declaration{Paths: []facts.PathAt{{At: "/c", Mode: "read"}}, Commands: []facts.CommandAt{{Argv: "/c"}}}, "commands[0]: is declared as a URL or path too"},
		{"command and url", facts.Declaration{URLs: []facts.URLAt{{At: "/c", Method: "GET"}}, Commands: []facts.CommandAt{{At: "/c"}}}, "commands[0]: is declared as a URL or path too"},
		{"too many commands", facts.Declaration{Commands: make([]facts.CommandAt, 33)}, "has more than 32"},
		{"too many", facts.Declaration{URLs: make([]facts.URLAt, 33)}, "has more than 32"},
	}
	for _, tt := range tests {
		err := tt.d.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
