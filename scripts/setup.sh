#!/usr/bin/env bash
# Checks that this machine has what Redlatch is built and tested with, and installs what is missing where it may.
#
#   scripts/setup.sh [go] [cc] [redis] [java] [maven] [luacheck]      (all of them when none is named)
#
# As root on Debian and its kin, missing packages are installed with apt-get; nothing is fetched and apt-get is not even
# called when all is there. Otherwise it names the packages to install and exits 1. The exception is redis-server
# for a user who is not root: the tests fetch one into the user's cache folder by themselves (internal/redistest).
# Go is never installed from here: a distribution's Go is older than what go.mod asks for.
#
# No server is left running: the packages' services are kept from starting, the tests start their own on free ports.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly min_java=17
packages=()
faults=()

has() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" -eq 0 ]; }
need() { packages+=("$@"); }

# at_least HAVE WANT compares versions.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

check_go() {
  local want have
  want=$(awk '$1 == "go" { print $2; exit }' go.mod)
  if ! has go; then
    faults+=("Go $want or newer is not on the PATH: install it as https://go.dev/doc/install says")
  elif ! have=$(go env GOVERSION) || ! at_least "${have#go}" "$want"; then
    faults+=("Go $want or newer is needed, this is ${have:-older}: install it as https://go.dev/doc/install says")
  fi
}

# The race detector links C code.
check_cc() {
  local cc=gcc
  if has go; then cc=$(go env CC); fi
  if ! has "${cc%% *}" || ! printf '#include <stdlib.h>\nint main(void){return 0;}\n' | $cc -x c -fsyntax-only - 2>/dev/null; then
    need gcc libc6-dev
  fi
}

check_redis() {
  if ! is_root; then
    has redis-server || echo "setup: no redis-server here: the tests fetch one into the user's cache folder"
    return
  fi
  has redis-server || need redis-server
  has redis-sentinel || need redis-sentinel
}

check_java() {
  local javac=javac major
  if [ -n "${JAVA_HOME:-}" ]; then javac=$JAVA_HOME/bin/javac; fi
  if ! has "$javac"; then
    need openjdk-17-jdk-headless
    return
  fi
  # "javac 17.0.15", but "javac 1.8.0_402" before 9; an old one also writes to stderr.
  major=$("$javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
  if [ "${major:-0}" -lt "$min_java" ]; then
    faults+=("a JDK $min_java or newer is needed, $javac is ${major:-unknown}: set JAVA_HOME to a newer one")
  fi
}

check_maven() { has mvn || need maven; }
check_luacheck() { has luacheck || need lua-check; }

# without_services runs a command while Debian's packages are kept from starting their services. A policy that the
# machine has already stays as it is: containers come with one that denies.
without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then
    "$@"
    return
  fi
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  "$@"
  rm -f "$policy"
  trap - EXIT
}

# After a reboot no server of ours shall run either. Only what was installed just now is touched.
disable_services() {
  [ -d /run/systemd/system ] || return 0
  local package
  for package in "${packages[@]}"; do
    case $package in
      redis-server | redis-sentinel) systemctl disable --now "$package.service" ;;
    esac
  done
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# Releases without OpenJDK 17 have a newer default.
choose_jdk() {
  local i
  for i in "${!packages[@]}"; do
    if [ "${packages[i]}" = openjdk-17-jdk-headless ] && ! apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then
      packages[i]=default-jdk-headless
    fi
  done
}

install_packages() {
  echo "setup: installing ${packages[*]}"
  apt update
  choose_jdk
  without_services apt install --no-install-recommends "${packages[@]}"
  disable_services
}

main() {
  local part parts=("$@")
  if [ ${#parts[@]} -eq 0 ]; then parts=(go cc redis java maven luacheck); fi
  for part in "${parts[@]}"; do
    case $part in
      go | cc | redis | java | maven | luacheck) "check_$part" ;;
      *)
        echo "setup: unknown part \"$part\"; known are go, cc, redis, java, maven, luacheck" >&2
        exit 2
        ;;
    esac
  done
  if [ ${#packages[@]} -gt 0 ]; then
    if is_root && has apt-get; then
      install_packages
    else
      faults+=("missing: install these packages (names as in Debian): ${packages[*]}")
    fi
  fi
  if [ ${#faults[@]} -gt 0 ]; then
    printf 'setup: %s\n' "${faults[@]}" >&2
    exit 1
  fi
}

main "$@"
