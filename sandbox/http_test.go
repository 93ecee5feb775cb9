package sandbox_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
)

func web(method, path, code string, bytes int64) call.Effect {
	return call.Effect{Kind: "http." + method, Within: "api.example.com:443", Target: site + path, Code: code, BytesIn: bytes}
}

func sent(e call.Effect, bytes int64) call.Effect {
	e.BytesOut = bytes
	return e
}

func get(path string) string { return `{"method":"GET","url":"` + site + path + `"}` + "\n" }

func TestCallgateHTTP(t *testing.T) {
	w := online(t, handler())
	echo := func(body string) string {
		return fmt.Sprintf("00"+`{"status":200,"headers":{"content-length":"%d","x-two":"a, b`+"\ufffd"+`"}}`+"\n"+body, len(body))
	}
	refused := func(kind, url string) call.Effect { return call.Effect{Kind: kind, Target: url, Code: "refused"} }
	tests := []struct {
		name, give string
		want       got
	}{
		{"GET", get("/echo?q=1"), finished(echo("GET /echo?q=1   false"), web("get", "/echo?q=1", "ok", 21))},
		{"headers and body", `{"headers":{"x-ONE":"one"},"method":"POST","url":"` + site + `/echo"}` + "\na\n\x00\xff", finished(echo("POST /echo a\n\x00\xff one false"), sent(web("post", "/echo", "ok", 25), 4))},
		{"secret", `{"method":"GET","url":"` + site + `/echo","secret":"notes"}` + "\n", finished(echo("GET /echo   true"), web("get", "/echo", "ok", 16))},
		{"no body", `{"method":"HEAD","url":"` + site + `/gone"}` + "\n", finished(`00{"status":410,"headers":{}}`+"\n", web("head", "/gone", "ok", 0))},
		{"status", get("/gone"), finished(`00{"status":410,"headers":{"content-length":"0"}}`+"\n", web("get", "/gone", "ok", 0))},
		{"canonical URL", `{"method":"GET","url":"HTTPS://API.example.com:443/echo"}` + "\n", finished(echo("GET /echo   false"), web("get", "/echo", "ok", 17))},
		{"another method", `{"method":"DELETE","url":"` + site + `/echo"}` + "\n", finished("34", refused("http.delete", site+"/echo"))},
		{"another host", `{"method":"GET","url":"https://www.example.com/"}` + "\n", finished("34", refused("http.get", "https://www.example.com/"))},
		{"another secret", `{"method":"GET","url":"` + site + `/echo","secret":"other"}` + "\n", finished("34", refused("http.get", site+"/echo"))},
		{"private address", `{"method":"GET","url":"https://inside.example.com/"}` + "\n", finished("34",
			call.Effect{Kind: "http.get", Within: "inside.example.com:443", Target: "https://inside.example.com/", Code: "refused"})},
		{"redirect", get("/away"), finished("74", web("get", "/away", "redirect", 0))},
		{"larger than the memory", get("/large"), finished("54", web("get", "/large", "ok", pokeMemory))},
		{"broken", get("/cut"), finished("64", web("get", "/cut", "no_answer", 0))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.poke(t, program{}.ask(callHTTP, tt.give), call.Bounds{})
			compare(t, tt.want, seen(taken(out), o))
		})
	}
	// What hostfx records of these is its own business.
	for _, tt := range []struct{ name, give, want string }{
		{"larger than the grant", get("/huge"), "54"},
		{"credential comes back", `{"method":"GET","url":"` + site + `/tell","secret":"notes"}` + "\n", ":4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, o := w.poke(t, program{}.ask(callHTTP, tt.give), call.Bounds{})
			o.Effects = nil
			compare(t, finished(tt.want), seen(taken(out), o))
		})
	}
	t.Run("no grant", func(t *testing.T) {
		w.more = call.Caps{}
		out, o := w.poke(t, program{}.ask(callHTTP, get("/echo")).put(0, "line").step(callLog, 0, 4), call.Bounds{})
		compare(t, finished("343", refused("http.get", site+"/echo"), call.Effect{Kind: "log", Code: "refused", Count: 1}), seen(out[:2]+out[len(out)-1:], o))
	})
}

