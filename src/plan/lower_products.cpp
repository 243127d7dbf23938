// SPDX-License-Identifier: Apache-2.0
// Products of one A whose numbers of columns differ, as one program: each is lowered as if it were alone, and then the
// programs become one, in which all have their tables together and each has a root space.
#include <algorithm>
#include <cassert>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "plan/lower.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Inst;
using types::Dim;

namespace {

// One product's part of the scope. All of its leaves, so that arguments are the same in all parts.
struct Part {
  NodeId product;
  LoweringScope scope;
  std::vector<size_t> outputs;  // of the whole scope
};

class Merger {
 public:
  explicit Merger(size_t leaves, const LoweringScope& scope) : leaves_(leaves) {
    for (size_t i = 0; i < leaves + scope.outputs.size(); ++i)
      whole_.argument_input.push_back(static_cast<uint32_t>(i));
    whole_.program.arguments.resize(leaves + scope.outputs.size());
    whole_.program.phases = {package::Phase{package::Scope::Tile, false, {}, {}}};
  }

  // `columns`: of the product.
  void add(const Part& part, const package::EpilogueProgram& own, const Dim& columns) {
    package::EpilogueProgram& all = whole_.program;
    all.accumulator = own.accumulator;
    all.split = own.split;
    all.contracts = all.contracts && own.contracts;
    const auto argument = [&](uint32_t index) {
      return index < leaves_ ? index : static_cast<uint32_t>(leaves_ + part.outputs[index - leaves_]);
    };
    for (uint32_t i = 0; i < own.arguments.size(); ++i) all.arguments[argument(i)] = own.arguments[i];
    const auto first_operand = static_cast<uint32_t>(all.operands.size());
    for (package::Operand operand : own.operands) {
      operand.argument = argument(operand.argument);
      all.operands.push_back(std::move(operand));
    }
    package::Phase& phase = all.phases[0];
    const auto first = static_cast<uint32_t>(phase.insts.size());
    const uint32_t own_columns = size(columns);
    for (Inst inst : own.phases[0].insts) {
      for (uint8_t a = 0; a < inst.arity; ++a) inst.in[a] += first;
      if (inst.kind == Inst::Kind::Load || inst.kind == Inst::Kind::LoadAt) inst.index += first_operand;
      if (inst.kind == Inst::Kind::Scalar) inst.index = argument(inst.index);
      if (inst.kind == Inst::Kind::Extent && inst.index >= 2)
        inst.index = 3 + (inst.index == 2 ? own_columns : size(own.sizes[inst.index - 3]));
      phase.insts.push_back(inst);
    }
    phase.reads_accumulator = phase.reads_accumulator || own.phases[0].reads_accumulator;
    for (const package::Store& store : own.phases[0].stores)
      phase.stores.push_back({first_operand + store.operand, first + store.value});
    all.spaces.push_back({own_columns, static_cast<uint32_t>(own.phases[0].stores.size())});
  }
  Lowered take() && { return std::move(whole_); }

 private:
  uint32_t size(const Dim& dim) {
    std::vector<Dim>& sizes = whole_.program.sizes;
    const auto known = std::find(sizes.begin(), sizes.end(), dim);
    const auto at = static_cast<uint32_t>(known - sizes.begin());
    if (known == sizes.end()) sizes.push_back(dim);
    return at;
  }

  Lowered whole_;
  size_t leaves_;
};

// Of the products those that a value of the kernel is computed from.
std::set<NodeId> products_of(const ir::Graph& graph, NodeId value, const std::vector<NodeId>& products,
                             const LoweringScope& scope) {
  std::set<NodeId> found, seen;
  std::vector<NodeId> open{value};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (std::find(products.begin(), products.end(), node) != products.end()) {
      found.insert(node);
      continue;
    }
    if (std::any_of(scope.leaves.begin(), scope.leaves.end(),
                    [&](const LoweringScope::Leaf& leaf) { return leaf.node == node; }))
      continue;
    for (const NodeId operand : graph.operands(node)) open.push_back(operand);
  }
  return found;
}

