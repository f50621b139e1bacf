# make test     the whole suite: format, vet, staticcheck, tests (with -race where a C compiler is)
# make gate     what a request costs, held to its limits; without the race detector
# make bench    benchmarks
# make fuzz     each fuzz target for FUZZTIME

GO        ?= go
FUZZTIME  ?= 20s
PACKAGES  := ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs cgo, and cgo a C compiler.
CC_FOUND := $(shell command -v $(or $(CC),cc) 2>/dev/null || command -v gcc 2>/dev/null)
ifneq ($(CC_FOUND),)
RACE := -race
export CGO_ENABLED := 1
endif

.PHONY: build test check unit gate bench fuzz

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

test: check unit gate

check:
	@unformatted=$$(gofmt -l appliance cmd mcp store systemd); \
	 if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)
	$(GO) mod verify
	$(GO) mod tidy -diff

unit:
ifeq ($(RACE),)
	@echo "no C compiler: the race detector is off"
endif
	@command -v bird >/dev/null 2>&1 || PATH=$$PATH:/usr/sbin command -v bird >/dev/null 2>&1 || \
	 echo "no BIRD: the tests against a real BGP peer are skipped (Debian package bird2)"
	$(GO) test $(RACE) -timeout 15m $(PACKAGES)

gate:
	$(GO) test -count=1 -run '^(TestAllocations|TestSpeed)$$' ./appliance

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

fuzz:
	@$(GO) list $(PACKAGES) | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' "$$p" | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) "$$p" || exit 1; \
	  done; done
