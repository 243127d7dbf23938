// SPDX-License-Identifier: Apache-2.0
// Package entries of the cache: what find_kernels and emission gave for a typed program, so that another process goes
// from the bound graph straight to the binary. Passes, lowering, planning, ranking and emission are skipped.
#pragma once

#include <optional>
#include <string>

#include "driver/kernel_state.hpp"
#include "driver/program_state.hpp"
#include "toolchain/cache.hpp"

namespace codetta::driver {

struct KeptPackage {
  package::Package package;
  Ranking ranking;       // empty unless the package is of the kernel that ranks first
  size_t candidate = 0;  // which of the ranking's kernels the package is of
};

// The typed program (canonical text of the bound graph), sizes, strides, layouts and types, options, target. What a
// kind adds decides the entry: the machine and the build for packages, the processor and the compiler for tuning.
toolchain::CacheKey problem_key(toolchain::EntryKind kind, std::string_view what, const FoundState& found);

// `candidate`: nothing asks for the kernel that ranks first, whichever it is. Nothing is found or kept while a debug
// switch is on, which shows the stages of every compile.
std::optional<KeptPackage> find_package(const FoundState& found, std::optional<size_t> candidate);
void keep_package(const FoundState& found, std::optional<size_t> candidate, const KeptPackage& kept);

// The same for programs, whose plan depends on the sizes that were hinted at, and on what was measured of kernels of
// the user's.
toolchain::CacheKey program_key(const CompiledProgramState& state);

// The bytes of a ranking; nullopt for any but what encode_ranking gives.
std::string encode_ranking(const Ranking& ranking);
std::optional<Ranking> decode_ranking(std::string_view bytes, const Target& target);

}  // namespace codetta::driver
