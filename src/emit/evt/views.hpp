// SPDX-License-Identifier: Apache-2.0
// How operands lie over the accumulator's elements, and whether CUTLASS can address that.
#pragma once

#include <array>
#include <vector>

#include "emit/evt/nodes.hpp"

namespace codetta::emit::evt {

// An input, or what permutes and reshapes make of it.
struct View {
  size_t operand = 0;
  std::vector<Dim> shape, strides;
  static View of(const Problem& problem, size_t operand) {
    return {operand, problem.operands[operand].shape, problem.operands[operand].strides};
  }
};

// Strides are by row, column and batch item; 0 where there is one value for all. Errors: E0407, located at the node.
class Views {
 public:
  explicit Views(const Problem& problem) : problem_(problem) {}
  [[nodiscard]] Result<View> of(ir::NodeId node) const;
  [[nodiscard]] Result<std::array<Dim, 3>> loaded(const View& view, ir::NodeId node) const;
  // Of an output of the accumulator's shape.
  [[nodiscard]] Result<std::array<Dim, 3>> stored(size_t operand, ir::NodeId node) const;
  [[nodiscard]] Result<std::array<Dim, 3>> reduced(size_t operand, Kind kind, ir::NodeId node) const;
  // Can the collective load it as C, or store it as D: dense in one direction, the other strides multiples of 16 bytes.
  [[nodiscard]] Result<void> collective(size_t operand, const std::array<Dim, 3>& strides, ir::NodeId node) const;

 private:
  [[nodiscard]] diag::ErrorBuilder at(ir::NodeId node, std::string headline) const;
  // Of an output, in its own dims.
  [[nodiscard]] Result<void> apart(size_t operand, ir::NodeId node) const;
  [[nodiscard]] Error not_dense(size_t operand, const std::vector<Dim>& shape, const std::vector<Dim>& strides,
                                ir::NodeId node, const std::string& why) const;
  const Problem& problem_;
};

// How many elements from the start of a row (or column) on are surely together and aligned, and divide its `extent`: a
// power of 2, at most 16 bytes. `assumed` becomes true where only likely values of symbols say so.
int access_elements(const std::array<Dim, 3>& strides, const Dim& extent, int bits,
                    const std::map<std::string, int64_t>& hints, bool& assumed);
const Dim& extent_of(const Problem& problem, const std::array<Dim, 3>& strides);  // of a row, or a dense column
bool is_backward(const std::array<Dim, 3>& strides, const std::map<std::string, int64_t>& hints);  // one is negative
bool has_tma_format(DType dtype);                      // of CUTLASS's, which leave i16 out
bool is_row_major(const std::array<Dim, 3>& strides);  // consecutive columns are consecutive in memory

}  // namespace codetta::emit::evt
