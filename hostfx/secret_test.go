package hostfx_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// The credentials of these tests, by name.
var credentials = map[string]hostfx.Secret{
	"token": {Value: `sk-"live"&Canary/4711`, Header: "X-Api-Key"},
	"login": {Value: "alice:Hunter2-canary"},
	"other": {Value: "nobody asks for this"},
}

// secrets makes the server's host know the credentials.
func (w *web) secrets() (asked *[]string) {
	var mu sync.Mutex
	asked = new([]string)
	w.opts.Secrets = func(name string) (hostfx.Secret, error) {
		mu.Lock()
		defer mu.Unlock()
		*asked = append(*asked, name)
		s, ok := credentials[name]
		if !ok {
			return s, fs.ErrNotExist
		}
		return s, nil
	}
	return asked
}

func carrying(name, as string) func(*call.HTTP) {
	return func(h *call.HTTP) { h.Secret = &call.Secret{Name: name, As: as} }
}

func named(name string) hostfx.Request { return hostfx.Request{Method: "GET", URL: v1, Secret: name} }

// exposed reports whether any credential is in what a tool, a caller or a record sees.
func exposed(seen ...any) bool {
	text := strings.ToLower(fmt.Sprintf("%+v", seen))
	return slices.ContainsFunc([]string{"canary", "c2st", "hunter2"}, func(s string) bool { return strings.Contains(text, s) })
}

func TestCredential(t *testing.T) {
	tests := []struct{ name, as, header, want string }{
		{"token", "bearer", "Authorization", `Bearer sk-"live"&Canary/4711`},
		{"token", "header", "X-Api-Key", `sk-"live"&Canary/4711`},
		{"login", "basic", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:Hunter2-canary"))},
	}
	for _, tt := range tests {
		t.Run(tt.as, func(t *testing.T) {
			w := newWeb(t, hello)
			asked := w.secrets()
			caps := call.Caps{HTTP: []call.HTTP{entry(), entry(carrying(tt.name, tt.as))}, Log: true}
			fx := w.open(t, caps)
			for _, r := range []hostfx.Request{named(tt.name), named(""), named(tt.name)} {
				a, err := fx.HTTP(t.Context(), r)
				must(t, err)
				if exposed(a, string(a.Body)) {
					t.Errorf("the tool got %+v", a)
				}
			}
			r := named(tt.name)
			for _, h := range []string{tt.header, strings.ToLower(tt.header), strings.ReplaceAll(tt.header, "-", "_")} {
				r.Header = http.Header{h: {"mine"}}
				if _, err := fx.HTTP(t.Context(), r); !errors.Is(err, hostfx.ErrBadRequest) {
					t.Errorf("with the header %s: %v, want %v", h, err, hostfx.ErrBadRequest)
				}
			}
			var got []string
			for _, q := range w.requests() {
				got = append(got, q.Header.Get(tt.header))
			}
			if d := cmp.Diff([]string{tt.want, "", tt.want}, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", tt.header, d)
			}
			if d := cmp.Diff([]string{tt.name}, *asked); d != "" {
				t.Errorf("asked for (-want +got):\n%s", d)
			}
			if e := fx.Close(); exposed(e, fx.Logged()) {
				t.Errorf("effects = %v", e)
			}
		})
	}
}

func TestCredentialOfAnotherEntry(t *testing.T) {
	w := newWeb(t, hello)
	w.secrets()
	fx := w.open(t, call.Caps{HTTP: []call.HTTP{entry(), entry(carrying("token", "bearer"), func(h *call.HTTP) { h.Paths = []string{"/v2"} })}})
	for _, name := range []string{"token", "other", "login", "\x00"} {
		if _, err := fx.HTTP(t.Context(), named(name)); !errors.Is(err, hostfx.ErrNotGranted) {
			t.Errorf("%q: %v, want %v", name, err, hostfx.ErrNotGranted)
		}
	}
	// An entry with a secret is for requests that name it.
	if _, err := fx.HTTP(t.Context(), get("https://"+api+"/v2")); !errors.Is(err, hostfx.ErrNotGranted) {
		t.Errorf("without naming it: %v, want %v", err, hostfx.ErrNotGranted)
	}
	if n := len(w.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// The first form that is granted is taken, and no network of another form.
func TestCredentialInTwoForms(t *testing.T) {
	w := newWeb(t, hello)
	w.secrets()
	public := func(h *call.HTTP) { h.Networks = []string{"public"} }
	for first, want := range map[string]error{"basic": nil, "bearer": hostfx.ErrNotGranted} {
		entries := []call.HTTP{entry(carrying("login", "basic")), entry(carrying("login", "bearer"), public)}
		if first == "bearer" {
			slices.Reverse(entries)
		}
		if _, err := w.open(t, call.Caps{HTTP: entries}).HTTP(t.Context(), named("login")); !errors.Is(err, want) {
			t.Errorf("%s first: %v, want %v", first, err, want)
		}
	}
	if got := w.requests(); len(got) != 1 || !strings.HasPrefix(got[0].Header.Get("Authorization"), "Basic ") {
		t.Errorf("the server got %d requests", len(got))
	}
}

// A server that sends back what it was sent, in any usual form, has its answer
// withheld.
func TestCredentialNeverComesBack(t *testing.T) {
	kept := ""
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		if auth == "" {
			auth = kept
		}
		kept = auth
		_, bare, _ := strings.Cut(auth, " ")
		if b, err := base64.StdEncoding.DecodeString(bare); err == nil {
			bare = string(b)
		}
		switch how := r.URL.Query().Get("how"); how {
		case "body":
			fmt.Fprintf(w, "you sent %s.", auth)
		case "bare":
			fmt.Fprint(w, bare)
		case "upper":
			fmt.Fprint(w, strings.ToUpper(bare))
		case "header":
			w.Header().Set("X-Echo", auth)
		case "name":
			w.Header()["X-"+hex.EncodeToString([]byte(bare))] = []string{"1"}
		case "json":
			fmt.Fprintf(w, "{\"auth\": %q}", bare)
		case "json of another":
			fmt.Fprintf(w, `{"auth": "%s"}`, strings.NewReplacer("/", `\/`, "&", `\u0026`, `"`, `\"`, "-", `\u002D`).Replace(bare))
		case "json in a header":
			w.Header().Set("X-Echo", strings.NewReplacer("/", `\/`, `"`, `\"`, "H", `\u0048`).Replace(bare))
		case "url":
			fmt.Fprint(w, url.QueryEscape(bare))
		case "path":
			fmt.Fprint(w, url.PathEscape(bare))
		case "base64 0", "base64 1", "base64 2":
			fmt.Fprint(w, base64.URLEncoding.EncodeToString([]byte(strings.Repeat("-", int(how[7]-'0'))+bare+" and more")))
		case "password":
			fmt.Fprint(w, bare[strings.Index(bare, ":")+1:])
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, bare)
			z.Close()
		case "late":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 32<<10-5))
			fmt.Fprint(w, bare)
		}
	})
	w.secrets()
	for _, how := range []string{"body", "bare", "upper", "header", "name", "json", "json of another", "json in a header", "url", "path", "base64 0", "base64 1", "base64 2", "password", "gzip", "late"} {
		for name, as := range map[string]string{"token": "bearer", "login": "basic"} {
			fx := w.open(t, call.Caps{HTTP: []call.HTTP{entry(), entry(carrying(name, as))}})
			for _, r := range []hostfx.Request{named(name), named("")} { // the second time the server remembers it
				r.URL += "?how=" + url.QueryEscape(how)
				a, err := fx.HTTP(t.Context(), r)
				if a != nil || !errors.Is(err, hostfx.ErrWithheld) || exposed(err) {
					t.Errorf("%s, %s as %s: %v, %v, want %v", how, r.Secret, as, a, err, hostfx.ErrWithheld)
				}
			}
			e := fx.Close()
			if len(e) != 2 || e[0].Code != "withheld" || exposed(e) {
				t.Errorf("%s: effects = %v", how, e)
			}
		}
	}
}

