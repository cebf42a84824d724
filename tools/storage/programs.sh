#!/usr/bin/env bash
# Build the S3-compatible server of tests/storage from Go modules, with no release download.
#   programs.sh          versitygw
#   programs.sh where    only print the folder in which it lands
# What is there already is not built again. Needs Go: `tools/setup storage` sees to it.
set -euo pipefail
# shellcheck source=../kube/environment.sh
. "$(dirname "$0")/../kube/environment.sh"

# A change of version is a new folder, so that none is stale. Go checks the modules' sums.
readonly VERSITYGW_VERSION=1.0.14
readonly CACHE=$LOCKSTEP_DEPS_DIR/storage/$VERSITYGW_VERSION
[[ ${1:-} == where ]] && echo "$CACHE" && exit
[[ -x $CACHE/versitygw ]] && exit

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
mkdir -p "$CACHE"
exec 9>"$CACHE/.lock"
flock 9 # another that builds the same: wait, and find it built
[[ -x $CACHE/versitygw ]] && exit
readonly BEGAN=$SECONDS
mkdir -p "$CACHE/.made"
GOBIN=$CACHE/.made go install -trimpath -ldflags "-s -w" \
  "github.com/versity/versitygw/cmd/versitygw@v$VERSITYGW_VERSION"
mv "$CACHE/.made/versitygw" "$CACHE/versitygw"
rmdir "$CACHE/.made"
echo "built versitygw in $((SECONDS - BEGAN)) s"
