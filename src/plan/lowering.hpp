// SPDX-License-Identifier: Apache-2.0
// Inside of lower_epilogue: the walk over the graph (lower*.cpp) and the recording of instructions (recorder.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/index.hpp"
#include "plan/lower.hpp"

namespace codetta::plan {

using package::Inst;
using types::Dim;
using ValueRef = uint32_t;  // index of an instruction in the recorder

// Collects instructions once each (equal ones are shared), knows in which phase each can run at the earliest, and
// finally cuts them into phases.
class Recorder {
 public:
  ValueRef add(const Inst& inst);
  ValueRef op(types::Op op, DType type, std::initializer_list<ValueRef> in, DType aux);
  ValueRef literal(DType type, uint64_t bits);
  ValueRef integer(int64_t value) { return literal(DType::i64, static_cast<uint64_t>(value)); }
  ValueRef convert(ValueRef value, DType type);  // no instruction when it is of that type
  ValueRef index_value(const Index& index);      // i64
  ValueRef size(const Dim& size);                // i64
  [[nodiscard]] DType type(ValueRef value) const { return insts_[value].type; }
  // But for what went into reductions.
  [[nodiscard]] bool reads_accumulator(ValueRef value) const { return accumulators_[value]; }

  void store(uint32_t operand, ValueRef value);
  // What a store with one rounding to `stored` may take instead of the value: of a cast to that type, what is cast.
  [[nodiscard]] ValueRef before_rounding(ValueRef value, DType stored) const;
  // Returns the value of the finished reduction, readable from the phase after its own.
  ValueRef reduce(package::Reduction reduction, ValueRef value);

  [[nodiscard]] size_t phases() const;
  [[nodiscard]] size_t reductions() const { return reductions_.size(); }
  void finish(package::EpilogueProgram& program) const;

 private:
  struct Sink {
    bool is_store = true;
    uint32_t index = 0;  // operand, or reduction
    ValueRef value = 0;
  };
  std::vector<Inst> insts_;
  std::vector<uint32_t> level_;     // earliest phase
  std::vector<bool> accumulators_;  // by instruction: whether it reads one, itself or by way of its operands
  std::map<std::tuple<int, int, int, int, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>, ValueRef> known_;
  std::vector<Sink> sinks_;
  std::vector<Dim> sizes_;  // of the program
  std::vector<package::Reduction> reductions_;
  // By value, kind, axis, mean and parts.
  std::map<std::tuple<ValueRef, package::ReduceKind, package::ReduceAxis, bool, int32_t>, uint32_t> reduced_;
};

// A value of the accumulator at one place per root element: without a split one instance, after one as many as there
// are parts.
struct Instance {
  Location at;
  ValueRef value = 0;
};

// Values of the nodes of a region, which a program of thousands of operations has many of: of the others nothing is
// kept.
template <class T>
class ByNode {
 public:
  explicit ByNode(T otherwise = T{}) : otherwise_(std::move(otherwise)) {}
  [[nodiscard]] const T& of(ir::NodeId node) const {
    const auto known = values_.find(node.index());
    return known == values_.end() ? otherwise_ : known->second;
  }
  T& operator[](ir::NodeId node) { return values_.try_emplace(node.index(), otherwise_).first->second; }
  [[nodiscard]] bool empty() const { return values_.empty(); }

 private:
  std::unordered_map<size_t, T> values_;  // its elements stay where they are
  T otherwise_;
};

// A size that is a product, and the dims that it stands for: b * s of reshape(x, (b * s, 64)).
struct TakenApart {
  Dim whole;
  std::vector<Dim> parts;
};

class Lowering {
 public:
  // `matmul`: none for a map.
  Lowering(const ir::Graph& graph, std::optional<ir::NodeId> matmul, const LoweringScope& scope)
      : graph_(graph), matmul_(matmul), scope_(scope) {}
  Result<Lowered> run();
  // `over`: the value whose space it goes over; none: that of the largest. `apart`: dims of it that have an axis for
  // each of their parts.
  Result<LoweredMap> run_map(std::optional<ir::NodeId> over = std::nullopt, std::vector<TakenApart> apart = {});
  [[nodiscard]] std::optional<ir::NodeId> failed() const { return failed_; }

