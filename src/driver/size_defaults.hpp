// SPDX-License-Identifier: Apache-2.0
// Which sizes a library has kernels for where no hint says any. Kernels depend most on the rows of products: one row
// streams the weights, some share them, many are computed in tiles. Other sizes are usually the model's own numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "driver/size_sets.hpp"
#include "emit/host/cpp.hpp"
#include "ir/graph.hpp"
#include "package/package.hpp"

namespace codetta::driver {

// Rows without a hint are planned for as many; as plan_program() has it.
inline constexpr int64_t usual_rows = 512;
// Numbers of rows that have kernels of their own, the ones that are worth most first.
inline constexpr int64_t rows_by_worth[] = {usual_rows, 16, 1, 4096, 128};
inline constexpr int usual_programs_by_size = 3, most_programs_by_size = 5;

// Of BuildOptions. Errors: E0703.
Result<void> check_programs_by_size(int programs);

// The symbols whose product is about the number of rows of the program's products (columns, where no rows are
// symbolic), each of which has its value from an input for which `is_argument`. None where there are more than three,
// or one has a hint already.
std::vector<std::string> symbols_of_rows(const ir::Graph& graph, const SizeHints& hints,
                                         const std::function<bool(const ir::GraphInput&)>& is_argument);

// Hints for so many rows: the last symbols carry them.
SizeHints hints_for_rows(const std::vector<std::string>& symbols, int64_t rows);

struct SizesOfRows {
  std::vector<emit::host::SizeTable::Axis> axes;  // one a symbol
  // By the places on the axes, the last one fastest: which of the sorted rows that were given.
  std::vector<size_t> taken;
};
// `rows` are ascending, two or more. One row has kernels that compute no second one, so that nothing but 1 is counted
// as 1; other sizes belong to the rows that are nearest as a ratio, the product of several sizes by steps of four.
SizesOfRows sizes_of_rows(const std::vector<std::string>& symbols, const std::vector<int64_t>& rows);

// Whether the same kernels run in the same order: what else differs is where temporaries lie.
bool same_kernels(const package::Package& a, const package::Package& b);

// What a build compiles for one function. Further programs may double it, no more.
class BuildShare {
 public:
  void add(const package::Package& package);
  // What is there now is what may be doubled.
  void begin() { kernels_at_first_ = kernels_.size(), programs_at_first_ = programs_; }
  [[nodiscard]] bool takes(const package::Package& package) const;

 private:
  std::vector<std::string> kernels_;  // names, each once
  size_t programs_ = 0, launches_ = 0, kernels_at_first_ = 0, programs_at_first_ = 0;
};

// "mlp: n = 1; n = 64": of hinted sizes.
std::string sets_text(const std::string& function, const std::vector<SizeHints>& sets);
// "mlp: n = 1, 16 (to 90), 512 (and more)", "block: b * s = 1, 16, 512 (and more)".
std::string rows_text(const std::string& function, const std::vector<std::string>& symbols,
                      const std::vector<int64_t>& rows);

}  // namespace codetta::driver
