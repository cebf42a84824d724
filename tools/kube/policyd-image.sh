#!/usr/bin/env bash
# Build the image of policyd, which enforces NetworkPolicies on a kind cluster whose own network does not, from Go
# modules and Debian's iptables and ipset. The last line is its tag, another one for each version of it. Ends with 3
# where this machine's kernel lacks what policyd needs, and with another code where something is wrong.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=environment.sh
. "$here/environment.sh"
export BASE_SUITE=$NODE_SUITE # as a node: their iptables must write rules in the same way
BASE_IMAGE=${BASE_IMAGE:-$("$here/base-image.sh" name)}
tag=lockstep-policyd:$({ echo "$BASE_IMAGE"; cat "$here/policyd-image.sh" "$here"/policyd/{main.go,go.mod,go.sum}; } | short_hash)
export DOCKER_BUILDKIT=0
say() { echo "policyd-image: $*"; }

build() {
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  say "building $tag"
  # The build takes the versions and sums of its go.mod and go.sum, and no others.
  (cd "$here/policyd"
   CGO_ENABLED=0 GOWORK=off go build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/policyd" .)
  cat > "$work/Dockerfile" <<DOCKERFILE
FROM $BASE_IMAGE
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      iptables ipset >/dev/null \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/debconf/* /var/log/*
COPY policyd /usr/local/bin/
ENTRYPOINT ["policyd"]
DOCKERFILE
  docker build -q --network host -t "$tag" "$work" >/dev/null 2>"$work/log" || { tail "$work/log" >&2; exit 1; }
}

# What the rules of kube-router's controller are made of, in a network of their own.
kernel_can() {
  docker run --rm --network none --cap-add NET_ADMIN --entrypoint sh "$tag" -ec '
    ipset create probe hash:ip timeout 0
    iptables -A INPUT -m comment --comment probe -m addrtype --dst-type LOCAL -p tcp -m multiport --dports 1:2 -j RETURN
    iptables -A FORWARD -m set --match-set probe src -m physdev --physdev-is-bridged -j MARK --set-xmark 0x1/0x1
    iptables -A FORWARD -m mark ! --mark 0x1/0x1 -m limit --limit 10/minute -j NFLOG --nflog-group 100
    iptables -A FORWARD -m conntrack --ctstate INVALID -j REJECT'
}

"$here/docker-engine.sh"
docker image inspect "$tag" >/dev/null 2>&1 || build
kernel_can || {
  code=$?
  [ $code -lt 125 ] || exit $code # the engine's own
  say "this machine's kernel lacks what the message above names" >&2
  exit 3
}
echo "$tag"
