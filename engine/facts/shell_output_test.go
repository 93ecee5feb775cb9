package facts_test

import (
	"strings"
	"testing"
)

// Whoever reads or writes a link reads or writes what it leads to.
func TestShellLinks(t *testing.T) {
	shellCases{
		{"ln a b; link a b", "ln_a_b <a >a >b >b/a\nlink_a_b <a >a >b >b/a"},
		{"ln -s ~/.ssh/id_rsa x; cat x", "ln_-s_~/.ssh/id_rsa_x <~/.ssh/id_rsa >x >x/id_rsa >~/.ssh/id_rsa ?\ncat_x <x"},
		{"ln -s /etc/cron.d/x y; tee y", "ln_-s_/etc/cron.d/x_y </etc/cron.d/x >/etc/cron.d/x >y >y/x\ntee_y >y"},
		{"ln -s a d/b", "ln_-s_a_d/b <a <d/a <d/b/a >a >d/a >d/b >d/b/a"},
		{"ln -st d a; ln -sr a d/b", "ln_-st_d_a <a <d/a >a >d >d/a\nln_-sr_a_d/b <a >a >d/b >d/b/a"},
		{"ln -s ../x d/e", "ln_-s_../x_d/e <../x <d/x <x >../x >d/e >d/e/x >d/x >x ?"},
		{"cp -s a d/b", "cp_-s_a_d/b <a <d/a <d/b/a >a >d/a >d/b >d/b/a"},
	}.run(t)
}

// What was there before is kept under another name, which is written too.
func TestShellBackups(t *testing.T) {
	shellCases{
		{"cp -b a b; cp -S rc a b", "cp_-b_a_b <a >b >b/a >b/a~ >b~\ncp_-S_rc_a_b <a >b >b/a >b/arc >brc"},
		{"mv --backup=numbered a b; ln -b a b", "mv_--backup=numbered_a_b <a >a >b >b/a >b/a~ >b~\nln_-b_a_b <a >a >b >b/a >b/a~ >b~"},
		{"cp -b --suffix=rc /dev/null .bash", "cp_-b_--suffix=rc_/dev/null_.bash </dev/null >.bash >.bash/null >.bash/nullrc >.bashrc"},
		{"rsync -b --suffix=x a b", "rsync_-b_--suffix=x_a_b <a >b >b/a >b/ax >bx"},
		{"cp --back a b; install -S x a b", "cp_--back_a_b <b >. >b ?\ninstall_-S_x_a_b <a >a >b >b/a >b/ax >bx ?"},
		{"sed -ifile p Make; sed -i p a", "sed_-ifile_p_Make <Make >Make >Makefile\nsed_-i_p_a <a >a"},
		{"patch a b; patch -o c a", "patch_a_b <a <b >. >a >a.orig >a.rej >b >b.orig >b.rej\npatch_-o_c_a <a >. >a >a.orig >a.rej >c >c.orig >c.rej"},
		{"patch -p1 -d d < p", "patch_-p1_-d_d <p >d"},
	}.run(t)
}

func TestShellOutputsThatAreNotNamed(t *testing.T) {
	made := "x." + strings.Repeat("X", 6) // a template of mktemp
	shellCases{
		{"gzip a; gunzip b.gz; gzip -t a.gz", "gzip_a <a >a >a.gz\ngunzip_b.gz <b.gz >b >b.gz\ngzip_-t_a.gz <a.gz"},
		{"gunzip .bashrc.gz; gzip -c a", "gunzip_.bashrc.gz <.bashrc.gz >.bashrc >.bashrc.gz\ngzip_-c_a <a"},
		{"unxz a.txz; bunzip2 a", "unxz_a.txz <a.txz >a.tar >a.txz\nbunzip2_a <a >a >a.out"},
		{"lz4 -c a b; unzstd -o x a.zst", "lz4_-c_a_b <a <b >a >a.lz4 >b >b.lz4\nunzstd_-o_x_a.zst <a.zst >a >a.zst >x"},
		{"gpg -c a; gpg -o b a", "gpg_-c_a <a >a.asc >a.gpg >a.sig\ngpg_-o_b_a <a >b"},
		{"zip a b; zip - b", "zip_a_b <a <b >a >a.zip >b\nzip_-_b <b >b"},
		{"gcc a.c; gcc -c d/a.c b.c; gcc -S a.c", "gcc_a.c <a.c >a.out\ngcc_-c_d/a.c_b.c <b.c <d/a.c >a.o >b.o\ngcc_-S_a.c <a.c >a.s"},
		{"cc -E a.c; cc -MMD -c a.c; cc -o x a.c", "cc_-E_a.c <a.c\ncc_-MMD_-c_a.c <a.c >a.d >a.o\ncc_-o_x_a.c <a.c >x"},
		{"mktemp; mktemp d/" + made + "; mktemp -p e", "mktemp >/tmp\nmktemp_d/" + made + " >d\nmktemp_-p_e >/tmp >e"},
		{"mktemp --tmpdir=f " + made, "mktemp_--tmpdir=f_" + made + " >. >/tmp >f"},
		{"ssh-keygen -t ed25519 -f k", "ssh-keygen_-t_ed25519_-f_k <k <k.pub >k >k.pub"},
		{"nohup a; flock l a", "nohup:  >nohup.out\nnohup: a\nflock:  >l\nflock: a"},
		{"wget -o log https://x.example/a", "wget_-o_log_https://x.example/a >. >log"},
		{"wget -O a --save-cookies b https://x.example", "wget_-O_a_--save-cookies_b_https://x.example >a >b"},
		{"curl --ssl-sessions f https://x.example", "curl_--ssl-sessions_f_https://x.example >f"},
		{"base64 -o x y; a | sponge b", "base64_-o_x_y <y >x\na\nsponge_b >b"},
		{"diff --from-file=x y; find . -newer x", "diff_--from-file=x_y <x <y\nfind_._-newer_x <. <x"},
		{"tar -C d -cf a b /c", "tar_-C_d_-cf_a_b_/c </c <b <d/b >a >d"},
	}.run(t)
}

