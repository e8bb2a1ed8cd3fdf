#!/usr/bin/env bash
# Builds a program against an installed mezzo and runs it: by CMake and by pkg-config, with the static library and,
# if there is one, with the shared one. Both tools must find mezzo, by PKG_CONFIG_PATH and CMAKE_PREFIX_PATH if it
# is not the system's.
# usage: use.sh WORK_DIR [CMAKE_OPTION...]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: use.sh WORK_DIR [CMAKE_OPTION...]" >&2; exit 2; }
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
work_dir=$(cd "$1" && pwd)
shift
options=("$@")
compiler=c++
for option in "$@"; do
  [[ "$option" == -DCMAKE_CXX_COMPILER=* ]] && compiler=${option#*=}
done

die() {
  echo "$*" >&2
  exit 1
}

rm -rf "$work_dir/source" "$work_dir"/by-*
mkdir -p "$work_dir/source"
cp "$source_dir/CMakeLists.txt" "$source_dir/main.cpp" "$work_dir/source/"
# Every header that is installed can be included, but for parts of others.
(cd "$(pkg-config --variable=includedir mezzo)" &&
  find mezzo -name '*.h' ! -name '*-inl.h' -printf '#include "%p"\n' | sort) \
  >"$work_dir/source/headers.cpp"

# runs_with FORM PROGRAM: runs it, and sees that it takes the shared library if that was asked for, and no other.
runs_with() {
  local form=static
  "$2"
  readelf --dynamic "$2" | grep -q 'NEEDED.*libmezzo\.so' && form=shared
  [ "$form" = "$1" ] || die "$2 was to be $1, but is $form"
}

# configure NAME [CMAKE_OPTION...]: the project above, in by-NAME.
configure() {
  local name=$1
  shift
  cmake -S "$work_dir/source" -B "$work_dir/by-$name" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    ${options[@]+"${options[@]}"} "$@"
}

by_cmake() {
  configure "cmake-$1" -DMEZZO_FORM="$1"
  cmake --build "$work_dir/by-cmake-$1"
  runs_with "$1" "$work_dir/by-cmake-$1/consumer"
}

# What pkg-config says is divided into words. A linker that sees both libraries takes the shared one, unless told.
# shellcheck disable=SC2046
by_pkg_config() {
  local program=$work_dir/by-pkg-config-$1 flags=()
  [ "$1" = shared ] || flags=(--static)
  "$compiler" -std=c++20 "$work_dir/source/main.cpp" -o "$program" $(pkg-config --cflags mezzo) \
    $(pkg-config ${flags[@]+"${flags[@]}"} --libs mezzo | sed "s/-lmezzo/-l:libmezzo.$2/") \
    -Wl,-rpath,"$(pkg-config --variable=libdir mezzo)"
  runs_with "$1" "$program"
}

by_cmake static
by_pkg_config static a
library=$(pkg-config --variable=libdir mezzo)/libmezzo.so
if [ -e "$library" ]; then
  "$source_dir/check_symbols.sh" "$library"
  by_cmake shared
  by_pkg_config shared so
elif configure missing -DMEZZO_FORM=shared >"$work_dir/by-missing.log" 2>&1; then
  die "find_package(mezzo COMPONENTS shared) finds one where there is none"
fi
