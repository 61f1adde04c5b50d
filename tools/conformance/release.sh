#!/usr/bin/env bash
# Ceph clients of another release, in a folder of their own, made of Debian's or Ubuntu's packages. Needs root and mmdebstrap.
#   release.sh install SUITE ROOT [PACKAGE...]   install the clients of a suite: bullseye 14.2, bookworm 16.2, trixie 18.2, sid newer;
#                                                of Ubuntu, whose keys KEYRING names: focal 15.2, jammy 17.2, noble 19.2
#   release.sh run ROOT COMMAND...               run a command of that folder; CEPH_CONF, the working folder, the project and /tmp are seen as they are here
#   release.sh version ROOT                      the release, as `18.2.7`
# MIRROR names the archive; without it, it is the host's first one, or Ubuntu's. The host's settings for fetching packages are handed over.
# Commands run in a mount namespace of their own, so nothing stays mounted when they end.
set -euo pipefail

CLIENTS=(ceph-common python3-rados python3-rbd fio qemu-utils qemu-block-extra procps)

usage() { sed -n '2,7s/^# *//p' "$0" >&2; exit 2; }

# The archive of a suite.
mirror() {
  case $1 in
  focal | jammy | noble) echo "${MIRROR:-http://archive.ubuntu.com/ubuntu}"; return ;;
  esac
  [ -n "${MIRROR:-}" ] && { echo "$MIRROR"; return; }
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1
}

install() {
  local suite=$1 root=$2 from
  shift 2
  [ -x "$root/usr/bin/ceph" ] && return
  [ "$(id -u)" = 0 ] || { echo "release.sh: installing clients in a folder needs root" >&2; exit 3; }
  command -v mmdebstrap >/dev/null || { echo "release.sh: mmdebstrap is missing" >&2; exit 3; }
  from=$(mirror "$suite") && [ -n "$from" ] || { echo "release.sh: no archive in apt's sources; set MIRROR" >&2; exit 3; }
  settings=$(mktemp)
  trap 'rm -f "$settings"' EXIT
  apt-config dump | grep -E '^Acquire::[^ ]+ "[^"]+";$' | grep -vE '^Acquire::(IndexTargets|Changelogs|CompressionTypes|cdrom)' >"$settings" || true
  [ $# -gt 0 ] || set -- "${CLIENTS[@]}"
  rm -rf "$root"
  mkdir -p "$(dirname "$root")"
  case $from in
  */ubuntu*) set -- --components=main,universe --keyring="${KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" "$(IFS=,; echo "$*")" ;;
  *) set -- "$(IFS=,; echo "$*")" ;;
  esac
  mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$settings" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    "${@:1:$#-1}" --include="${*: -1}" "$suite" "$root" "$from" \
    || { rm -rf "$root"; echo "release.sh: $suite cannot be installed from $from" >&2; exit 3; }
}

# In a new mount namespace: the folders that commands need (the project, for its scripts), then the command.
enter() {
  local root=$1 dir
  shift
  for dir in /proc /dev /sys /tmp "$PWD" "$(dirname "${CEPH_CONF:-/tmp/x}")" "$(dirname "$0")/../.."; do
    dir=$(readlink -f "$dir")
    mkdir -p "$root$dir"
    mount --bind "$dir" "$root$dir"
  done
  exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

case ${1:-} in
install) [ $# -ge 3 ] || usage; shift; install "$@" ;;
run) [ $# -ge 3 ] || usage; root=$(readlink -f "$2"); shift 2
  exec unshare --mount --propagation private "$(readlink -f "$0")" enter "$root" "$@" ;;
enter) shift; enter "$@" ;;
version) [ $# = 2 ] || usage; chroot "$2" ceph --version | sed -E 's/.*version ([0-9.]+).*/\1/' ;;
*) usage ;;
esac
