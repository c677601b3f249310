#!/usr/bin/env bash
# Prints the packages of this module whose test files have a line that matches an extended regular expression, one
# import path per line, sorted. Files behind the build tag "soak" are looked at too. It finds without compiling.
#
#   scripts/packages-with.sh '^func Fuzz'

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Kept in a variable, not piped: bash would not notice that go list failed in the midst.
# shellcheck disable=SC2016 # a Go template, not shell
files=$(go list -tags soak -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}' ./...)
while read -r package file; do
  if [ -n "$package" ] && grep -qE "$1" "$file"; then echo "$package"; fi
done <<<"$files" | sort -u