 private:
  // lower.cpp
  void find_inside();
  [[nodiscard]] bool contracts() const;
  Result<void> find_roots();
  void add_arguments();
  [[nodiscard]] bool outlasts_axis(const Location& at) const;
  Result<void> store_outputs();
  Result<uint32_t> make_operand(uint32_t argument, DType dtype, const Location& at, const std::vector<Dim>& shape,
                                bool is_store, ir::NodeId node, std::optional<size_t> gathered = std::nullopt);
  Result<Location> plain_location(ir::NodeId node) const;
  [[nodiscard]] Index root(size_t from_end) const { return root_at_[root_at_.size() - 1 - from_end]; }
  // lower_values.cpp
  Result<void> lower_dependent(ir::NodeId node);
  Result<void> lower_elementwise(ir::NodeId node);
  Result<void> combine(ir::NodeId node);
  Result<ValueRef> value_at(ir::NodeId node, const Location& at);
  Result<ValueRef> load_at(size_t leaf, const Location& at);
  Result<ValueRef> gathered(ir::NodeId node, const Location& at, ValueRef index);
  // A load at `at`, whose dims that values decide are gathered; `taken`: one that `index` decides.
  Result<ValueRef> load_gathered(ir::NodeId node, size_t leaf, const Location& at, std::optional<size_t> taken,
                                 ValueRef index);
  [[nodiscard]] std::optional<Division> part_of(ir::NodeId join, const Location& at) const;
  // Parts of a join of any sizes: where the next one is needed, and what is there of all.
  [[nodiscard]] bool selects(ir::NodeId join, const Location& at) const;
  Location part_at(ir::NodeId join, size_t part, const Location& at);
  ValueRef select_part(ir::NodeId join, const Location& at, const std::vector<ValueRef>& parts);
  ValueRef choose_part(ir::NodeId join, const Index& which, const std::vector<ValueRef>& parts);
  Result<ValueRef> extent_of(ir::NodeId node, size_t dim);
  Result<ValueRef> position_value(ir::NodeId node, const Index& at);
  Result<ValueRef> emit_op(ir::NodeId node, const std::vector<ValueRef>& operands, const Location& at);
  Result<Location> operand_location(ir::NodeId node, size_t operand, const Location& at);
  [[nodiscard]] ValueRef literal_value(ir::NodeId node);
  // lower_layout.cpp
  Result<void> find_split();
  Result<void> lower_layout(ir::NodeId node);
  Result<void> need_constant_sizes(ir::NodeId node) const;
  Result<int64_t> size_of(ir::NodeId node, size_t dim) const;
  // Quotient and remainder, also by a symbolic size; nothing where they cannot be written in this form.
  [[nodiscard]] std::optional<Division> divided(const Index& index, const types::Dim& size) const;
  // Where the operand of a reshape is needed; contiguous: any reshape has an answer, in terms of whole dims.
  [[nodiscard]] std::optional<Location> reshaped(const Location& at, const std::vector<Dim>& shape,
                                                 const std::vector<Dim>& from, bool contiguous) const;
  [[nodiscard]] std::optional<Location> reshaped_elements(const Location& at, const std::vector<Dim>& shape,
                                                          const std::vector<Dim>& from, bool contiguous) const;
  // lower_reduce.cpp
  Result<void> lower_reduction(ir::NodeId node);
  [[nodiscard]] std::optional<ir::NodeId> exponents_of(ir::NodeId sum) const;
  struct Reduced;
  [[nodiscard]] Reduced reduced_axes(ir::NodeId node, const std::vector<Location>& at) const;
  [[nodiscard]] bool loses_index(ir::NodeId node) const;
  Result<void> check_reduced(ir::NodeId node, const Location& from) const;
  ValueRef prepared(ir::NodeId node, ValueRef value);
  ValueRef at_least_zero(ValueRef value, DType type);
  diag::ErrorBuilder no_axis(ir::NodeId node, const Reduced& reduced) const;
  // lower_map.cpp
  Result<ir::NodeId> find_anchor();
  Result<void> fold_root(ir::NodeId anchor);
  static bool fold(const std::vector<Dim>& shape, const std::vector<size_t>& dims, package::Axis axis, Location& at,
                   Dim& extent);
  void push_locations(ir::NodeId anchor);
  [[nodiscard]] bool covers(ir::NodeId node, const Location& from) const;
  Result<Location> reduced_at(ir::NodeId node, const Location& at);
  Result<ValueRef> reduce_here(ir::NodeId node, const Location& from, ValueRef value);

  [[nodiscard]] bool is_product(ir::NodeId node) const {
    const auto& more = scope_.more_products;
    return node == matmul_ || std::find(more.begin(), more.end(), node) != more.end();
  }
  [[nodiscard]] bool dependent(ir::NodeId node) const { return dependent_.of(node); }
  [[nodiscard]] std::optional<size_t> leaf_of(ir::NodeId node) const {
    const uint32_t leaf = leaf_.of(node);
    return leaf == UINT32_MAX ? std::nullopt : std::optional<size_t>(leaf);
  }
  [[nodiscard]] DType register_type(ir::NodeId node) const;
  [[nodiscard]] diag::ErrorBuilder reject(diag::Code code, ir::NodeId node, std::string headline) const;

  const ir::Graph& graph_;
  std::optional<ir::NodeId> matmul_;
  const LoweringScope& scope_;
  mutable std::optional<ir::NodeId> failed_;  // of reject
  Lowered result_;
  Recorder recorder_;
  mutable std::vector<bool> loses_index_, compared_;  // by node; empty until it is asked for
  std::vector<ir::NodeId> inside_;                    // leaves, outputs and all between, each behind its operands
  ByNode<bool> dependent_;
  ByNode<uint32_t> leaf_{UINT32_MAX};  // UINT32_MAX: none
  std::vector<Dim> root_shape_;        // of the product, or of a map's anchor
  Location root_at_;                   // its dims in terms of the root axes
  std::vector<TakenApart> taken_apart_;
  Dim extents_[3];                      // of the root axes: batch, rows, columns of a part
  ByNode<std::optional<Location>> at_;  // of a map: where the anchor's elements lie in it
  ByNode<std::vector<Instance>> instances_;
  std::vector<uint32_t> argument_of_input_;                  // leaf -> program argument
  std::map<std::pair<uint32_t, Location>, ValueRef> known_;  // of value_at
  int64_t batches_ = 0, rows_ = 0, cols_ = 0;                // root extents; 0 = symbolic
  int64_t chunk_ = 0;
  int32_t ways_ = 1;  // of one product
};

// Whether no two dims move along with one another.
bool independent(const Location& at);

// Aligned to the right: the location of an operand of shape `from` inside a value of shape `shape` located at `at`.
Location broadcast_location(const Location& at, const std::vector<Dim>& operand_shape);

}  // namespace codetta::plan
