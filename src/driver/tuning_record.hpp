// SPDX-License-Identifier: Apache-2.0
// Tuning results on disk: one cache entry per problem, machine (a CPU and its threads, or a GPU and its driver),
// compiler and build of this library.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/kernel_state.hpp"

namespace codetta::driver {

struct TuningRecord {
  std::vector<std::pair<std::string, double>> medians;  // kernel name -> microseconds
  [[nodiscard]] const double* find(const std::string& kernel) const;
};

// What times of any kernel hold for beside what was timed: the machine, its driver, the compiler and this build. False:
// the GPU is not there.
bool add_tuning_machine(toolchain::CacheKey& key, ContextState& context, const Target& target);

// Empty when nothing (or nothing readable) was kept.
TuningRecord load_tuning(const FoundState& found);
void save_tuning(const FoundState& found, const TuningRecord& record);

// Replaces times of the same names, or removes them (no time), and leaves others.
using TuningChanges = std::vector<std::pair<std::string, std::optional<double>>>;
void amend_tuning(toolchain::Cache& cache, const toolchain::CacheKey& key, const TuningChanges& changes);

// "name<TAB>microseconds" lines; unreadable lines end the parse (the entry's checksum already passed).
std::string encode_tuning(const TuningRecord& record);
TuningRecord decode_tuning(std::string_view text);

}  // namespace codetta::driver
