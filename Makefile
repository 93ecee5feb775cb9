# `make test` is everything that has to pass. It needs Go 1.26 or later and
# fetches Go modules; it installs nothing on the system.

STATICCHECK := go tool staticcheck
PACKAGES := ./...
FUZZTIME ?= 5s

.PHONY: test check race fuzz bench demo guests

test: check race fuzz
	@echo "all tests passed"

demo:
	go run ./cmd/callgate demo

# Static checks: format, vet, a linter, tidy modules.
check:
	@test -z "$$(gofmt -l cmd engine rego sandbox hostfx bundles policytests)" || { gofmt -l cmd engine rego sandbox hostfx bundles policytests; echo "gofmt: the files above are not formatted"; exit 1; }
	go vet $(PACKAGES)
	$(STATICCHECK) $(PACKAGES)
	go mod tidy -diff
	go mod verify

# Every Go test, among them those that run plain OPA on every bundle: its format,
# its strict check against the input's schema and the pinned builtins, its tests.
race:
	@command -v $${CC:-cc} >/dev/null || { echo "the race detector needs a C compiler: apt-get install gcc"; exit 1; }
	go test -race -shuffle=on -timeout 20m $(PACKAGES)
	go test ./sandbox/meter # again without the detector, under which its corpus is thinned

# A short run of every fuzz target; each also runs its seeds in `race`.
fuzz:
	@set -e; for pkg in $$(go list $(PACKAGES)); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "fuzz $$pkg $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg >.fuzz.out 2>&1 || { cat .fuzz.out; rm -f .fuzz.out; exit 1; }; \
	  done; \
	done; rm -f .fuzz.out

# Prints ratios to a baseline of the same run, and writes docs/benchmarks.md.
bench:
	go test -run '^$$' -bench . -benchtime 200ms $(PACKAGES) | tee .bench.out
	awk -f docs/benchmarks.awk .bench.out > docs/benchmarks.md; rm -f .bench.out
	@cat docs/benchmarks.md

# Builds the guests anew from their sources: needs clang, lld, wasi-libc,
# libclang-rt-dev-wasm32 and wabt.
guests:
	sandbox/guests/src/build.sh
	sandbox/testdata/build.sh
	sandbox/meter/testdata/build.sh
