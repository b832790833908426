#!/usr/bin/env bash
# Checks what the tests need; installs it where it may (root on Debian or Ubuntu), else says what is missing.
# need.sh interop also looks for what the programs in interop/ are run by.
set -euo pipefail
missing=()
command -v go >/dev/null || { echo "go isn't on the PATH: install Go 1.26 or newer (https://go.dev/dl), then try again" >&2; exit 1; }
command -v gcc >/dev/null || missing+=(gcc libc6-dev) # the race detector links C
command -v git >/dev/null || missing+=(git)
command -v redis-server >/dev/null || missing+=(redis-server) # breaker/redisstore starts its own, on a free port
if [ "${1:-}" = interop ]; then
  command -v node >/dev/null || missing+=(nodejs)
  command -v python3 >/dev/null || missing+=(python3)
  command -v javac >/dev/null || missing+=(default-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
else
  echo "missing: ${missing[*]}; on Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
