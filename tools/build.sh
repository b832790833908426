#!/usr/bin/env bash
# Builds one binary and says meanwhile what it is doing: build.sh OUTPUT PACKAGE VERSION
set -euo pipefail
out=$1 package=$2 version=$3
command -v go >/dev/null || { echo "go isn't on the PATH: install Go 1.26 or newer (https://go.dev/dl), then try again" >&2; exit 1; }
mkdir -p "$(dirname "$out")"
flags=(-ldflags "-X main.version=$version")
start=$(date +%s)
count=0
if [ -t 2 ]; then tty=1; else tty=; fi
CGO_ENABLED=0 go build -trimpath -v "${flags[@]}" -o "$out" "$package" 2> >(
  while read -r line; do
    case "$line" in
      *[!a-zA-Z0-9._/~-]*) printf '%s\n' "$line" >&2 ;; # an error or a download: show it
      *) count=$((count + 1))
         if [ "$count" = 1 ]; then echo "building $(basename "$out") (the first time about a minute; afterwards seconds) …" >&2; fi
         [ -z "$tty" ] || printf '\r  %4d packages, %3d s, %-50.50s' "$count" $(($(date +%s) - start)) "$line" >&2 ;;
    esac
  done
  [ -z "$tty" ] || [ "$count" = 0 ] || printf '\r%-80s\r' '' >&2
)
wait
