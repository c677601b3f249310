# Everything that is built, tested, measured or shown goes through here; `make help` lists the targets.
#
#   PKGS=…     the packages that test and cover look at (./...)
#   ARGS=…     further arguments of demo, scripts, contract and interop (flags of go test), matrix, bench and bench-cluster
#   SECONDS=…  how long each test of fuzz and soak runs, and if given each run of bench-cluster
#   HOLDS=…    how many locks bench-cluster holds (100000)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:
.NOTPARALLEL:

PKGS ?= ./...
ARGS ?=
SECONDS ?= 30

# The linters and the test runner are pinned in a module of their own, so that no user of Redlatch depends on them.
TOOL := go tool -modfile=tools/go.mod
BUILD := .build

# One package at a time: they start servers and JVMs, and several hold locks by leases of a second or less. No cached
# results: the cache does not know about servers.
# Vetting is a step of its own.
TESTFLAGS := -race -count=1 -p 1 -timeout 15m -vet=off

.PHONY: help setup test contract check check-gofmt check-vet check-lua test-tools test-bench lint fmt cover demo scripts interop \
	matrix soak fuzz bench bench-quick bench-cluster bench-peers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## check what building and testing needs; install what is missing (as root on Debian)
	@scripts/setup.sh

test: setup check test-tools test-bench ## all that CI runs: checks, then every test with the race detector; a skipped test fails
	@mkdir -p $(BUILD)
	@$(TOOL) gotestsum --format pkgname --format-hide-empty-pkg --jsonfile $(BUILD)/test.json -- $(TESTFLAGS) $(PKGS)
	@go -C tools run ./testaudit -allow allowed-skips.txt ../$(BUILD)/test.json

contract: ## put every kind of lock to the test on every topology; make test has a choice of these
	@scripts/setup.sh go cc redis
	@mkdir -p $(BUILD)
	@$(TOOL) gotestsum --format pkgname --jsonfile $(BUILD)/contract.json -- \
		$(TESTFLAGS) -timeout 60m -tags contract -run Contract $(ARGS) ./rlock ./fairlock ./rwlock ./fencedlock ./multilock
	@go -C tools run ./testaudit -allow allowed-skips.txt ../$(BUILD)/contract.json

check: check-gofmt check-vet check-lua ## the quick checks alone: gofmt, go vet, luacheck

check-gofmt:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		printf 'not formatted, run "make fmt":\n%s\n' "$$unformatted" >&2; exit 1; fi

# With -race, so that the packages compiled for vetting are those that the tests use; with the tags, so that what
# they hide is at least compiled.
check-vet:
	@go vet -race -tags soak,crowd,contract,downloads ./...
	@go -C tools vet -race ./...
	@go -C bench vet -race ./...

check-lua:
	@scripts/setup.sh luacheck
	@luacheck --quiet --no-color .

# A skip fails here as well.
test-tools:
	@mkdir -p $(BUILD)
	@cd tools && go tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile ../$(BUILD)/tools.json -- -race -vet=off ./...
	@go -C tools run ./testaudit -allow allowed-skips.txt ../$(BUILD)/tools.json

test-bench:
	@mkdir -p $(BUILD)
	@cd bench && go tool -modfile=../tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg --jsonfile ../$(BUILD)/bench.json -- -race -vet=off ./...
	@go -C tools run ./testaudit -allow allowed-skips.txt ../$(BUILD)/bench.json

lint: check ## the checks and golangci-lint (its first build takes minutes)
	@unformatted=$$($(TOOL) gofumpt -l .); if [ -n "$$unformatted" ]; then \
		printf 'not formatted, run "make fmt":\n%s\n' "$$unformatted" >&2; exit 1; fi
	@$(TOOL) golangci-lint run ./...
	@go -C tools tool golangci-lint run ./...
	@cd bench && go tool -modfile=../tools/go.mod golangci-lint run ./...

fmt: ## format the Go code with gofumpt
	@$(TOOL) gofumpt -l -w .

cover: ## run the tests for coverage: total on the screen, details in .build/cover.html
	@mkdir -p $(BUILD)
	@go test $(TESTFLAGS) -coverpkg=./... -coverprofile=$(BUILD)/cover.out $(PKGS)
	@go tool cover -html=$(BUILD)/cover.out -o $(BUILD)/cover.html
	@go tool cover -func=$(BUILD)/cover.out | tail -n 1

demo: ## see one lock pass between workers; ARGS=--java adds a JVM
	@go run ./cmd/redlatch demo $(ARGS)

scripts: ## list the Lua scripts that Redlatch runs on the server
	@go run ./cmd/redlatch scripts $(ARGS)

interop: ## Go and a real Redisson JVM on one Redis, a cluster, below sentinels: a line for each topic; crowds of processes too
	@scripts/setup.sh go cc redis java maven
	@go test -json -race -count=1 -p 1 -timeout 30m -tags crowd $(ARGS) ./interop/... | go -C tools run ./interoptable

matrix: ## a choice of interop on every server, topology and Redisson release; writes docs/compatibility.md (half an hour)
	@scripts/setup.sh go cc redis java maven
	@mkdir -p $(BUILD)
	@go -C tools run ./matrix -out ../docs/compatibility.md $(ARGS)

soak: ## run the stress tests for SECONDS=n each
	@scripts/soak.sh "$(SECONDS)"

fuzz: ## run every fuzz test for SECONDS=n each
	@scripts/fuzz.sh "$(SECONDS)"

bench: ## run the benchmarks, five times each; figures also in .build/bench.txt
	@scripts/bench.sh -count=5 $(ARGS)

bench-quick: ## run the benchmarks once and briefly
	@scripts/bench.sh -benchtime=200ms $(ARGS)

bench-cluster: ## Redlatch and Redisson on clusters with a frozen node or a slow line; minutes. HOLDS=n SECONDS=n: less
	@scripts/setup.sh go redis java maven
	@go -C bench run ./cluster $(if $(HOLDS),-holds $(HOLDS)) $(if $(filter-out file,$(origin SECONDS)),-seconds $(SECONDS)) $(ARGS)

bench-peers: ## compare with other lock libraries (comes with a later release)
	@echo "make bench-peers comes with a later release; make bench measures Redlatch itself" >&2
	@exit 1
