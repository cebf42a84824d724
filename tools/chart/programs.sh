#!/usr/bin/env bash
# Build the programs that check the Helm chart from Go modules, with no release download, and take the CRDs of the
# Prometheus operator from its module.
#   programs.sh          helm3, helm4, helm-unittest and the CRDs
#   programs.sh where    only print the folder in which the programs land
#   programs.sh crds     only print that of the CRDs
# What is there already is not built again. Needs Go: `tools/setup chart` sees to it.
set -euo pipefail
# shellcheck source=../kube/environment.sh
. "$(dirname "$0")/../kube/environment.sh"

# The newest that Go 1.24 builds. A change of version is a new folder, so that none is stale.
readonly HELM3_VERSION=3.19.5 HELM4_VERSION=4.0.4 UNITTEST_VERSION=1.0.3
readonly CACHE=$LOCKSTEP_DEPS_DIR/chart/$HELM3_VERSION-$HELM4_VERSION-$UNITTEST_VERSION
# With it, PodMonitors have every field that the chart may set.
readonly PROMETHEUS_OPERATOR_VERSION=0.93.0
readonly CRDS=$LOCKSTEP_DEPS_DIR/prometheus-operator-crds/$PROMETHEUS_OPERATOR_VERSION
[[ ${1:-} == where ]] && echo "$CACHE" && exit
[[ ${1:-} == crds ]] && echo "$CRDS" && exit

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
mkdir -p "$CACHE"
exec 9>"$CACHE/.lock"
flock 9 # another that builds the same: wait, and find it built

# install NAME PACKAGE@VERSION [LDFLAGS [REPLACEMENT…]]: of a throw-away module that depends on the package.
# `go install` refuses a module with replacements; what they are must be said here.
install() {
  local module=$CACHE/.module-$1 began=$SECONDS replacement
  [[ -x $CACHE/$1 ]] && return
  rm -rf "$module" && mkdir "$module"
  (
    cd "$module"
    go mod init "build/$1" 2>/dev/null
    for replacement in "${@:4}"; do go mod edit -replace "$replacement"; done
    go get -tool "$2" 2>get.log || { tail get.log >&2; exit 1; }
    go build -trimpath -ldflags "-s -w ${3:-}" -o made "${2%@*}"
  )
  mv "$module/made" "$CACHE/$1"
  rm -rf "$module"
  echo "built $1 in $((SECONDS - began)) s"
}

install helm3 "helm.sh/helm/v3/cmd/helm@v$HELM3_VERSION" \
  "-X helm.sh/helm/v3/internal/version.version=v$HELM3_VERSION -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34"
install helm4 "helm.sh/helm/v4/cmd/helm@v$HELM4_VERSION" \
  "-X helm.sh/helm/v4/internal/version.version=v$HELM4_VERSION -X helm.sh/helm/v4/pkg/chart/common.k8sVersionMajor=1 -X helm.sh/helm/v4/pkg/chart/common.k8sVersionMinor=34"
install helm-unittest "github.com/helm-unittest/helm-unittest/cmd/helm-unittest@v$UNITTEST_VERSION" "" \
  github.com/vmware-labs/yaml-jsonpath=github.com/helm-unittest/yaml-jsonpath@v0.4.0

if [[ ! -d $CRDS ]]; then
  said=$(go mod download -json "github.com/prometheus-operator/prometheus-operator@v$PROMETHEUS_OPERATOR_VERSION") ||
    { echo "$said" >&2; exit 1; }
  module=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$said")
  rm -rf "$CRDS.new" && mkdir -p "$CRDS.new"
  for kind in podmonitors servicemonitors prometheusrules; do
    cp "$module/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$CRDS.new/"
  done
  mv "$CRDS.new" "$CRDS"
fi
