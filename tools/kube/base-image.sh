#!/usr/bin/env bash
# The Debian image that images are made of, unless $BASE_IMAGE names another one: that of this machine's release,
# since programs need the C library that they were linked with. On any other system, Debian 12's. $BASE_SUITE names
# another release, bookworm or trixie, and $DEBIAN_MIRROR where debootstrap takes packages from.
#   base-image.sh name  print its name
#   base-image.sh make  make it from packages, without a registry; needs root, debootstrap and a Docker engine
set -euo pipefail

usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
[ $# = 1 ] || usage
codename=$(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${VERSION_CODENAME:-}") || true
suite=${BASE_SUITE:-$codename}
case $suite in
  bookworm | trixie) ;;
  *) [ -z "${BASE_SUITE:-}" ] || { echo "base-image: found BASE_SUITE=$suite, expected bookworm or trixie" >&2; exit 2; }
    suite=bookworm ;;
esac
name=debian:$suite-slim

# apt ROOT ARGUMENT…: the apt-get in that folder. By default an update that reaches no server is none that fails.
apt() { DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get -o APT::Update::Error-Mode=any -o Acquire::Retries=3 "${@:2}"; }

make_image() {
  local root file updates=no
  root=$(mktemp -d)
  chmod 755 "$root" # it becomes the image's /
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$root' '$root.log'" EXIT
  debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$root.log" || { tail "$root.log" >&2; exit 1; }
  printf 'path-exclude=/usr/share/%s/*\n' doc man info locale lintian > "$root/etc/dpkg/dpkg.cfg.d/slim"
  # Security updates too, where this machine is of the same release and takes them: debootstrap installs none, and
  # packages of this image end up in those that are made of it.
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ "$suite" = "$codename" ] && [ -f "$file" ] || continue
    install -D -m 644 "$file" "$root$file"
    updates=yes
  done
  if [ $updates = yes ]; then
    # What the sources may name: lists of mirrors, and servers that are asked by https. They stay: packages are
    # installed into images that are made of this one.
    for file in /etc/apt/mirrors/*.list /etc/ssl/certs/ca-certificates.crt; do
      [ ! -f "$file" ] || install -D -m 644 "$file" "$root$file"
    done
    { apt "$root" update && apt "$root" upgrade --yes; } >"$root.log" 2>&1 || {
      tail "$root.log" >&2
      echo "base-image: warning: the packages of $name, and of images that are made of it, lack updates:" \
        "apt cannot take them from this machine's sources (above)" >&2
    }
  fi
  # what the slim images leave out
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,info,locale,lintian}/*
  tar -C "$root" -c . | docker import --change 'CMD ["bash"]' - "$name" >/dev/null
}

case $1 in
  name) echo "$name" ;;
  make) make_image ;;
  *) usage ;;
esac
