#!/usr/bin/env bash
# Runs the soak tests (TestSoak…, behind the build tag "soak") under the race detector for the given number of seconds
# each; they read it from REDLATCH_SOAK_SECONDS. It fails when a test failed or was skipped, and when none ran.
#
#   scripts/soak.sh SECONDS

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "soak: the number of seconds must be a whole number of at least 1, not \"$seconds\"" >&2
  exit 2
fi

packages=$(scripts/packages-with.sh '^func TestSoak')
if [ -z "$packages" ]; then
  echo "soak: there is no soak test in this release: func TestSoak… behind the build tag \"soak\"" >&2
  exit 1
fi

# Each test may take its time and as much again to start and stop its servers; the tests of a package share one limit.
# shellcheck disable=SC2086 # a list of import paths
tests=$(go test -tags soak -race -list '^TestSoak' $packages | grep -c '^TestSoak')
limit=$((tests * (2 * seconds + 60)))

mkdir -p .build
export REDLATCH_SOAK_SECONDS=$seconds
# shellcheck disable=SC2086 # a list of import paths
go tool -modfile=tools/go.mod gotestsum --format standard-verbose --jsonfile .build/soak.json -- \
  -tags soak -race -run '^TestSoak' -count=1 -p 1 -timeout "${limit}s" $packages
go -C tools run ./testaudit -require '^TestSoak' ../.build/soak.json