// Of a credential that is a name and a value, or a scheme and a value, the value
// alone is withheld; and so is its base64, in either alphabet and at any place.
func TestPartsOfACredential(t *testing.T) {
	const odd = "key-???>>>???-canary" // its base64 has / and + wherever it starts
	tests := []struct{ name, secret, says string }{
		{"after a space", "Token canary-canary", "canary-canary"},
		{"after a sign", "key=canary-canary", "canary-canary"},
		{"after a colon", "key:canary-canary", "canary-canary"},
		{"escaped for JSON", "Zoë-canary", `Zo\u00ebzo\u00eb Zo\u00EB-canary`},
		{"escaped as two", "😀-canary", `\ud83d\ud83d\uDE00-canary`},
		{"escaped in part", "u12-canary", `\u12-canary \ud83d\u0075\u00312-canary`},
	}
	for shift := range 3 {
		says := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", shift) + odd))
		if !strings.ContainsAny(says, "/+") {
			t.Fatalf("%s is the same in both alphabets", says)
		}
		tests = append(tests, struct{ name, secret, says string }{fmt.Sprintf("base64 %d", shift), odd, says})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "you are %s, I think", tt.says) })
			w.opts.Secrets = func(string) (hostfx.Secret, error) {
				return hostfx.Secret{Value: tt.secret, Header: "X-Api-Key"}, nil
			}
			a, err := w.open(t, only(carrying("token", "header"))).HTTP(t.Context(), named("token"))
			if a != nil || !errors.Is(err, hostfx.ErrWithheld) {
				t.Errorf("HTTP() = %v, %v, want %v", a, err, hostfx.ErrWithheld)
			}
		})
	}
}

// A credential that does not come is none, once the call's time is over or its
// caller is gone.
func TestCredentialThatDoesNotCome(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	h, err := hostfx.New(hostfx.Options{Secrets: func(string) (hostfx.Secret, error) {
		<-never
		return hostfx.Secret{Value: "canary-canary"}, nil
	}})
	must(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), gone} {
		caps := only(carrying("token", "bearer"))
		if ctx != gone {
			caps.Bounds.TimeoutMS = 1
		}
		if fx, err := h.Open(ctx, mint(t, caps)); fx != nil || call.CodeOf(err, "") != call.CodeSecretUnavailable {
			t.Errorf("Open() = %v, %v, want %s", fx, err, call.CodeSecretUnavailable)
		}
	}
}

