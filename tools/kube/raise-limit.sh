#!/bin/sh
# raise-limit.sh FILE LEAST: the limit of the kernel in FILE becomes LEAST, unless it is that or more already.
set -eu
[ "$(cat "$1")" -ge "$2" ] || echo "$2" >"$1"