// A request that is not one reaches nobody.
func TestCallgateHTTPMalformed(t *testing.T) {
	w := online(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the server sees %s %s", r.Method, r.URL) }))
	with := func(s string) string { return `{"method":"GET","url":"` + site + `/",` + s + "}\n" }
	for name, give := range map[string]string{
		"nothing":           "",
		"no JSON":           "\n",
		"no newline":        strings.TrimSuffix(get("/"), "\n"),
		"two lines":         "{\"method\":\"GET\",\n\"url\":\"" + site + "/\"}\n",
		"array":             "[]\n",
		"two values":        `{} {}` + "\n",
		"no method":         `{"url":"` + site + `/"}` + "\n",
		"no URL":            `{"method":"GET"}` + "\n",
		"unknown member":    with(`"body":"x"`),
		"other case":        `{"Method":"GET","url":"` + site + `/"}` + "\n",
		"twice":             with(`"method":"GET"`),
		"null":              with(`"secret":null`),
		"null in headers":   with(`"headers":{"A":null}`),
		"number":            with(`"secret":1`),
		"list of values":    with(`"headers":{"A":["b"]}`),
		"header twice":      with(`"headers":{"A-b":"1","a-B":"2"}`),
		"header as twice":   with(`"headers":{"A":"1","A":"2"}`),
		"header of no name": with(`"headers":{"":"1"}`),
		"header with break": with(`"headers":{"A":"1\r\nB: 2"}`),
		"name with break":   with(`"headers":{"A: 1\r\nB":"2"}`),
		"the host's header": with(`"headers":{"Authorization":"Bearer x"}`),
		"Host":              with(`"headers":{"host":"www.example.com"}`),
		"no UTF-8":          with(`"secret":"` + "\xff" + `"`),
		"lone surrogate":    with(`"secret":"\ud800"`),
		"lower case":        `{"method":"get","url":"` + site + `/"}` + "\n",
		"two readings":      `{"method":"GET","url":"` + site + `\\@evil.example.com/"}` + "\n",
		"userinfo":          `{"method":"GET","url":"https://api.example.com@evil.example.com/"}` + "\n",
		"deep":              strings.Repeat("[", 20_000) + "\n",
		"long":              with(`"headers":{"A":"` + strings.Repeat("x", 64<<10) + `"}`),
	} {
		t.Run(name, func(t *testing.T) {
			p := program{}
			if len(give) > 40_000 { // more than fits into arguments in hexadecimal
				i := strings.IndexAny(give, "x[")
				n := strings.LastIndexAny(give, "x[") + 1 - i
				p = p.put(0, give[:i]).step(fill, uint32(i), uint32(n), uint32(give[i])).put(uint32(i+n), give[i+n:])
			} else {
				p = p.put(0, give)
			}
			out, o := w.poke(t, p.step(callHTTP, 0, uint32(len(give)), lengthAt), call.Bounds{})
			if out != "2" || o.Code != call.CodeOK {
				t.Errorf("number %q, %s, want 2", out, o.Code)
			}
		})
	}
	t.Run("longest line", func(t *testing.T) {
		w.more = call.Caps{}
		head := strings.TrimSuffix(get("/"), "\n")
		for n, want := range map[int]string{64 << 10: "3", 64<<10 + 1: "2"} {
			p := program{}.put(0, head).step(fill, uint32(len(head)), uint32(n-len(head)), ' ').put(uint32(n), "\n")
			if out, o := w.poke(t, p.step(callHTTP, 0, uint32(n)+1, lengthAt), call.Bounds{}); out != want {
				t.Errorf("a line of %d bytes gives %q, %s, want %s", n, out, o.Code, want)
			}
		}
	})
}

func TestCallgateLog(t *testing.T) {
	w := online(t, handler())
	digest, fx := w.install(t, "poke"), w.effects(t, call.Bounds{LogBytes: 5000})
	p := program{}.put(0, "one\ntwo\xff").step(callLog, 0, 8).step(callLog, 0, 0)
	p = p.step(fill, 0, 100_000, 'x').step(callLog, 0, 100_000).step(callLog, 0, 100_000)
	out, o := w.box.Run(t.Context(), digest, args(t, p.args()), fx)
	if string(out) != "0005" || o.Code != call.CodeOK {
		t.Errorf("numbers %q, %s", out, o.Code)
	}
	if got, want := string(fx.Logged()), "one\ufffdtwo\ufffd\n\n"+strings.Repeat("x", 4096)+"\n"; got != want {
		t.Errorf("logged %.40q, want %.40q", got, want)
	}
}

// A guest that waits for an answer ends with its run, however that ends.
func TestRequestsEndWithTheRun(t *testing.T) {
	// Long enough that only what the test does can end it.
	long := call.Bounds{TimeoutMS: 3_600_000}
	tests := []struct {
		name  string
		guest string
		give  call.Bounds
		want  call.Code
		end   func(context.CancelFunc, *world)
	}{
		{name: "deadline", guest: "ask", give: short, want: call.CodeTimeExceeded},
		{name: "cancelled", guest: "once", give: long, want: call.CodeCancelled, end: func(cancel context.CancelFunc, _ *world) { cancel() }},
		{name: "sandbox closed", guest: "once", give: long, want: call.CodeCancelled, end: func(_ context.CancelFunc, w *world) { go w.box.Close(context.Background()) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan struct{})
			w := online(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case asked <- struct{}{}:
				case <-r.Context().Done():
				}
				<-r.Context().Done()
			}))
			digest, fx := w.install(t, tt.guest), w.effects(t, tt.give)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, ended := args(t, `{}`), make(chan call.Outcome)
			go func() {
				_, o := w.box.Run(ctx, digest, in, fx)
				ended <- o
			}()
			if tt.end != nil {
				<-asked // it hangs
				tt.end(cancel, w)
			}
			if o := <-ended; o.Status != call.Failed || o.Code != tt.want {
				t.Errorf("ended %s, want %s", o.Code, tt.want)
			}
		})
	}
}
