# Turns the output of `go test -bench` into a table of its ratios. Bare times say
# nothing on machines that differ or are busy, so they are left out.
BEGIN {
	print "# Benchmarks"
	print ""
	print "Written by `make bench`. Each number is a ratio to a baseline of the same run on the same machine."
	print ""
	print "| benchmark | ratio | of what to what |"
	print "|---|---|---|"
	what["x-one-fsync-a-call"] = "admissions a second, to those with one fsync for each call"
	what["x-one-by-one"] = "records a second, to the same log appended to by one caller at a time"
	what["compiled/plain"] = "time until a module can run, compiled in a process of its own, to compiling it in this one with plain wazero"
	what["cached/plain"] = "likewise, from the cache"
	what["x-plain"] = "time of the metered guest, to the same guest in plain wazero"
	what["many/few"] = "time of a decision among 2,000 rules, to that among 20"
	what["alone/plain"] = "median time of a call whose instance is made, initialised, called and closed, to that in plain wazero"
	what["fresh/plain"] = "median time of a call whose instance is made from a snapshot, if there is one, called and closed, to that in plain wazero"
	what["warm/plain"] = "median time of a call whose instance served calls before, if it can, to that in plain wazero"
	what["warm-p99/plain"] = "99th percentile of calls whose instance served calls before, if it can, to the median in plain wazero"
	what["allocs/warm"] = "allocations of the host for a call whose instance served calls before (a number, no ratio)"
	what["hostfx/os"] = "median time in a granted directory, checked and recorded, to package os's"
	what["portable/os"] = "likewise, where the kernel has no openat2"
	what["os.Root/os"] = "time of a bare os.Root, to package os's"
	what["hostfx/net-http"] = "median time of a request over TLS, checked and recorded, to bare net/http's; both on a new connection"
	what["kept/net-http"] = "likewise of bare net/http on a connection that is kept, which hostfx never does"
	what["refused/dial"] = "median time of a request that the grant does not allow, to that of connecting to the server"
	what["hostfx/os-exec"] = "median time of a command that does nothing, confined and ended with all that it started, to package os/exec's"
	what["plain/decide"] = "time of plain OPA, to that of Policy.Decide"
}
/^Benchmark/ {
	name = $1
	sub(/-[0-9]+$/, "", name)
	for (i = 3; i < NF; i += 2)
		if ($(i + 1) in what) {
			printf "| `%s` | %.2f | %s |\n", name, $i, what[$(i + 1)]
			if (name ~ /^BenchmarkLoops\//) {
				logs += log($i)
				loops++
			}
		}
}
END {
	if (loops)
		printf "| `BenchmarkLoops`, geometric mean | %.2f | %s |\n", exp(logs / loops), what["x-plain"]
}
