# shellcheck shell=bash
# Sourced by the scripts beside it: which Kubernetes and which programs, and where what is built of them lies.
export K8S_VERSION=${K8S_VERSION:-1.34.4}
export ETCD_VERSION=${ETCD_VERSION:-3.6.5}
export COREDNS_VERSION=${COREDNS_VERSION:-1.12.1}
export CONTAINERD_VERSION=${CONTAINERD_VERSION:-2.2.1}
export KIND_VERSION=${KIND_VERSION:-0.30.0}
export PROVISIONER_VERSION=${PROVISIONER_VERSION:-0.0.30}
short_hash() { sha256sum | cut -c 1-8; }
LOCKSTEP_DEPS_DIR=${LOCKSTEP_DEPS_DIR:-${HOME:?HOME is not set; set LOCKSTEP_DEPS_DIR}/.cache/lockstep}
export LOCKSTEP_DEPS_DIR
# A change of any version is a new folder, so that no program is stale.
versions="$ETCD_VERSION $COREDNS_VERSION $CONTAINERD_VERSION $KIND_VERSION $PROVISIONER_VERSION"
export KUBE_CACHE=${KUBE_CACHE:-$LOCKSTEP_DEPS_DIR/kube/$K8S_VERSION-$(short_hash <<<"$versions")}

# The Debian of nodes, unless $BASE_IMAGE names an image. This machine's is none for them: systemd 257, Debian 13's,
# takes cgroups of version 1, which docker-engine.sh may have mounted, only if its command line says so.
NODE_SUITE=bookworm

# node_image FOLDER: the tag of the node image that the scripts in FOLDER make, another one for each version of them.
node_image() {
  local folder=$1
  echo "kindest/node:v$K8S_VERSION-$({
    echo "$versions ${BASE_IMAGE:-$(BASE_SUITE=$NODE_SUITE "$folder/base-image.sh" name)}"
    cat "$folder"/{control-plane.sh,node-image.sh} "$folder"/kindnetd/*
  } | short_hash)"
}
# Go: the PATH's if tools/setup found it new enough, else the one that it fetched.
[[ -x $LOCKSTEP_DEPS_DIR/go/bin/go ]] && PATH=$LOCKSTEP_DEPS_DIR/go/bin:$PATH
export PATH
