#!/bin/sh
# run_peer.sh VENV "PACKAGES" SCRIPT [ARGUMENTS]: runs a Python script beside a pinned real program.
set -eu
venv=$1 packages=$2
shift 2
stamp="$venv/installed"
if [ "$(cat "$stamp" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  # The list of packages is meant to be split into words.
  "$venv/bin/pip" install --quiet --disable-pip-version-check $packages
  printf '%s' "$packages" > "$stamp"
fi
exec "$venv/bin/python" "$@"
