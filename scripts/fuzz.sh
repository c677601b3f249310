#!/usr/bin/env bash
# Runs every fuzz test of the module, one after the other, for the given number of seconds each.
#
#   scripts/fuzz.sh SECONDS
#
# An input that fails is written by Go to testdata/fuzz beside its test, where `go test` runs it from then on: commit it
# with the fix. The other fuzz tests still run, and the exit status is 1.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz: the number of seconds must be a whole number of at least 1, not \"$seconds\"" >&2
  exit 2
fi

targets=()
packages=$(scripts/packages-with.sh '^func Fuzz')
for package in $packages; do
  listed=$(go test -list '^Fuzz' "$package")
  while read -r name; do
    if [[ $name == Fuzz* ]]; then targets+=("$package $name"); fi
  done <<<"$listed"
done
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz: there is no fuzz test in this module" >&2
  exit 1
fi

echo "fuzz: ${#targets[@]} fuzz tests, ${seconds} s each"
failed=0
for target in "${targets[@]}"; do
  read -r package name <<<"$target"
  echo "fuzz: $package $name"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" "$package" || failed=$((failed + 1))
done
echo "fuzz: $((${#targets[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