func TestCredentialMustBeThere(t *testing.T) {
	long := strings.Repeat("a", 8<<10)
	give := func(s hostfx.Secret) func(string) (hostfx.Secret, error) {
		return func(string) (hostfx.Secret, error) { return s, nil }
	}
	tests := []struct {
		name, as string
		secrets  func(string) (hostfx.Secret, error)
		ok       bool
	}{
		{"none configured", "bearer", nil, false},
		{"missing", "bearer", func(string) (hostfx.Secret, error) { return hostfx.Secret{}, fs.ErrNotExist }, false},
		{"error that quotes it", "bearer", func(string) (hostfx.Secret, error) {
			return hostfx.Secret{Value: "long enough"}, errors.New("canary")
		}, false},
		{"empty", "bearer", give(hostfx.Secret{}), false},
		{"7 bytes", "bearer", give(hostfx.Secret{Value: "1234567"}), false},
		{"8 bytes", "bearer", give(hostfx.Secret{Value: "12345678"}), true},
		{"8 KiB", "bearer", give(hostfx.Secret{Value: long}), true},
		{"over 8 KiB", "bearer", give(hostfx.Secret{Value: long + "a"}), false},
		{"line break", "bearer", give(hostfx.Secret{Value: "canary-canary\n"}), false},
		{"header injection", "bearer", give(hostfx.Secret{Value: "canary\r\nHost: evil"}), false},
		{"NUL", "basic", give(hostfx.Secret{Value: "canary:canary\x00"}), false},
		{"space at the end", "bearer", give(hostfx.Secret{Value: "canary-canary "}), false},
		{"no user", "basic", give(hostfx.Secret{Value: "canary-canary"}), false},
		{"user and password", "basic", give(hostfx.Secret{Value: "a:canary-canary"}), true},
		{"7 bytes of password", "basic", give(hostfx.Secret{Value: "canary-canary:1234567"}), false},
		{"8 bytes of password", "basic", give(hostfx.Secret{Value: "a:1234:678"}), true},
		{"reader that panics", "bearer", func(string) (hostfx.Secret, error) { panic("canary") }, false},
		{"no header", "header", give(hostfx.Secret{Value: "canary-canary"}), false},
		{"malformed header", "header", give(hostfx.Secret{Value: "canary-canary", Header: "X: y"}), false},
		{"framing header", "header", give(hostfx.Secret{Value: "canary-canary", Header: "transfer_encoding"}), false},
		{"our own header", "header", give(hostfx.Secret{Value: "canary-canary", Header: "User-Agent"}), false},
		{"header", "header", give(hostfx.Secret{Value: "canary-canary", Header: "Authorization"}), true},
		{"unknown form", "query", give(hostfx.Secret{Value: "canary-canary"}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := hostfx.New(hostfx.Options{Secrets: tt.secrets})
			must(t, err)
			fx, err := h.Open(t.Context(), mint(t, only(carrying("token", tt.as))))
			if tt.ok {
				must(t, err)
				fx.Close()
				return
			}
			var e *call.Error
			if fx != nil || !errors.As(err, &e) || e.Code != call.CodeSecretUnavailable || !strings.HasPrefix(e.Detail, "secret token: ") || exposed(err) {
				t.Errorf("Open() = %v, %v, want %s", fx, err, call.CodeSecretUnavailable)
			}
		})
	}
	_, err := (*hostfx.Host)(nil).Open(t.Context(), mint(t, only(carrying("token", "bearer"))))
	if call.CodeOf(err, "") != call.CodeSecretUnavailable {
		t.Errorf("nil Host: %v", err)
	}
}

// Why a credential cannot be read is told to the operator in the words that are meant
// for that, and in no others.
func TestCredentialTellsTheOperator(t *testing.T) {
	for _, tt := range []struct {
		err           error
		detail, where string
	}{
		{errors.New("canary"), "secret token: it cannot be read", ""},
		{&call.Error{Code: call.CodeSecretUnavailable, Where: "/k: mode is 0644", Err: errors.New("canary")}, "secret token: it cannot be read", "/k: mode is 0644"},
		{&call.Error{Detail: "canary", Where: "/k", Err: fs.ErrNotExist}, "secret token: it does not exist", "/k"},
		{&call.Error{Where: "/k", Err: fs.ErrPermission}, "secret token: it may not be read", "/k"},
	} {
		h, err := hostfx.New(hostfx.Options{Secrets: func(string) (hostfx.Secret, error) { return hostfx.Secret{}, tt.err }})
		must(t, err)
		_, err = h.Open(t.Context(), mint(t, only(carrying("token", "bearer"))))
		e, ok := errors.AsType[*call.Error](err)
		if !ok || e.Code != call.CodeSecretUnavailable || e.Detail != tt.detail || e.Where != tt.where || exposed(err) {
			t.Errorf("%v: %+v", tt.err, err)
		}
	}
}