// Every element of an output is stored by the tile that has its row and column: no store is owed where others of the
// products have no columns.
bool lies_in_tiles(const package::EpilogueProgram& program) {
  return std::all_of(program.phases[0].stores.begin(), program.phases[0].stores.end(), [&](const auto& store) {
    const auto& terms = program.operands[store.operand].terms;
    const auto along = [&](package::Axis axis) {
      return std::any_of(terms.begin(), terms.end(), [&](const auto& term) { return term.axis == axis; });
    };
    return along(package::Axis::Row) && along(package::Axis::Col);
  });
}

}  // namespace

Result<Lowered> lower_products(const ir::Graph& graph, const std::vector<NodeId>& products, const LoweringScope& scope,
                               NodeId* failed) {
  const auto no = [&](NodeId node, std::string why) {
    if (failed != nullptr) *failed = node;
    return diag::error(diag::Code::second_product, "these products are computed one by one")
        .reason(std::move(why))
        .help("nothing is wrong: each has a kernel");
  };
  std::vector<Part> parts;
  for (const NodeId product : products) {
    Part& part = parts.emplace_back(Part{product, scope, {}});
    part.scope.outputs.clear();
    part.scope.more_products.clear();
  }
  for (size_t i = 0; i < scope.outputs.size(); ++i) {
    const NodeId node = scope.outputs[i].node;
    const std::set<NodeId> of = products_of(graph, node, products, scope);
    if (of.size() != 1)
      return no(node, fmt::format("a value needs {} products of different numbers of columns", of.size()));
    const auto owner = std::find(products.begin(), products.end(), *of.begin());
    Part& part = parts[static_cast<size_t>(owner - products.begin())];
    part.scope.outputs.push_back(scope.outputs[i]);
    part.outputs.push_back(i);
  }
  for (const Part& part : parts) {
    if (part.outputs.empty()) return no(part.product, "nothing of one of them is stored by its kernel");
  }
  std::vector<Lowered> lowered;
  package::Split split;
  const auto lower = [&](const Part& part) -> Result<Lowered> {
    CODETTA_TRY(Lowered one, lower_region(graph, part.product, part.scope, failed));
    if (one.program.phases.size() != 1 || !one.program.reductions.empty())
      return no(part.product, "one of them is reduced behind its product, of a number of columns of its own");
    if (!lies_in_tiles(one.program)) return no(part.product, "a value is stored that has no row or column of its own");
    return one;
  };
  for (const Part& part : parts) {
    CODETTA_TRY(Lowered one, lower(part));
    const package::Split& own = one.program.split;
    if (split.ways > 1 && own.ways > 1 && !(own == split))
      return no(part.product, fmt::format("columns are split in {} parts by chunks of {}, and in {} by chunks of {}",
                                          split.ways, split.chunk.to_string(), own.ways, own.chunk.to_string()));
    if (own.ways > 1) split = own;
    lowered.push_back(std::move(one));
  }
  Merger merger(scope.leaves.size(), scope);
  for (size_t p = 0; p < parts.size(); ++p) {
    if (!(lowered[p].program.split == split)) {
      parts[p].scope.ways = split.ways;
      const auto chunk = split.chunk.as_constant();
      assert(chunk);  // columns are split where they are a constant number only (Lowering::find_split)
      parts[p].scope.chunk = *chunk;
      CODETTA_TRY(lowered[p], lower(parts[p]));
    }
    const Dim& columns = graph.type(parts[p].product).shape.back();
    const auto constant = columns.as_constant();
    merger.add(parts[p], lowered[p].program,
               split.ways == 1 || !constant ? columns : Dim::constant(*constant / split.ways));
  }
  return std::move(merger).take();
}

}  // namespace codetta::plan
