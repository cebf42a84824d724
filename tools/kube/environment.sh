# shellcheck shell=bash
# Sourced by the scripts beside it: which Kubernetes, and where what is built of it lies.
export K8S_VERSION=${K8S_VERSION:-1.34.4}
LOCKSTEP_DEPS_DIR=${LOCKSTEP_DEPS_DIR:-${HOME:?HOME is not set; set LOCKSTEP_DEPS_DIR}/.cache/lockstep}
export LOCKSTEP_DEPS_DIR
export KUBE_CACHE=${KUBE_CACHE:-$LOCKSTEP_DEPS_DIR/kube/$K8S_VERSION}
# Go: the PATH's if tools/setup found it new enough, else the one that it fetched.
[[ -x $LOCKSTEP_DEPS_DIR/go/bin/go ]] && PATH=$LOCKSTEP_DEPS_DIR/go/bin:$PATH
export PATH
