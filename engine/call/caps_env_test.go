package call

import (
	"strings"
	"testing"
)

func TestEnvNames(t *testing.T) {
	long := strings.Repeat("A", maxEnvName)
	for _, v := range []string{
		"A=", "_=x", "a_1=x y", "LANG=de_DE.UTF-8", "LC_ALL=C", "PATH=/usr/bin", "HOME=/home/x", "TZ=UTC", "TMPDIR=/tmp", "NO_COLOR=1", "A==", "A=\n",
		"LD=x", "GIT=x", "ENVIRONMENT=x", "COMMAND=x", "EDITOR_NAME=x", "GIT_AUTHOR_NAME=A. U. Thor", "GIT_TERMINAL_PROMPT=0", "PYTHONUNBUFFERED=1", "NODE_ENV=test", "GIT_CONFIG_NOSYSTEM=1",
		long + "=x", "A=" + strings.Repeat("x", maxPath-2),
	} {
		if f := envFault(v); f != "" {
			t.Errorf("%.40q %s", v, f)
		}
	}
	for _, v := range []string{
		"", "=", "A", "=x", "1A=x", "A B=x", "A-B=x", "A\n=x", "Ä=x", "A\x00=x", "A=\x00", "A=\xff", "BASH_FUNC_ls%%=() { id; }", long + "A=x", "A=" + strings.Repeat("x", maxPath-1),
		"LD_PRELOAD=/x.so", "LD_LIBRARY_PATH=", "LD_AUDIT=x", "DYLD_INSERT_LIBRARIES=x", "GCONV_PATH=/x", "GLIBC_TUNABLES=x", "LOCPATH=/x",
		"BASH_ENV=/x", "ENV=/x", "IFS=/", "PS4=$(id)", "SHELLOPTS=xtrace", "ZDOTDIR=/x", "SHELL=/x",
		"PYTHONSTARTUP=/x", "PYTHONPATH=/x", "PYTHONWARNINGS=x", "PYTHONHOME=/x", "PERL5OPT=-Mx", "PERL5LIB=/x", "RUBYOPT=-rx", "NODE_OPTIONS=--require=x", "NODE_PATH=/x",
		"JAVA_TOOL_OPTIONS=-javaagent:x", "CLASSPATH=/x", "PHPRC=/x", "LUA_INIT=x", "OPENSSL_CONF=/x",
		"GIT_SSH=/x", "GIT_SSH_COMMAND=x", "GIT_PAGER=x", "GIT_EXTERNAL_DIFF=x", "GIT_CONFIG_COUNT=1", "GIT_EXEC_PATH=/x", "GIT_DIR=/x",
		"EDITOR=x", "VISUAL=x", "PAGER=x", "KUBE_EDITOR=x", "SYSTEMD_PAGER=x", "SSH_ASKPASS=x", "RSYNC_RSH=x", "RUSTC_WRAPPER=x", "PROMPT_COMMAND=x", "MAKEFLAGS=x", "GOFLAGS=-toolexec=x",
	} {
		if envFault(v) == "" {
			t.Errorf("%.40q is allowed", v)
		}
	}
}

// A malformed environment or port is nothing that anybody may have.
func TestExecAsksForWhatTheEntryHas(t *testing.T) {
	entry := Exec{Command: "git", Env: []string{"A=1", "B=2"}, Ports: []int{443, 8443}}
	tests := []struct {
		name  string
		entry func(*Exec)
		op    Op
		want  bool
	}{
		{name: "nothing", want: true},
		{name: "all", op: Op{Env: []string{"B=2", "A=1"}, Ports: []int{8443, 443}}, want: true},
		{name: "some", op: Op{Env: []string{"B=2"}, Ports: []int{443, 443}}, want: true},
		{name: "another value", op: Op{Env: []string{"A=2"}}},
		{name: "another name", op: Op{Env: []string{"A=1", "C=1"}}},
		{name: "a prefix", op: Op{Env: []string{"A="}}},
		{name: "twice", op: Op{Env: []string{"A=1", "A=1"}}},
		{name: "another port", op: Op{Ports: []int{443, 80}}},
		{name: "an entry with a name twice", entry: func(e *Exec) { e.Env = []string{"A=1", "A=2"} }},
		{name: "an entry with a loader's name", entry: func(e *Exec) { e.Env = []string{"LD_PRELOAD=x"} }, op: Op{Env: []string{"LD_PRELOAD=x"}}},
		{name: "an entry without a value", entry: func(e *Exec) { e.Env = []string{"A"} }, op: Op{Env: []string{"A"}}},
		{name: "as enforced as it may be", entry: func(e *Exec) { e.Enforcement = "partial" }, op: Op{Enforcement: "enforced"}, want: true},
		{name: "as enforced as it must be", entry: func(e *Exec) { e.Enforcement = "partial" }, op: Op{Enforcement: "partial"}, want: true},
		{name: "less enforced", entry: func(e *Exec) { e.Enforcement = "enforced" }, op: Op{Enforcement: "partial"}},
		{name: "not enforced", entry: func(e *Exec) { e.Enforcement = "partial" }, op: Op{Enforcement: "unavailable"}},
		{name: "enforced as nobody knows", entry: func(e *Exec) { e.Enforcement = "partial" }, op: Op{Enforcement: "wholly"}},
		{name: "an entry that demands no such thing", entry: func(e *Exec) { e.Enforcement = "wholly" }, op: Op{Enforcement: "enforced"}},
		{name: "an entry with port 0", entry: func(e *Exec) { e.Ports = []int{0} }, op: Op{Ports: []int{0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := entry
			if tt.entry != nil {
				tt.entry(&e)
			}
			tt.op.Kind, tt.op.Command = OpExec, "git"
			if got := (Caps{Exec: []Exec{e}}).Allows(tt.op); got != tt.want {
				t.Errorf("allows %v, want %v", got, tt.want)
			}
		})
	}
}
