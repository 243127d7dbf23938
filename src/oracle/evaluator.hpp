// SPDX-License-Identifier: Apache-2.0
// Evaluates the nodes that some outputs need, one after the other over flat arrays; a value is dropped after its last
// use.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "ir/analyses.hpp"
#include "oracle/problem.hpp"
#include "oracle/real_ops.hpp"

namespace codetta::oracle {

constexpr int64_t elements_at_once = int64_t{1} << 14;  // between two questions whether to go on

// Calls visit(i, offset) for each element i of a space of `sizes`, with the row-major offset of the operand that
// broadcasts to it. `goes_on(elements)` is asked in front of so many of one row; where it says no they are left out.
template <size_t N, class Visit, class GoesOn>
void for_each_broadcast(const Sizes& sizes, const std::array<Sizes, N>& operands, Visit&& visit, GoesOn&& goes_on) {
  std::array<Sizes, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = broadcast_strides(operands[k], sizes.size());
  const int64_t inner = sizes.empty() ? 1 : sizes.back();
  for_each_row(sizes, [&](int64_t position, const Sizes& at) {
    std::array<size_t, N> offset{}, step{};
    for (size_t k = 0; k < N; ++k) {
      int64_t base = 0;
      for (size_t d = 0; d + 1 < sizes.size(); ++d) base += at[d] * strides[k][d];
      offset[k] = static_cast<size_t>(base);
      step[k] = sizes.empty() ? 0 : static_cast<size_t>(strides[k].back());
    }
    for (int64_t from = 0; from < inner; from += elements_at_once) {
      const int64_t to = std::min(inner, from + elements_at_once);
      if (!goes_on(to - from)) return;
      for (int64_t i = from; i < to; ++i) {
        visit(static_cast<size_t>(position + i), offset);
        for (size_t k = 0; k < N; ++k) offset[k] += step[k];
      }
    }
  });
}
template <size_t N, class Visit>
void for_each_broadcast(const Sizes& sizes, const std::array<Sizes, N>& operands, Visit&& visit) {
  for_each_broadcast<N>(sizes, operands, std::forward<Visit>(visit), [](int64_t) { return true; });
}

template <class T>
class Evaluator {
 public:
  Evaluator(const Problem& problem, const Picks& picks)
      : problem_(problem), graph_(*problem.graph), picks_(picks), blocks_(graph_.size()) {}

  Result<void> run(std::span<const ir::NodeId> roots);
  // Of a graph inside of another: the values of its inputs, in order, instead of the problem's.
  void give(std::vector<Block<T>> inputs) { given_ = std::move(inputs); }
  [[nodiscard]] const Block<T>& block(ir::NodeId id) const { return blocks_[id.index()]; }

