// SPDX-License-Identifier: Apache-2.0
// The passes, and the runner that verifies, times and dumps between them. A pass changes no result: integers stay bit
// for bit, and floats keep the values that docs/semantics.md admits.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opt/rewrite.hpp"

namespace codetta::opt {

// What fired in a pass, by rule of its table.
struct Fired {
  std::string_view rule, equation;
  uint32_t count = 0;
};

// Of programs: a graph around one product of two inputs, as an epilogue has it, stays as it is.
Result<ir::Graph> reduce_products(const ir::Graph& graph, std::vector<Fired>& fired);
Result<ir::Graph> fold_constants(const ir::Graph& graph, std::vector<Fired>& fired);
Result<ir::Graph> simplify_algebra(const ir::Graph& graph, std::vector<Fired>& fired);
Result<ir::Graph> eliminate_layout(const ir::Graph& graph, std::vector<Fired>& fired);
// Equal nodes, also with swapped operands of commutative ops.
Result<ir::Graph> eliminate_common_subexpressions(const ir::Graph& graph, std::vector<Fired>& fired);
// Nodes that no output needs; inputs stay.
Result<ir::Graph> eliminate_dead_code(const ir::Graph& graph, std::vector<Fired>& fired);

// Reshapes that mix dims of symbolic sizes go by way of one dim, whose elements can be counted wherever they lie.
Result<ir::Graph> merge_mixed_dims(const ir::Graph& graph, std::vector<Fired>& fired);

// Properties that hold from the pass that establishes them on.
enum Property : uint8_t {
  folded = 1,
  simplified = 2,
  layouts_met = 4,
  no_common_subexpressions = 8,
  no_dead_code = 16,
  products_reduced = 32
};

struct Pass {
  std::string_view name;
  Result<ir::Graph> (*run)(const ir::Graph& graph, std::vector<Fired>& fired);
  uint8_t needs, establishes;
};
inline constexpr Pass all_passes[] = {
    {"reduce_products", reduce_products, 0, products_reduced},
    {"fold_constants", fold_constants, 0, folded},
    {"simplify_algebra", simplify_algebra, folded, simplified},
    {"eliminate_layout", eliminate_layout, simplified, layouts_met},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 0, no_common_subexpressions},
    {"eliminate_dead_code", eliminate_dead_code, 0, no_dead_code},
    {"merge_mixed_dims", merge_mixed_dims, simplified, 0},
};

struct RunOptions {
  std::string stop_after;         // the last pass to run
  std::vector<std::string> skip;  // passes to leave out; later ones then run without what they establish
  bool dump = false;
  bool verify = true;
};
struct PassRecord {
  std::string_view name;
  bool skipped = false, changed = false;
  double microseconds = 0;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<Fired> fired;  // count > 0 only
  std::string dump;          // the graph, or "(unchanged)"; empty unless asked for
};
struct Optimized {
  ir::Graph graph;
  std::vector<PassRecord> passes;
};
// Graphs inside of nodes (branches, loops) are run through the same passes first; the records are of the graph itself.
// Errors: E0901 a pass name that is not known (stop_after, skip), or a pass that broke the graph (naming it).
Result<Optimized> optimize(const ir::Graph& graph, const RunOptions& options = {});

}  // namespace codetta::opt
