# make test     the whole suite: format, vet, staticcheck, tests (with -race where a C compiler is)
# make system   the packages on real systems: systemd, dpkg, rpm, Prometheus
# make gate     what a request costs, held to its limits; without the race detector
# make bench    benchmarks
# make fuzz     each fuzz target that FUZZ matches, for FUZZTIME
# make packages .deb and .rpm for ARCHES into dist/
# make lint     what lintian and rpmlint say to them

GO        ?= go
# For some time, or, as 20000x, that often.
FUZZTIME  ?= 20s
FUZZ      ?= Fuzz.*
PACKAGES  := ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs cgo, and cgo a C compiler.
CC_FOUND := $(shell command -v $(or $(CC),cc) 2>/dev/null || command -v gcc 2>/dev/null)
ifneq ($(CC_FOUND),)
RACE := -race
export CGO_ENABLED := 1
endif

.PHONY: build test check unit system gate bench fuzz packages lint

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

test: check unit gate system

check:
	@unformatted=$$(gofmt -l appliance cmd mcp packaging store systemd); \
	 if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)
	$(GO) mod verify
	$(GO) mod tidy -diff
	cd packaging/tools && $(GO) mod verify && $(GO) mod tidy -diff

unit:
ifeq ($(RACE),)
	@echo "no C compiler: the race detector is off"
endif
	@command -v bird >/dev/null 2>&1 || PATH=$$PATH:/usr/sbin command -v bird >/dev/null 2>&1 || \
	 echo "no BIRD: the tests against a real BGP peer are skipped (Debian package bird2)"
	$(GO) test $(RACE) -timeout 15m $$($(GO) list $(PACKAGES) | grep -v -e /packaging/test -e /cmd/)
	# The scripts start the programs some hundred times: with the detector that takes
	# four times as long, and all that they are made of has been tested with it.
	$(GO) test -timeout 15m ./cmd/...

system:
	$(GO) test -v -count=1 -timeout 20m ./packaging/test

gate:
	$(GO) test -count=1 -run '^(TestAllocations|TestSpeed)$$' ./appliance

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

fuzz:
	@$(GO) list $(PACKAGES) | while read -r p; do \
	  for f in $$($(GO) test -list '^$(FUZZ)$$' "$$p" | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$p" || exit 1; \
	  done; done

VERSION ?= 0.1.0
ARCHES  ?= amd64 arm64
BUILD   ?= build
DIST    ?= dist
# Of the commit, so that everybody gets the same bytes of it.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

PROGRAMS := CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
NFPM     := $(GO) tool -modfile=packaging/tools/go.mod nfpm

packages:
	mkdir -p $(BUILD) $(DIST)
	$(PROGRAMS) -o $(BUILD)/$$($(GO) env GOHOSTARCH)/ ./cmd/...
	packaging/documents.sh $(VERSION) $(SOURCE_DATE_EPOCH) $(BUILD)
	set -e; for arch in $(ARCHES); do \
	  GOARCH=$$arch $(PROGRAMS) -o $(BUILD)/$$arch/ ./cmd/...; \
	  packaging/sbom.sh $(VERSION) $(SOURCE_DATE_EPOCH) $(BUILD)/$$arch >$(BUILD)/$$arch/sbom.cdx.json; \
	  sed -e "s|\$${VERSION}|$(VERSION)|; s|\$${ARCH}|$$arch|g; s|\$${BUILD}|$(BUILD)|g" -e '/build.rpm.yaml/r $(BUILD)/rpm.yaml' nfpm.yaml >$(BUILD)/$$arch/nfpm.yaml; \
	  for format in deb rpm; do $(NFPM) package -f $(BUILD)/$$arch/nfpm.yaml -p $$format -t $(DIST)/; done; \
	done

# There is no bug number to close: the package is in no archive.
lint:
	lintian --allow-root -E --pedantic --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs $(DIST)/*.deb
	rpmlint -c packaging/lint/rpmlint.toml $(DIST)/*.rpm
