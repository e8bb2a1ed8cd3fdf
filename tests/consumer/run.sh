#!/usr/bin/env bash
# Installs a build and uses it from a project outside the tree.
# usage: run.sh BUILD_DIR WORK_DIR [CMAKE_OPTION...]
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: run.sh BUILD_DIR WORK_DIR [CMAKE_OPTION...]" >&2
  exit 2
fi
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build_dir=$1
work_dir=$2
shift 2

rm -rf "$work_dir/prefix" "$work_dir/build" "$work_dir/source" "$work_dir/other"
mkdir -p "$work_dir/source" "$work_dir/other/lib/cmake/dnnl"
cp "$source_dir/CMakeLists.txt" "$source_dir/main.cpp" "$work_dir/source/"

cmake --install "$build_dir" --prefix "$work_dir/prefix"
# Every header that is installed can be included.
(cd "$work_dir/prefix/include" && find mezzo -name '*.h' -printf '#include "%p"\n' | sort) \
  >"$work_dir/source/headers.cpp"
# Another oneDNN lies first in the way: it is not the one that the library was built with.
echo 'message(FATAL_ERROR "mezzo takes a oneDNN that it was not built with")' \
  >"$work_dir/other/lib/cmake/dnnl/dnnl-config.cmake"
echo 'set(PACKAGE_VERSION 99.0.0)' >"$work_dir/other/lib/cmake/dnnl/dnnl-config-version.cmake"
work_dir=$(cd "$work_dir" && pwd)
# The installed files name no library of a card or of MPI, and are found where neither CUDA nor MPI is.
if grep -E 'libcud|libcublas|CUDA::|MPI::|libmpi' "$work_dir"/prefix/lib*/cmake/mezzo/mezzo-targets*.cmake \
  "$work_dir"/prefix/lib/*/cmake/mezzo/mezzo-targets*.cmake 2>/dev/null; then
  echo "the installed CMake files ask for a library that is loaded, or comes along" >&2
  exit 1
fi
cmake -S "$work_dir/source" -B "$work_dir/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work_dir/other;$work_dir/prefix" \
  -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON "$@"
cmake --build "$work_dir/build"
"$work_dir/build/consumer"

if [ ! -x "$work_dir/prefix/bin/mezzo" ]; then
  echo "the command was not installed" >&2
  exit 1
fi
"$work_dir/prefix/bin/mezzo" info
