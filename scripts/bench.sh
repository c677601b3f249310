#!/usr/bin/env bash
# Runs every benchmark of the module, package by package so that none disturbs another, with the given flags of
# `go test`. The figures go to the screen and to .build/bench.txt, in the form that benchstat reads.
#
#   scripts/bench.sh -benchtime=1s -count=5

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=$(scripts/packages-with.sh '^func Benchmark')
if [ -z "$packages" ]; then
  echo "bench: there is no benchmark in this module" >&2
  exit 1
fi

mkdir -p .build
# shellcheck disable=SC2086 # a list of import paths
go test -run '^$' -bench . -benchmem -p 1 -timeout 60m "$@" $packages | tee .build/bench.txt
