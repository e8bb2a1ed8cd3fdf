#!/usr/bin/env bash
# Installs Debian packages of mezzo, builds programs against them, and removes them without a trace: in a copy of
# this system in memory, which is gone afterwards. It takes root. All that mezzo is built with is removed from the
# copy first, so that a dependency which the packages do not name shows; apt gets it again from its archive.
# usage: check.sh FOLDER    of *.deb
set -euo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root_dir=$(cd "$source_dir/../.." && pwd)
work=/tmp/mezzo-packages  # in the copy

say() { printf 'check: %s\n' "$*"; }
die() {
  printf 'check: %s\n' "$*" >&2
  exit 1
}

# What packages may leave a trace in, and how it looks; the lists and logs of dpkg and apt are theirs.
snapshot() {
  find /bin /etc /lib* /opt /sbin /srv /usr /var \( -path /var/lib/dpkg -o -path /var/lib/apt \
    -o -path /var/log -o -path /var/cache \) -prune -o ! -path /etc/ld.so.cache -printf '%p %M %u %l\n' | sort
}

apt() { env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>"$work/apt.log"; }

check_files() {
  local package
  for package in "${names[@]}"; do
    # The binaries, too: these are not built for a debugger.
    if dpkg --listfiles "$package" | while read -r file; do
      [ ! -f "$file" ] || grep -laF -e "$root_dir/mezzo/" -e "$root_dir/build/" "$file" || true
    done | grep .; then
      die "these files of $package name folders of the machine that built them"
    fi
  done
}

check_command() {
  mezzo --version
  mezzo train --steps 2 --batch-size 8 --quiet >/dev/null
  if command -v man >/dev/null; then
    man --where mezzo-train
  fi
  bash -c 'source /usr/share/bash-completion/completions/mezzo; COMP_WORDS=(mezzo tr); COMP_CWORD=1; _mezzo
    [ "${COMPREPLY[*]}" = train ]' || die "bash does not complete: mezzo tr"
}

inside() {
  export HOME=$work CCACHE_DISABLE=1
  mapfile -t names < <(for file in "$work"/*.deb; do dpkg-deb --field "$file" Package; done)
  say "removing what mezzo is built with"
  local built_with
  mapfile -t built_with < <("$root_dir/run" packages | grep -E '^(lib|nlohmann|ocl)' | while read -r package; do
    dpkg-query -W -f='${Package}\n' "$package" 2>/dev/null || true
  done)
  apt purge --auto-remove "${built_with[@]}"
  say "installing ${names[*]}, and what they depend on"
  apt install --no-install-recommends "$work"/*.deb
  dpkg --purge "${names[@]}" >/dev/null
  snapshot >"$work/before"

  dpkg --install "$work"/*.deb >/dev/null
  check_files
  check_command
  "$source_dir/../consumer/use.sh" "$work/programs" >"$work/use.log" 2>&1 || { cat "$work/use.log"; die "no program"; }
  grep -E 'works|exports' "$work/use.log"
  local shared=$work/programs/by-cmake-shared/consumer
  if [ -e "$shared" ]; then
    dpkg --purge libmezzo-dev mezzo >/dev/null
    "$shared" || die "the program does not run with the shared library's package alone"
  fi

  dpkg --purge "${names[@]}" >/dev/null 2>&1
  snapshot >"$work/after"
  diff "$work/before" "$work/after" || die "this is left, or gone"
  if find /bin /etc /lib* /opt /sbin /srv /usr /var -path /var/cache -prune -o -name '*mezzo*' -print | grep .; then
    die "these are left"
  fi
  say "installed, used and removed without a trace: ${names[*]}"
}

# A copy of the system that keeps what is changed in memory.
outside() {
  local packages=$1 copy
  [ "$(id -u)" -eq 0 ] || die "this takes root, for chroot"
  ls "$packages"/*.deb >/dev/null || die "there is no package in $packages"
  copy=$(mktemp -d)
  # The mounts are seen by these processes only, and end with them.
  # shellcheck disable=SC2016
  unshare --mount bash -euc 'copy=$1 packages=$2 work=$3 script=$4
    mount -t tmpfs tmpfs "$copy"
    mkdir "$copy/changes" "$copy/work" "$copy/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$copy/changes,workdir=$copy/work" "$copy/root"
    mount -t proc proc "$copy/root/proc"
    mount --rbind /dev "$copy/root/dev"
    rm -rf "$copy/root$work"
    mkdir -p "$copy/root$work"
    cp "$packages"/*.deb "$copy/root$work/"
    chroot "$copy/root" "$script" --inside' bash "$copy" "$packages" "$work" "$source_dir/check.sh"
  rmdir "$copy"
}

case "${1:-}" in
  --inside) inside ;;
  "" | -*)
    echo "usage: check.sh FOLDER" >&2
    exit 2
    ;;
  *) outside "$1" ;;
esac
