package local_test

import (
	"fmt"
	"strings"

	"github.com/callgate/callgate/engine/call"
)

// execGrants are what policy gives of commands, and all that the tool may have of them.
func (a *arena) execGrants() (map[string]call.Caps, []call.Exec) {
	cat := func(name string) call.Exec { return call.Exec{Command: "/bin/cat", Args: []string{name}} }
	cats := []call.Exec{cat("a.txt"), cat("../secret.txt"), cat("none")}
	env := call.Exec{Command: "/usr/bin/env", Args: []string{}, Env: []string{"A=b"}}
	bash := call.Exec{Command: "/bin/bash", Args: []string{"-c", "true;*"}}
	online := bash
	online.Ports = []int{a.port}
	folder := []call.FS{{Root: "docs", Path: "reports", Modes: []string{"read", "write"}}}
	return map[string]call.Caps{
		"cat": {Exec: cats, FS: folder}, "env": {Exec: []call.Exec{env, {Command: "/usr/bin/env", Args: []string{}}}},
		"bash": {Exec: []call.Exec{bash}, FS: folder}, "bash online": {Exec: []call.Exec{online}, FS: folder},
	}, append(cats, env, call.Exec{Command: "/usr/bin/env", Args: []string{}}, online)
}

func (a *arena) execAttacks() []attack {
	cat := step{Do: "exec", Path: "/bin/cat", List: []string{"a.txt"}, To: "/docs/reports"}
	ran := one("cat", cat, "ok:0 alpha", "exec ok")
	refused := func(s step) try { return one("cat", s, "not granted:0 ", "exec refused") }
	bash := func(script string) step {
		return step{Do: "exec", Path: "/bin/bash", List: []string{"-c", "true;" + script}, To: "/docs/reports"}
	}
	fails := func(script string) try {
		return one("bash", bash("("+script+") 2>/dev/null || exit 9"), "ok:9 ", "exec error")
	}
	works := func(script, out string) try { return one("bash", bash(script), "ok:0 "+out, "exec ok") }
	dial := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", a.port)
	dialled := step{Do: "exec", Path: "/bin/bash", List: []string{"-c", "true;" + dial}, Ports: []int{a.port}}
	reached := one("bash online", dialled, "ok:0 ", "exec ok")
	reached.conns = 1
	other := cat
	other.List = []string{"-v"}
	ls := cat
	ls.Path = "/bin/ls"
	up := cat
	up.To = "/docs"
	start := step{Do: "start", Path: "/bin/cat", List: []string{"none"}}
	followed := one("bash", step{Do: "follow", Path: "/bin/bash", List: []string{"-c", "true;sleep 86400"}}, "ok:running", "exec.start ok", "exec.read ok", "exec.kill ok")
	return []attack{
		{"command without a grant", one("read", cat, "not granted:0 ", "exec refused"), ran},
		{"another command", refused(ls), ran},
		{"other arguments", refused(other), ran},
		{"directory beside", refused(up), ran},
		{"environment not in the grant", one("env", step{Do: "exec", Path: "/usr/bin/env", Env: []string{"LD_PRELOAD=x"}}, "not granted:0 ", "exec refused"),
			one("env", step{Do: "exec", Path: "/usr/bin/env", Env: []string{"A=b"}}, "ok:0 LANG=C\nA=b\n", "exec ok")},
		{"port not in the grant", one("bash", dialled, "not granted:0 ", "exec refused"), reached},
		{"connection without asking", one("bash online", bash("("+dial+") 2>/dev/null || exit 9"), "ok:9 ", "exec error"), reached},
		{"command that writes outside", fails("echo x > " + a.files + "/secret.txt"), works("echo x > a.txt", "")},
		{"command that writes up", fails("echo x > ../beside/f"), works("echo x > d/f", "")},
		{"command that writes through a link", fails("echo x > out"), works("echo x > in", "")},
		{"command that reads outside", fails("cat " + a.files + "/secret.txt"), works("cat a.txt", "alpha")},
		{"command that reads up", one("cat", step{Do: "exec", Path: "/bin/cat", List: []string{"../secret.txt"}, To: "/docs/reports"}, "ok:1 /bin/cat: ../secret.txt: Permission denied", "exec error"), ran},
		{"process without a grant", one("read", start, "not granted:", "exec.start refused"), one("cat", start, "ok:", "exec.start ok")},
		{"process of others", one("cat", step{Do: "output", Path: strings.Repeat("x", 10)}, "not granted:", "exec.read refused"), followed},
		{"end of a process of others", one("cat", step{Do: "kill", Path: strings.Repeat("x", 10)}, "not granted:", "exec.kill refused"), followed},
	}
}
