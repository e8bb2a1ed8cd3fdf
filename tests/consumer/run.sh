#!/usr/bin/env bash
# Installs a build, moves it, and uses it from outside the tree.
# usage: run.sh BUILD_DIR WORK_DIR [CMAKE_OPTION...]
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: run.sh BUILD_DIR WORK_DIR [CMAKE_OPTION...]" >&2
  exit 2
fi
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root_dir=$(cd "$source_dir/../.." && pwd)
build_dir=$(cd "$1" && pwd)
mkdir -p "$2"
work_dir=$(cd "$2" && pwd)
shift 2

die() {
  echo "$*" >&2
  exit 1
}

prefix=$work_dir/prefix
rm -rf "$work_dir/first" "$prefix" "$work_dir/other"
# Where it is used is not where it was installed.
cmake --install "$build_dir" --prefix "$work_dir/first" >"$work_dir/install.log"
mv "$work_dir/first" "$prefix"
# Only the debug information of binaries may name folders.
if grep -rIlF -e "$root_dir/mezzo/" -e "$build_dir" -e "$work_dir" "$prefix"; then
  die "these files name folders of the machine that built them"
fi

# Another oneDNN lies first in the way: it is not the one that the library was built with.
mkdir -p "$work_dir/other/lib/cmake/dnnl"
echo 'message(FATAL_ERROR "mezzo takes a oneDNN that it was not built with")' \
  >"$work_dir/other/lib/cmake/dnnl/dnnl-config.cmake"
echo 'set(PACKAGE_VERSION 99.0.0)' >"$work_dir/other/lib/cmake/dnnl/dnnl-config-version.cmake"
# The installed files name no library of a card or of MPI, and are found where neither CUDA nor MPI is.
if find "$prefix" -name 'mezzo-*-targets*.cmake' -exec grep -E 'libcud|libcublas|CUDA::|MPI::|libmpi' {} +; then
  die "the installed CMake files ask for a library that is loaded, or comes along"
fi
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name mezzo.pc)") \
  "$source_dir/use.sh" "$work_dir" -DCMAKE_PREFIX_PATH="$work_dir/other;$prefix" \
  -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON "$@"

[ -x "$prefix/bin/mezzo" ] || die "the command was not installed"
"$prefix/bin/mezzo" info
# Processes without MPI find the module that was moved along.
if [ -n "$(find "$prefix" -name libmezzo-gloo.so)" ]; then
  together=(env MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 12000)) WORLD_SIZE=2)
  train=("$prefix/bin/mezzo" train --model mlp --steps 1 --quiet)
  "${together[@]}" RANK=1 "${train[@]}" &
  "${together[@]}" RANK=0 "${train[@]}"
  wait $! || die "two processes of the installed command cannot train together"
fi
for file in share/man/man1/mezzo-train.1 share/bash-completion/completions/mezzo; do
  ls "$prefix/$file"* >/dev/null || die "$file was not installed"
done