 private:
  void evaluate(ir::NodeId id);
  // A tensor as nodes see it that read it permuted or sliced.
  struct Strided {
    const unsigned char* data = nullptr;
    DType dtype = DType::f32;
    Sizes strides;
  };
  [[nodiscard]] Strided strided(ir::NodeId id) const;
  void load(ir::NodeId id, Block<T>& out);  // an input, or what permutes and slices it
  void load_literal(ir::NodeId id, Block<T>& out);
  void count_index(ir::NodeId id, Block<T>& out);
  void elementwise_real(ir::NodeId id, Block<T>& out);  // evaluator_elementwise.hpp
  void elementwise_int(ir::NodeId id, Block<T>& out);
  void compare(ir::NodeId id, Block<T>& out);  // evaluator_compare.hpp
  struct Related;
  [[nodiscard]] Related related(ir::NodeId id) const;
  [[nodiscard]] ir::NodeId origin(ir::NodeId id) const;
  // By element of `id`: which one of `from` it is, of which it is a view.
  [[nodiscard]] std::vector<int64_t> places(ir::NodeId id, ir::NodeId from) const;
  // What a comparison reads beside its operands.
  [[nodiscard]] std::optional<ir::NodeId> also_read(ir::NodeId id) const;
  void select(ir::NodeId id, Block<T>& out);
  void cast(ir::NodeId id, Block<T>& out);
  void dropout(ir::NodeId id, Block<T>& out);
  void layout(ir::NodeId id, Block<T>& out);  // evaluator_layout.hpp
  void layout(ir::NodeId id, const std::function<const Block<T>&(size_t operand, Block<T>& room)>& operand,
              Block<T>& out) const;
  void reduce(ir::NodeId id, Block<T>& out);   // evaluator_reduce.hpp
  void indexed(ir::NodeId id, Block<T>& out);  // evaluator_indexed.hpp
  void control(ir::NodeId id, Block<T>& out);  // evaluator_control.hpp
  void external(ir::NodeId id, Block<T>& out);
  Result<std::vector<Block<T>>> run_child(const ir::Graph& child, const std::vector<Block<T>>& inputs);
  Result<std::vector<Block<T>>> run_with(const ir::Graph& child, const std::vector<Block<T>>& inputs,
                                         ir::SymbolBindings symbols);
  Result<std::vector<Block<T>>> run_cond(ir::NodeId id);
  Result<std::vector<Block<T>>> run_while(ir::NodeId id);
  Result<std::vector<Block<T>>> run_external(ir::NodeId id);
  std::vector<int64_t> index_range(ir::NodeId id, size_t position, int64_t size);
  void set_results(ir::NodeId id, Result<std::vector<Block<T>>> results, Block<T>& out);
  void matmul(ir::NodeId id, Block<T>& out);  // evaluator_matmul.hpp
  void matmul_real(ir::NodeId a, ir::NodeId b, int64_t step, Block<T>& out);
  void matmul_int(ir::NodeId a, ir::NodeId b, int64_t step, Block<T>& out);
  // visit(slice of A, slice of B), `step` steps along K at a time; at least once.
  template <class Visit>
  void for_each_slice(ir::NodeId a, ir::NodeId b, int64_t step, Visit&& visit);
  // Indices from..to of `dim` of a value that is read in parts.
  void load_part(ir::NodeId id, size_t dim, int64_t from, int64_t to, Block<T>& part);

  // The operand's values in `dtype`: the block itself where nothing changes, else a converted copy in `room`.
  const Block<T>& as(ir::NodeId operand, DType dtype, Block<T>& room) const;
  // So many more elements of a value are to be evaluated. False: it was stopped, and what is left of the value does not
  // matter, since run() tells.
  [[nodiscard]] bool goes_on(int64_t elements) const { return problem_.pulse->beats(64 * elements); }
  // Of a row's elements, asked in front of each.
  [[nodiscard]] bool goes_on_at(int64_t element, int64_t row) const {
    return element % elements_at_once != 0 || goes_on(std::min(row - element, elements_at_once));
  }
  // visit(from, to) of parts of 0..count, and for_each_broadcast(), while goes_on().
  template <class Visit>
  void each_part(size_t count, Visit&& visit) const {
    constexpr auto step = static_cast<size_t>(elements_at_once);
    for (size_t from = 0; from < count; from += step) {
      const size_t to = std::min(count, from + step);
      if (!goes_on(static_cast<int64_t>(to - from))) return;
      visit(from, to);
    }
  }
  template <size_t N, class Visit>
  void each_element(const Sizes& sizes, const std::array<Sizes, N>& operands, Visit&& visit) const {
    for_each_broadcast<N>(sizes, operands, std::forward<Visit>(visit), [this](int64_t n) { return goes_on(n); });
  }
  [[nodiscard]] RealContext context(ir::Op op, DType dtype) const {
    const auto at = static_cast<size_t>(op);
    return {dtype, dtype == DType::f32 ? problem_.f32_accuracy[at] : problem_.f64_accuracy[at],
            problem_.options.contraction};
  }

  const Problem& problem_;
  const ir::Graph& graph_;
  const Picks& picks_;
  std::vector<Block<T>> blocks_;
  std::vector<bool> in_parts_;  // by node: its block has axes alone
  std::vector<Block<T>> given_;
  std::map<uint32_t, std::vector<Block<T>>> results_;  // further ones, by node
  std::optional<Error> failure_;                       // the first
};

}  // namespace codetta::oracle