func TestShellGitFiles(t *testing.T) {
	shellCases{
		{"git clone https://h.example/x; git clone h:a/x.git", "git_clone_https://h.example/x >x\ngit_clone_h:a/x.git >x"},
		{"git clone --bare https://h.example/x/; git -C d clone https://h.example/x", "git_clone_--bare_https://h.example/x/ >x.git\ngit_-C_d_clone_https://h.example/x <d >d/x"},
		{"git clone -b main --depth 1 /a/b c; git clone file:///a/b", "git_clone_-b_main_--depth_1_/a/b_c </a/b >c\ngit_clone_file:///a/b </a/b >b"},
		{"git init; git init d", "git_init >.\ngit_init_d >d"},
		{"git mv a b; git -C d rm -r a", "git_mv_a_b <a >a >b >b/a\ngit_-C_d_rm_-r_a <d >d/a"},
		{"git apply p; git am p; git switch x", "git_apply_p <p >.\ngit_am_p <p >.\ngit_switch_x >."},
		{"git stash; git stash list; git submodule status", "git_stash >.\ngit_stash_list\ngit_submodule_status"},
		{"git reset --hard; git reset a", "git_reset_--hard >.\ngit_reset_a"},
		{"git commit -F a; git -C d commit --file=a; git tag -F a v1", "git_commit_-F_a <a\ngit_-C_d_commit_--file=a <d <d/a\ngit_tag_-F_a_v1 <a"},
		{"git blame --contents a b; git diff -Oa; git log -S x -O a", "git_blame_--contents_a_b <a\ngit_diff_-Oa <a\ngit_log_-S_x_-O_a <a"},
		{"git grep --no-index x a; git grep x a; git hash-object a", "git_grep_--no-index_x_a <a\ngit_grep_x_a\ngit_hash-object_a <a"},
		{"git config -f a b c; git config --file=a b", "git_config_-f_a_b_c <a >a\ngit_config_--file=a_b <a >a"},
		{"git bundle unbundle a; git worktree add ../a; git worktree list", "git_bundle_unbundle_a <a\ngit_worktree_add_../a >../a\ngit_worktree_list"},
		{"git archive --add-file=a HEAD; git merge-file a b c", "git_archive_--add-file=a_HEAD <a\ngit_merge-file_a_b_c <a <b <c >a >b >c"},
	}.run(t)
}

// Lists of files that are not seen, and programs that are handed commands.
func TestShellOpaqueLists(t *testing.T) {
	opaqueLines(t, []string{
		"sort --files0-from=l", "wc --files0-from=l", "du --files0-from=l", "rsync --files-from=l a b", "tar cf a -T l", "wget -i l", "file -f l", "tar -C a -C b -cf x y",
		"pytest @x", "python -m pytest @x", "tree -R x", "rmdir -p a/b", "setfacl --restore=x", "file -C -m x",
		"npm exec x", "npm x y", "npx x", "pnpm dlx x", "poetry run x", "bundle exec x", "uv run x", "uvx x", "pipx run x", "mise exec x", "direnv exec . x",
		"sftp h", "lftp -c x", "ftp h", "xterm -e x", "pee x", "watchexec x", "ssh-copy-id h", "nix-shell --run x", "just --command x",
		"curl --expand-output x https://x.example", "curl --url @x", "wget -b https://x.example", "gzip -N -d a.gz", "xz --files=x", "gzip -S x a", "patch -e a", "patch -B x a",
		"ssh-keygen", "ssh-keygen -s ca -f k", "gcc -fstack-usage a.c", "mktemp -Q", "git commit --fil=a", "git config --fi=a b", "git clone ..",
	})
	for _, line := range []string{"npm test -- x", "npm run exec-tests", "npm install y", "gzip -9k a", "xz -T0 a", "zstd -19 --rm a", "patch -p1 -i p", "uv sync", "mktemp -d"} {
		for _, c := range parsed(t, line) {
			if c.Opaque {
				t.Errorf("%s: %s", line, said(c))
			}
		}
	}
}
