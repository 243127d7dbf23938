#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Units of the numerics matrix on NEON, others for each commit: emitted by neon_cases, cross-compiled, run by the emulator.
# Usage: slice.sh <cross compiler> <emulator> <neon_cases> <work folder> <-I...> <object...>
set -eu
compiler=$1 emulator=$2 cases=$3 work=$4
shift 4
here="$(dirname "$0")"
commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || echo no-git)
rm -rf "$work"
mkdir -p "$work"
"$cases" --units "$commit" 19 "$work"
xargs -P "$(nproc)" -I{} "$compiler" "@$work/{}.rsp" -Dcodetta_epilogue=codetta_epilogue_{} \
  -Dcodetta_entry_digest=codetta_entry_digest_{} -c "$work/{}.cpp" -o "$work/{}.o" <"$work/names"
"$compiler" -std=c++20 -O1 -ffp-contract=off -static "-I$work" "$here/epilogues_test.cpp" "$@" "$work"/*.o -o "$work/slice" -pthread
"$emulator" "$work/slice"
