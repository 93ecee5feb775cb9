# `make test` is everything that has to pass. It needs Go 1.26 or later, fetches Go
# modules, and installs redis-server with apt-get if there is none.

STATICCHECK := go tool staticcheck
PACKAGES := ./...
FUZZTIME ?= 5s
# For what stands between guests and the host.
GUESTFUZZTIME ?= 20s

.PHONY: test check race fuzz mutants bench demo guests redis

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

# The tests of the shared state start real servers.
redis:
	@command -v redis-server >/dev/null || { \
	  echo "installing redis-server, which the tests of the shared state start: apt-get install -y redis-server"; \
	  as=; [ "$$(id -u)" = 0 ] || as=sudo; \
	  { $$as apt-get update -q && $$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server; } >.redis.out 2>&1; \
	  command -v redis-server >/dev/null || { cat .redis.out; rm -f .redis.out; echo "redis-server, 7.0 or later, is needed and could not be installed"; exit 1; }; \
	  rm -f .redis.out; }

# Every Go test, among them those that run plain OPA on every bundle: its format,
# its strict check against the input's schema and the pinned builtins, its tests.
race: redis
	@command -v $${CC:-cc} >/dev/null || { echo "the race detector needs a C compiler: apt-get install gcc"; exit 1; }
	go test -race -shuffle=on -timeout 20m $(PACKAGES)
	go test ./sandbox/meter # again without the detector, under which its corpus is thinned
	go test -run '^TestSuiteOfTheStandard$$' ./sandbox # so are the programs of WASI's standard
	go test -run '^TestRaces$$' ./engine/state/redis # so are the races for one approval, grant and limit

# A short run of every fuzz target; each also runs its seeds in `race`. Before Go 1.27
# the end of the time itself can be reported as a failure (go.dev/issue/75804): a run
# that found no input and says nothing else is made again.
fuzz: redis
	@set -e; for pkg in $$(go list $(PACKAGES)); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "fuzz $$pkg $$target"; \
	    tries=1; time=$(FUZZTIME); \
	    case "$${pkg##*/} $$target" in "meter "*|"wasi "*|"sandbox FuzzHostFunctions") time=$(GUESTFUZZTIME) ;; esac; \
	    until go test -run '^$$' -fuzz "^$$target$$" -fuzztime $$time -fuzzminimizetime 1x $$pkg >.fuzz.out 2>&1; do \
	      if [ $$tries = 3 ] || grep -q 'Failing input' .fuzz.out || ! grep -qx '    context deadline exceeded' .fuzz.out; then \
	        cat .fuzz.out; rm -f .fuzz.out; exit 1; \
	      fi; \
	      tries=$$((tries + 1)); \
	    done; \
	  done; \
	done; rm -f .fuzz.out

# Drops each check of effects in turn, as the tables in hostfx/internal/mutants/testdata
# have it, and a test must fail. ONLY=http runs those alone whose table or name holds it.
# It takes most of an hour, and touches nothing in the tree.
mutants:
	go test -tags mutants -run '^TestMutants' -timeout 6h -v ./hostfx/internal/mutants -only "$(ONLY)"

# Prints ratios to a baseline of the same run, and writes docs/benchmarks.md.
bench: redis
	go test -run '^$$' -bench . -benchtime 200ms $(PACKAGES) | tee .bench.out
	awk -f docs/benchmarks.awk .bench.out > docs/benchmarks.md; rm -f .bench.out
	@cat docs/benchmarks.md

# Builds the guests anew from their sources: needs clang, lld, wasi-libc,
# libclang-rt-dev-wasm32 and wabt; rustc with wasm32-wasip1, and npm, for the templates of tools.
guests:
	sandbox/guests/src/build.sh
	sandbox/testdata/build.sh
	sandbox/meter/testdata/build.sh
	cmd/callgate/testdata/templates/build.sh
