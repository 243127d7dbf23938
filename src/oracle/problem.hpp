// SPDX-License-Identifier: Apache-2.0
// A graph with its inputs and concrete sizes, and which dims of which values run over the same index, so that a part of
// the problem can be evaluated alone.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>

#include "ir/bind.hpp"
#include "oracle/block.hpp"
#include "oracle/oracle.hpp"
#include "oracle/pulse.hpp"

namespace codetta::oracle {

using AxisClass = uint32_t;

struct Problem {
  const ir::Graph* graph = nullptr;
  std::span<const OracleInput> inputs;  // none of a graph inside of another: it gets blocks
  OracleOptions options;
  std::vector<Sizes> sizes;                  // by node
  std::vector<std::vector<AxisClass>> axes;  // by node and dim; equal classes run over the same index
  std::array<Accuracy, types::all_ops().size()> f32_accuracy{}, f64_accuracy{};
  bool wide = false;  // computes in f64 somewhere
  ir::SymbolBindings symbols;
  std::shared_ptr<Pulse> pulse;  // shared with the graphs inside

  [[nodiscard]] const Sizes& size(ir::NodeId id) const { return sizes[id.index()]; }
};

// Errors: as evaluate().
Result<Problem> make_problem(const ir::Graph& graph, std::span<const OracleInput> inputs, const OracleOptions& options);
// What a graph of one output computes: one integer, which lies in low..high; why nothing is known of it where `note`
// says so.
struct SizeRange {
  int64_t low = 0, high = 0;
  std::string note;
};
using SizeOf = std::function<Result<SizeRange>(const ir::Graph& alone, const ir::SymbolBindings& known)>;
// The values of symbols that values of the graph give, behind those of `known` that are known in front of it
// (sizes.cpp). `size_of` evaluates one of them, with the sizes that it rests on. Errors: as evaluate().
Result<void> add_sizes(const ir::Graph& graph, const OracleOptions& options, const SizeOf& size_of,
                       ir::SymbolBindings& known);
// Slices whose bounds come from values lie inside of their dims. Errors: E0610.
Result<void> check_slices(const ir::Graph& graph, const ir::SymbolBindings& symbols);

// Of a graph inside of a node of `outer`, whose symbols it shares; `symbols` has its own, too.
Result<Problem> make_child_problem(const ir::Graph& graph, const Problem& outer, ir::SymbolBindings symbols);

// The classes that can't be sampled for an output: something that it needs mixes their indices.
std::vector<bool> mixed_classes(const Problem& problem, ir::NodeId root);

using Picks = std::map<AxisClass, IndexList>;
Axes axes_of(const Problem& problem, ir::NodeId node, const Picks& picks);
// Multiply-adds, plus 64 for an element of a value, of evaluating `roots` under `picks`. What is read in parts counts
// for each product that reads it.
double work_of(const Problem& problem, std::span<const ir::NodeId> roots, const Picks& picks);

// By node: tensors of more than this many elements, also permuted and sliced, that only products read. These load them
// a slice of K at a time, so that of an operand no more is held (40 bytes an element) than this, or than the result
// has.
inline constexpr int64_t part_elements = int64_t{1} << 22;
std::vector<bool> read_in_parts(const Problem& problem, std::span<const ir::NodeId> roots, const Picks& picks);

// One pass: the roots' values. Receives each as a row-major range of cells after the conversion to the stored dtype.
struct PassOutput {
  size_t output = 0;  // of the graph
  Axes axes;
  std::vector<ExpectedElement> elements;
  bool given = false;  // as of ExpectedOutput
};
template <class T>
Result<std::vector<PassOutput>> run_pass(const Problem& problem, std::span<const size_t> outputs, const Picks& picks);
extern template Result<std::vector<PassOutput>> run_pass<double>(const Problem&, std::span<const size_t>, const Picks&);
extern template Result<std::vector<PassOutput>> run_pass<long double>(const Problem&, std::span<const size_t>,
                                                                      const Picks&);

}  // namespace codetta::oracle
