package facts

import "strings"

var programs = wellKnownPrograms()

func wellKnownPrograms() map[string]program {
	programs := map[string]program{}
	add := func(names, use, options string) {
		for name := range strings.FieldsSeq(names) {
			programs[name] = uses(use, options)
		}
	}
	// Where programs of a row differ in whether an option has a value, it has none
	// here: an operand too many is better than one too few.
	add("cat nl tac rev fold expand unexpand md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum realpath readlink ls dir vdir exa eza lsd bat batcat column base32 zcat bzcat xzcat paste join comm cmp tr od hexdump strings du df zless", "r", "--files0-from& --pager!")
	add("diff colordiff sdiff", "r", "-o> --output> --diff-program! --from-file< --to-file< -X< --exclude-from<")
	add("file", "r", "-f& --files-from& -m< --magic-file< -C! --compile! -F: -e: -P:")
	add("base64", "r", "-o> --output> -i< --input<")
	add("xxd", "!o", "-a -autoskip -b -bits -c: -cols: -C -capitalize -e -E -EBCDIC -g: -groupsize: -h -i -include -l: -len: -n: -name: -o: -p -ps -plain -postscript -r -revert -s: -seek: -skip: -u -uppercase -v -version")
	add("wc", "r", "--files0-from&")
	add("stat", "r", "-c: --format: --printf:")
	add("less more most", "r", "-p! -P! -o> -O> -k! -T<")
	add("head tail", "r", "-n: -c: --lines: --bytes: -s: --pid:")
	add("sort", "r", "-o> --output> -k: --key: -t: --field-separator: -S: -T> --temporary-directory> --compress-program! --files0-from&")
	add("uniq", "o", "-f: -s: -w:")
	add("cut", "r", "-d: -f: -c: -b: --delimiter: --fields: --characters: --output-delimiter:")
	add("tree", "r", "-o> -L: -I: -P: --fromfile -R!")
	add("grep egrep fgrep zgrep ggrep", "-r", "-e: --regexp: -f< --file< -m: --max-count: -A: -B: -C: --include: --exclude: --exclude-from< --exclude-dir: -d: -D: --label:")
	add("rg", "-r", "-e: --regexp: -f< --file< -m: -A: -B: -C: -g: --glob: --iglob: -t: -T: --type: -j: --threads: --max-depth: -d: --pre! --hostname-bin! --ignore-file< --sort: -r: --replace: --files --type-list")
	add("ag ack", "-r", "--pager! --ackrc!")
	add("fd fdfind", "-r", "-x! --exec! -X! --exec-batch! -e: --extension: -t: --type: -d: --max-depth: -E: --exclude: --base-directory< --search-path<")
	add("jq", "-r", "-f< --from-file< -L< --indent:")
	add("yq", "-b", "--from-file< -L<")
	add("rm unlink shred srm mkfifo mknod tee sponge trash chmod chown chgrp chattr setfacl chcon", "w", "--reference< --random-source< --restore! -M< --modify-file<")
	add("rmdir", "w", "-p! --parents!")
	add("touch", "w", "-r< --reference< -d: --date: -t:")
	add("truncate", "w", "-s: --size: -r< --reference<")
	add("mkdir", "w", "-m: --mode:")
	add("cp gcp", "c", "-t> --target-directory> -S: --suffix: -b --backup? -l -s --link --symbolic-link --parents")
	add("ditto", "c", "")
	add("ln gln link", "m", "-t> --target-directory> -S: --suffix: -b --backup? -s --symbolic -r --relative")
	add("install", "m", "-t> --target-directory> -S! --suffix! -b --backup? -m: -o: -g: --mode: --owner: --group: --strip-program!")
	add("mv gmv", "m", "-t> --target-directory> -S: --suffix: -b --backup?")
	add("rsync", "!c", `-a -v -r -l -p -g -o -D -z -n -u -c -x -h -H -A -X -S -P -q -i -R -b -d -k -K -L -m -W -0 -y -4 -6 -I -O -J -N -U -E -C -s
		--archive --verbose --recursive --delete --delete-after --delete-before --delete-during --delete-excluded --dry-run --progress --stats --human-readable --compress
		--checksum --update --links --perms --times --group --owner --partial --inplace --ignore-existing --existing --size-only --numeric-ids --itemize-changes --info:
		--max-size: --min-size: --timeout: --contimeout: --chmod: --chown: --copy-links --safe-links --relative --no-relative --mkpath --quiet --help --version
		--remove-source-files --prune-empty-dirs --one-file-system --hard-links --acls --xattrs --append --append-verify --whole-file --no-perms --no-owner --no-group
		--force --fuzzy --list-only --backup --suffix: -t --write-batch! --only-write-batch! --read-batch! -e! --rsh! --rsync-path! -M! --files-from& --exclude-from< --include-from< --exclude: --include: --password-file< --log-file> --backup-dir> --temp-dir> -T> --partial-dir> --link-dest! --copy-dest< --compare-dest< -f! --filter! -B: --bwlimit: --port:`)
	add("scp", "c", "-S! -o! -F! -i< -P: -l: -c: -J! -D! -b! -X:")
	add("wget", ".", "-O> --output-document> -o> --output-file> -a> --append-output> -i& --input-file& -b! --background! -P> --directory-prefix> --post-file< --body-file< --load-cookies< --save-cookies> --config! -e! --execute! --use-askpass! --certificate< --private-key< --ca-certificate< -t: -T: -U: --user-agent: --header: --post-data: --body-data: --method: -A: -R: -D: -l: -w: -Q: --warc-file> --rejected-log> --hsts-file> --warc-tempdir> --input-metalink! --pinnedpubkey<")
	add("unzip", "r.", "-d>")
	add("zip", "!b", "-r -q -v -j -m -u -f -y -e -X -D -g -o -d -R -S -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -x: -i: -n: -P: -b> -lf> -T! -TT! --test! --unzip-command! -@! --recurse-paths --quiet --exclude: --include: --junk-paths --symlinks --encrypt --out> -O>")
	add("patch", "!b.", `-b --backup --backup-if-mismatch --no-backup-if-mismatch -c --context -D: --ifdef: --dry-run -E --remove-empty-files -f --force -F: --fuzz: -l --ignore-whitespace
		-n --normal -N --forward -p: --strip: -R --reverse -s --silent --quiet -t --batch -T --set-time -u --unified -v --version --verbose --help --binary --posix --merge?
		-i< --input< -o> --output> -d> --directory> -r> --reject-file>`)
	add("split", "!s", "-a: -b: -C: -l: -n: -t: -d -x -e -u --suffix-length: --bytes: --line-bytes: --lines: --number: --separator: --additional-suffix: --numeric-suffixes? --hex-suffixes? --elide-empty-files --unbuffered --verbose --filter!")
	add("csplit", "!s", "-f> --prefix> -b: --suffix-format: -n: --digits: -k --keep-files -z --elide-empty-files -s --quiet --silent --suppress-matched")
	add("man apropos whatis", "", "-P! --pager! -H! --html! -C! --config-file! -l<")
	add("go", "!", `-v -x -n -a -race -msan -asan -cover -covermode: -coverpkg: -count: -run: -bench: -benchtime: -benchmem -timeout: -short -json? -failfast -parallel: -cpu:
		-p: -tags: -trimpath -mod: -buildvcs? -buildmode: -shuffle: -fuzz: -fuzztime: -fuzzminimizetime: -skip: -list: -vet: -u? -t -d -m -f: -e -deps -test -export -compiled -find -work
		-installsuffix: -linkshared -i -c -r -s -modcacherw -fullpath -versions -retracted -all -src -cmd -cache -testcache -modcache -fuzzcache -pgo< -h -help --help --version
		-test.v -test.run: -test.bench: -test.count: -test.short -test.timeout: -test.failfast -test.parallel: -test.cpu: -test.benchtime: -test.benchmem
		-ldflags! -gcflags! -asmflags! -gccgoflags! -compiler! -debug-actiongraph> -debug-trace> -debug-runtime-trace>
		-test.coverprofile> -test.cpuprofile> -test.memprofile> -test.blockprofile> -test.mutexprofile> -test.trace> -test.outputdir> -test.gocoverdir> -test.testlogfile> -test.fuzzcachedir> -exec! -toolexec! -vettool! -overlay! -modfile< -o> -C> -coverprofile> -cpuprofile> -memprofile> -blockprofile> -mutexprofile> -trace> -outputdir> -pkgdir>`)
	add("gofmt goimports", "b", "-cpuprofile>")
	add("cargo", "", "--config! --manifest-path< --target-dir>")
	add("npm yarn pnpm", "", "--script-shell! --shell! --node-options! --userconfig! --globalconfig! --prefix> --cwd>")
	add("make gmake bmake just ninja task", "", "--eval! -E! -c! --command! --shell-arg! --chooser! -f< --file< --makefile< -C< --directory< -I< --include-dir< --shell! --justfile<")
	add("tcpdump", "", "-z! -w> -r< -F<")
	add("nc ncat netcat", "", "-e! -c! --exec! --sh-exec! --lua-exec! -o>")
	add("openssl", "!", `-noout -text -subject -issuer -dates -startdate -enddate -serial -fingerprint -modulus -pubkey -pubin -pubout -new -x509 -nodes -days: -subj: -newkey: -keyout>
		-sha1 -sha256 -sha384 -sha512 -md5 -hex -binary -base64 -d -e -a -A -r -inform: -outform: -connect: -servername: -showcerts -brief -quiet -salt -pbkdf2 -iter: -k: -K: -iv:
		-aes-128-cbc -aes-256-cbc -checkend: -ext: -nocerts -nokeys -clcerts -writerand> -rand< -sign< -signature< -in< -out> -engine! -provider! -provider-path! -config! -inkey< -key< -CAfile< -cert<`)
	add("ssh-add", "r", "-D -s! -e! -H!")
	add("gpg gpg2", "r", "-o> --output> --homedir< --passphrase-file< --photo-viewer! --agent-program! --dirmngr-program!")
	add("apt apt-get dpkg apk yum dnf brew pip pip3 gem bundle", "", "-o! --option! -c! --config-file! --pre-invoke! --post-invoke! --target> -r< --requirement< --prefix> --root>")
	add("ld", "!r", "-o>")
	add("gcc g++ cc c++ clang clang++", "r", "-o> -MF> -MJ> -MT: -MQ: -dumpdir> -dumpbase> -Xlinker! -Xassembler! -Xpreprocessor! -Xclang! -save-temps! -B! -fplugin! -wrapper! -specs! -include<")
	add("date", "", "-f< --file< -r< --reference<")
	add("echo true false : pwd sleep id whoami uname hostname which type seq yes basename dirname expr kill killall pkill nproc free uptime ps exit return break continue shift umask ulimit times", "", "")
	return programs
}
