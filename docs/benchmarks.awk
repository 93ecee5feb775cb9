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
	what["x-plain"] = "time of the metered guest, to the same guest in plain wazero"
	what["many/few"] = "time of a decision among 2,000 rules, to that among 20"
	what["plain/decide"] = "time of plain OPA, to that of Policy.Decide"
}
/^Benchmark/ {
	name = $1
	sub(/-[0-9]+$/, "", name)
	for (i = 3; i < NF; i += 2)
		if ($(i + 1) in what)
			printf "| `%s` | %.2f | %s |\n", name, $i, what[$(i + 1)]
}
