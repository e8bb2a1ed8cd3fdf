#!/usr/bin/env bash
# What a shared library of mezzo exports is mezzo's alone, and none of its kernels.
# usage: check_symbols.sh LIBRARY
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: check_symbols.sh LIBRARY" >&2; exit 2; }

names=$(nm --dynamic --defined-only --format=posix "$1" | cut -d' ' -f1)
# The name, maybe of a table, a guard, a thunk or something in a function, begins with the namespace.
own='^_Z(T[VTISWHC]|GV|Th[n0-9]*_|Tv[n0-9]*_n?[0-9]*_)*Z?N[VKRO]*5mezzo'
if foreign=$(grep -vE "$own" <<<"$names"); then
  echo "$1 exports what is not mezzo's own:" >&2
  c++filt <<<"$foreign" >&2
  exit 1
fi
if kernels=$(grep -E '5mezzo7kernels' <<<"$names"); then
  echo "$1 exports kernels:" >&2
  c++filt <<<"$kernels" >&2
  exit 1
fi
demangled=$(c++filt <<<"$names")
for wanted in "typeinfo for mezzo::ArgumentError" "vtable for mezzo::nn::Linear"; do
  grep -qxF "$wanted" <<<"$demangled" || { echo "$1 lacks the $wanted" >&2; exit 1; }
done
# Programs that were linked to one version find no other.
soname=$(readelf --dynamic "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[[ "$soname" =~ ^libmezzo\.so\.(0\.[0-9]+|[1-9][0-9]*)$ ]] || { echo "$1 is called '$soname'" >&2; exit 1; }
echo "$1 exports $(wc -l <<<"$names") names as $soname"
