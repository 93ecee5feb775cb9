package local_test

import (
	"maps"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// grants are what policy gives, by the name that a call asks for.
func (a *arena) grants() map[string]call.Caps {
	files := func(modes ...string) call.Caps {
		return call.Caps{FS: []call.FS{{Root: "docs", Path: "reports", Modes: modes}}}
	}
	web := call.HTTP{Hosts: []string{"api.example.com"}, Ports: []int{443}, Methods: []string{"GET"}, Paths: []string{"/v1"}, Networks: []string{"loopback"}}
	with := func(change func(*call.HTTP)) call.Caps {
		w := web
		change(&w)
		return call.Caps{HTTP: []call.HTTP{w}}
	}
	named := func(name string) call.HTTP {
		w := web
		w.Secret = &call.Secret{Name: name, As: "bearer"}
		return w
	}
	wide := call.HTTP{
		Hosts: []string{"*.example.com"}, Ports: []int{443, 8443}, Methods: []string{"GET", "POST"}, Paths: []string{"/"}, Networks: []string{"loopback"},
	}
	small := files("write", "append")
	small.Bounds.WriteBytes = 10
	chatty := call.Caps{Log: true, Bounds: call.Bounds{LogBytes: 20}}
	grants := map[string]call.Caps{
		"nothing": {}, "read": files("read", "list"), "list": files("list"), "write": files("write"), "append": files("append"), "remove": files("remove"),
		"change": files("read", "write", "append", "list", "remove"), "read and write": files("read", "write"), "write and remove": files("write", "remove"), "small": small,
		"web": {HTTP: []call.HTTP{web}}, "other host": with(func(h *call.HTTP) { h.Hosts = []string{"other.example.com"} }),
		"IDN":        with(func(h *call.HTTP) { h.Hosts = []string{"xn--bcher-kva.example.com"} }),
		"other port": with(func(h *call.HTTP) { h.Ports = []int{8443} }), "post": with(func(h *call.HTTP) { h.Methods = []string{"POST"} }),
		"other path": with(func(h *call.HTTP) { h.Paths = []string{"/v2"} }), "public": with(func(h *call.HTTP) { h.Networks = []string{"public"} }),
		"notes": {HTTP: []call.HTTP{named("notes")}}, "other secret": {HTTP: []call.HTTP{named("other")}},
		"log": chatty, "plan": {Plan: true},
	}
	everything := call.Caps{
		FS: files("read", "write", "append", "list", "remove").FS, HTTP: []call.HTTP{wide, wide, wide}, Log: true, Plan: true,
		Bounds: call.Bounds{TimeoutMS: 60_000},
	}
	everything.HTTP[1].Secret, everything.HTTP[2].Secret = &call.Secret{Name: "notes", As: "bearer"}, &call.Secret{Name: "other", As: "bearer"}
	commands, all := a.execGrants()
	maps.Copy(grants, commands)
	everything.Exec = all
	grants["everything"] = everything
	return grants
}

// one is a try of one step.
func one(grant string, s step, out string, effects ...string) try {
	return try{grant: grant, steps: []step{s}, out: []string{out}, effects: effects}
}

func (t try) saw(seen ...string) try {
	t.seen = seen
	return t
}

const reports = "/docs/reports/"

func (a *arena) fileAttacks() []attack {
	write := func(p string) step { return step{Do: "write", Path: p, Body: "x"} }
	read := func(p string) step { return step{Do: "read", Path: p} }
	refused := func(s step, effect string) try { return one("change", s, "not granted:", effect+" refused") }
	readable := one("change", read(reports+"a.txt"), "ok:alpha", "fs.read ok")
	writable := one("change", write(reports+"a.txt"), "ok:", "fs.write ok")
	return []attack{
		{"write where it may read", one("read", write(reports+"a.txt"), "not granted:", "fs.write refused"), one("write", write(reports+"a.txt"), "ok:", "fs.write ok")},
		{"write by WASI where it may read", one("read", step{Do: "os-write", Path: reports + "a.txt", Body: "x"}, "permission denied:", "fs.write refused"),
			one("read and write", step{Do: "os-write", Path: reports + "a.txt", Body: "x"}, "ok:", "fs.write ok")},
		{"read where it may write", one("write", read(reports+"a.txt"), "not granted:", "fs.read refused"), one("read", read(reports+"a.txt"), "ok:alpha", "fs.read ok")},
		{"list where it may write", one("write", step{Do: "list", Path: reports + "d"}, "not granted:[]", "fs.list refused"), one("list", step{Do: "list", Path: reports + "d"}, "ok:[{f false}]", "fs.list ok")},
		{"stat where it may write", one("write", step{Do: "stat", Path: reports + "a.txt"}, "not granted:", "fs.stat refused"), one("list", step{Do: "stat", Path: reports + "a.txt"}, "ok:file")},
		{"append where it may read", one("read", step{Do: "append", Path: reports + "a.txt", Body: "x"}, "not granted:", "fs.append refused"),
			one("append", step{Do: "append", Path: reports + "a.txt", Body: "x"}, "ok:", "fs.append ok")},
		{"overwrite where it may append", one("append", write(reports+"a.txt"), "not granted:", "fs.write refused"), one("append", step{Do: "append", Path: reports + "a.txt", Body: "x"}, "ok:", "fs.append ok")},
		{"mkdir where it may append", one("append", step{Do: "mkdir", Path: reports + "n"}, "not granted:", "fs.write refused"), one("write", step{Do: "mkdir", Path: reports + "n"}, "ok:", "fs.write ok")},
		{"remove where it may write", one("write", step{Do: "remove", Path: reports + "a.txt"}, "not granted:", "fs.remove refused"), one("remove", step{Do: "remove", Path: reports + "a.txt"}, "ok:", "fs.remove ok")},
		{"rename where it may write", one("write", step{Do: "rename", Path: reports + "a.txt", To: reports + "b"}, "not granted:", "fs.remove refused"),
			one("write and remove", step{Do: "rename", Path: reports + "a.txt", To: reports + "b"}, "ok:", "fs.remove ok", "fs.write ok")},
		{"rename where it may remove", one("remove", step{Do: "rename", Path: reports + "a.txt", To: reports + "b"}, "not granted:", "fs.write refused"),
			one("write and remove", step{Do: "rename", Path: reports + "a.txt", To: reports + "b"}, "ok:", "fs.remove ok", "fs.write ok")},
		{"read without a grant", one("nothing", read(reports+"a.txt"), "not granted:", "fs.read refused"), readable},
		{"dots", refused(read(reports+"../secret.txt"), "fs.read"), readable},
		{"dots to write", refused(write(reports+"d/../../secret.txt"), "fs.write"), one("change", write(reports+"d/../a.txt"), "ok:", "fs.write ok")},
		{"link by WASI", one("change", step{Do: "os-read", Path: reports + "out"}, "permission denied:", "fs.read refused"), one("change", step{Do: "os-read", Path: reports + "in"}, "ok:alpha", "fs.read ok")},
		{"absolute path", refused(read("/etc/passwd"), "fs.read"), readable},
		{"path of the host", refused(read(a.files+"/secret.txt"), "fs.read"), readable},
		{"link that leaves", refused(read(reports+"out"), "fs.read"), one("change", read(reports+"in"), "ok:alpha", "fs.read ok")},
		{"link that leaves to write", refused(write(reports+"out"), "fs.write"), one("change", write(reports+"in"), "ok:", "fs.write ok")},
		{"link that leaves to append", refused(step{Do: "append", Path: reports + "absolute", Body: "x"}, "fs.append"), one("change", step{Do: "append", Path: reports + "in", Body: "x"}, "ok:", "fs.append ok")},
		{"directory link that leaves", refused(write(reports+"up/secret.txt"), "fs.write"), writable},
		{"mkdir through a link", refused(step{Do: "mkdir", Path: reports + "up/n"}, "fs.write"), one("change", step{Do: "mkdir", Path: reports + "d/n"}, "ok:", "fs.write ok")},
		{"remove through a link", refused(step{Do: "remove", Path: reports + "up/secret.txt"}, "fs.remove"), one("change", step{Do: "remove", Path: reports + "d/f"}, "ok:", "fs.remove ok")},
		{"rename out", refused(step{Do: "rename", Path: reports + "a.txt", To: reports + "up/secret.txt"}, "fs.write"), one("change", step{Do: "rename", Path: reports + "a.txt", To: reports + "d/f"}, "ok:", "fs.remove ok", "fs.write ok")},
		{"rename in", refused(step{Do: "rename", Path: reports + "up/secret.txt", To: reports + "s"}, "fs.remove"), one("change", step{Do: "rename", Path: reports + "d/f", To: reports + "s"}, "ok:", "fs.remove ok", "fs.write ok")},
		{"link of its own", one("change", step{Do: "os-symlink", Path: reports + "l", To: "../secret.txt"}, "permission denied:", "fs.write refused"),
			one("change", step{Do: "os-symlink", Path: reports + "l", To: "a.txt"}, "ok:", "fs.write ok")},
		{"write too much", one("small", step{Do: "write", Path: reports + "a.txt", Body: strings.Repeat("x", 11)}, "more than the call may write or plan:", "fs.write over_cap"),
			one("small", step{Do: "write", Path: reports + "a.txt", Body: strings.Repeat("x", 10)}, "ok:", "fs.write ok")},
		{"append too much", one("small", step{Do: "append", Path: reports + "a.txt", Body: strings.Repeat("x", 11)}, "more than the call may write or plan:", "fs.append over_cap"),
			one("small", step{Do: "append", Path: reports + "a.txt", Body: strings.Repeat("x", 10)}, "ok:", "fs.append ok")},
	}
}

func (a *arena) webAttacks() []attack {
	get := func(url string) step { return step{Do: "http", To: "GET", Path: url} }
	const site = "https://api.example.com/v1/notes"
	granted := one("web", get(site), "ok:hello", "http.get ok").saw("GET api.example.com/v1/notes")
	refused := func(s step) try { return one("web", s, "not granted:", "http.get refused") }
	list := []attack{
		{"request without a grant", one("nothing", get(site), "not granted:", "http.get refused"), granted},
		{"another host", refused(get("https://other.example.com/v1/notes")), one("other host", get("https://other.example.com/v1/notes"), "ok:hello", "http.get ok").saw("GET other.example.com/v1/notes")},
		{"another port", refused(get("https://api.example.com:8443/v1/notes")), one("other port", get("https://api.example.com:8443/v1/notes"), "ok:hello", "http.get ok").saw("GET api.example.com:8443/v1/notes")},
		{"another method", one("web", step{Do: "http", To: "POST", Path: site}, "not granted:", "http.post refused"), one("post", step{Do: "http", To: "POST", Path: site}, "ok:hello", "http.post ok").saw("POST api.example.com/v1/notes")},
		{"another path", refused(get("https://api.example.com/v2/notes")), one("other path", get("https://api.example.com/v2/notes"), "ok:hello", "http.get ok").saw("GET api.example.com/v2/notes")},
		{"without TLS", refused(get("http://api.example.com/v1/notes")), granted},
		{"address that is not public", one("public", get(site), "not granted:", "http.get refused"), granted},
		{"redirect to another host", one("web", get("https://api.example.com/v1/away"), "redirect:", "http.get redirect").saw("GET api.example.com/v1/away"),
			one("other host", get("https://other.example.com/v1/notes"), "ok:hello", "http.get ok").saw("GET other.example.com/v1/notes")},
		{"IDN", refused(get("https://bücher.example.com/v1/notes")), one("IDN", get("https://xn--bcher-kva.example.com/v1/notes"), "ok:hello", "http.get ok").saw("GET xn--bcher-kva.example.com/v1/notes")},
		// A name in another script is another host; one in other forms of the same letters is not.
		{"lookalike", refused(get("https://\u0430pi.example.com/v1/notes")), one("web", get("https://\uff41pi\u3002example.com/v1/notes"), "ok:hello", "http.get ok").saw("GET api.example.com/v1/notes")},
		{"credential not in the grant", one("notes", step{Do: "http", To: "GET", Path: site, Secret: "other"}, "not granted:", "http.get refused"),
			one("notes", step{Do: "http", To: "GET", Path: site, Secret: "notes"}, "ok:hello", "http.get ok").saw("GET api.example.com/v1/notes with the credential")},
		{"credential without a grant of one", one("web", step{Do: "http", To: "GET", Path: site, Secret: "notes"}, "not granted:", "http.get refused"), granted},
		{"request without the credential of the grant", one("notes", get(site), "not granted:", "http.get refused"), granted},
		{"credential that comes back", one("notes", step{Do: "http", To: "GET", Path: "https://api.example.com/v1/tell", Secret: "notes"}, "withheld:", "http.get withheld").saw("GET api.example.com/v1/tell with the credential"),
			one("web", get("https://api.example.com/v1/tell"), "ok:", "http.get ok").saw("GET api.example.com/v1/tell")},
	}
	for _, header := range []string{"Host", "Authorization", "Cookie", "Connection", "Transfer-Encoding", "TE", "Upgrade", "Proxy-Authorization", "X-Forwarded-For", "Content-Length"} {
		with := func(name string) step {
			return step{Do: "http", To: "GET", Path: site, Header: map[string]string{name: "x"}}
		}
		list = append(list, attack{"header " + header, one("web", with(header), "malformed request:", "http.get refused"), one("web", with("X-Note"), "ok:hello", "http.get ok").saw("GET api.example.com/v1/notes")})
	}
	for _, url := range []string{
		"https://api.example.com@evil.example.com/v1/notes", "https://user:pass@api.example.com/v1/notes", `https://api.example.com\@evil.example.com/v1/notes`,
		"https://api.example.com/v1/../v2/notes", "https://127.0.0.1/v1/notes", "https://[::1]/v1/notes", "https://[::ffff:127.0.0.1]/v1/notes",
		"https://api.example.com./v1/notes", "https://2130706433/v1/notes", "https://0x7f000001/v1/notes", "https://0177.0.0.1/v1/notes", "https://127.1/v1/notes",
		"https://api.example.com:/v1/notes", "https://api.example.com#@evil.example.com/v1/notes", "https:///v1/notes", "//api.example.com/v1/notes", "file:///etc/passwd", "gopher://api.example.com/v1/notes",
		"https://api.example.com:443:8443/v1/notes",
	} {
		list = append(list, attack{"URL " + url, one("web", get(url), "malformed request:", "http.get refused"), granted})
	}
	return list
}

func (a *arena) otherAttacks() []attack {
	lines := func(n int) step {
		return step{Do: "log", List: strings.Split(strings.Repeat("123456789,", n-1)+"123456789", ",")}
	}
	flood := one("log", lines(5000), "too large:", "log ok", "log over_cap")
	flood.stderr = "123456789\n123456789\n"
	calm := one("log", lines(2), "ok:", "log ok")
	calm.stderr = flood.stderr
	forged := one("log", step{Do: "log", List: []string{"a\nb\x1b[2J"}}, "ok:", "log ok")
	forged.stderr = "a\ufffdb\ufffd[2J\n"
	plan := func(do string) step { return step{Do: do, Path: "x", To: "active"} }
	planned := func(s step, effect string) try { // of a task of its own
		s.Path = s.Do
		t := one("plan", step{Do: "register", Path: s.Do}, "ok:", "plan.register ok")
		t.steps, t.out, t.effects = append(t.steps, s), append(t.out, "ok:"), append(t.effects, effect)
		return t
	}
	list := []attack{
		{"log without a grant", one("nothing", lines(1), "not granted:", "log refused"), calm},
		{"log flood", flood, calm},
		{"log that drives a terminal", forged, calm},
		{"charge that is not the tool's", one("nothing", step{Do: "charge", Path: "fuel"}, "malformed request:"), one("nothing", step{Do: "charge", Path: "rows"}, "ok:")},
		{"plan without a grant", one("nothing", plan("plan"), "not granted:0", "plan.read refused"), one("plan", plan("plan"), "ok:0", "plan.read ok")},
		{"task without a grant", one("nothing", plan("register"), "not granted:", "plan.register refused"), one("plan", plan("register"), "ok:", "plan.register ok")},
		{"advance without a grant", one("nothing", plan("advance"), "not granted:", "plan.advance refused"), planned(step{Do: "advance", To: "active"}, "plan.advance ok")},
		{"replan without a grant", one("nothing", step{Do: "replan", Path: "x", To: "y"}, "not granted:", "plan.replan refused"), planned(step{Do: "replan", To: "z"}, "plan.replan ok")},
	}
	return append(list, a.execAttacks()...)
}
