# Everything a developer runs. `make` lists the targets.
#
#   make test       all tests, the browser's included (fetches Chromium where it is missing)
#   make test-long  the same with more seeds: make test-long N=20000 SEED=7
#   make lint       formatting, vet, staticcheck; generated code must be up to date
#   make generate   templ components and front-end assets
#   make screenshots
#   make bench-ui   what a tick of a busy dashboard costs in a browser
#   make bench      the benchmarks behind every figure in the docs
#   make torture    kills and overloads a serving binary and counts what is lost
#   make torture-views  the same with ten views, compared with their batch answers each time

SHELL := /bin/bash
TOOL  := go tool -modfile=.ci/tools.mod
SEED  ?=
N     ?=

# Packages that link DuckDB (cgo) run without the race detector: it makes them several times slower.
DUCKDB  := ./storage/history/... ./windows/scenario/... ./cmd/...
PURE     = $(shell go list ./... | grep -vE '/storage/history|/windows/scenario|/cmd/')

.PHONY: help build test test-long lint generate screenshots bench bench-ui torture torture-views docker

help:
	@sed -n 's/^#   //p' Makefile

build:
	go build -o bin/tidemark ./cmd/tidemark

test:
	@chromium="$$(bash .ci/chromium)" && export CHROMIUM="$$chromium" && set -e && \
	go test -tags invariants -race -timeout 7m $(PURE) && \
	go test -tags invariants -timeout 7m $(DUCKDB)

test-long:
	@chromium="$$(bash .ci/chromium)" && export CHROMIUM="$$chromium" TIDEMARK_LONG=1 TIDEMARK_SEED=$(SEED) TIDEMARK_N=$(N) && set -e && \
	go test -tags invariants -race -count=1 -timeout 3h $(PURE) && \
	go test -tags invariants -count=1 -timeout 3h $(DUCKDB)

lint:
	@bash .ci/lint

generate:
	$(TOOL) templ generate -path web
	bash .ci/assets

screenshots: build
	@CHROMIUM="$$(bash .ci/chromium)" go test -count=1 -run TestScreenshots ./cmd/tidemark -screenshots

bench: build
	bin/tidemark bench ingest
	bin/tidemark bench nexmark --check
	bin/tidemark bench windows
	bin/tidemark bench views
	bin/tidemark bench latency
	bin/tidemark bench fanout

bench-ui:
	@mkdir -p bin && $(TOOL) esbuild web/ui/src/bench.js --bundle --format=iife --log-level=warning --outfile=bin/bench-ui.js && \
	CHROMIUM="$$(bash .ci/chromium)" BENCH_UI="$$PWD/bin/bench-ui.js" go test -count=1 -run '^$$' -bench BenchmarkDashboard -benchtime 1x ./cmd/tidemark

torture: build
	bin/tidemark bench torture
	bin/tidemark bench torture-overload

torture-views: build
	bin/tidemark bench torture-views

docker:
	docker build -t tidemark .
