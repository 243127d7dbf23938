// SPDX-License-Identifier: Apache-2.0
// Values that no kernel stores are neither written nor read; what a kernel stores and goes on computing with it does
// not read again. Views are followed: they move nothing, fused or not.
#include "plan/account.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "plan/regions.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

namespace {

bool moves_nothing(Op op) {
  return op == Op::reshape || op == Op::permute || op == Op::split || op == Op::slice || op == Op::broadcast;
}
// Inputs lie in memory already; literals and indices are no work.
bool is_given_value(Op op) {
  return op == Op::input || op == Op::literal || types::op_info(op).rule == types::OpRule::index;
}

HeldOperation::How how_held(Op op) {
  using How = HeldOperation::How;
  if (op == Op::matmul) return How::Product;
  if (op == Op::join) return How::Join;
  if (op == Op::user_kernel || op == Op::result) return How::User;
  if (moves_nothing(op)) return How::View;
  const types::OpInfo& info = types::op_info(op);
  if (info.is_reduction()) return How::Reduction;
  return info.rule == types::OpRule::indexed ? How::Indexed : How::Element;
}

class Accountant {
 public:
  Accountant(const ir::Graph& graph, const std::vector<KernelRegion>& kernels)
      : graph_(graph), kernels_(kernels), in_memory_(graph.size()), homes_(graph.size()), reads_(graph.size()) {}

  std::vector<KernelAccount> run() {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      held_.push_back(held_by(kernels_[k]));
      for (NodeId node : held_[k]) homes_[node.index()].push_back(k);
      for (const StoredValue& store : kernels_[k].stores) mark_stored(store.target);
      if (!kernels_[k].hook) continue;
      for (const StoredValue& other : kernels_[k].hook->others) mark_stored(other.target);
    }
    for (size_t i = 0; i < graph_.size(); ++i) {
      const Op op = graph_.node(NodeId(i)).op;
      if (!homes_[i].empty() && !moves_nothing(op)) count_reads(NodeId(i));
    }
    std::vector<KernelAccount> accounts;
    for (size_t k = 0; k < kernels_.size(); ++k) accounts.push_back(account_of(k));
    return accounts;
  }

 private:
  struct Read {
    NodeId by;
    Dim bytes;
  };

  // Those of which it is a part, the outermost first.
  [[nodiscard]] std::vector<NodeId> joins_of(const StoredValue& store) const {
    std::vector<NodeId> joins;
    NodeId join = store.target;
    for (const uint32_t part : store.part) {
      joins.push_back(join);
      join = graph_.operands(join)[part];
    }
    return joins;
  }

  // The operations between what the kernel loads and what it stores, in graph order.
  [[nodiscard]] std::vector<NodeId> held_by(const KernelRegion& kernel) const {
    std::set<NodeId> held;
    std::vector<NodeId> open;
    for (const StoredValue& store : kernel.stores) {
      open.push_back(store.node);
      const std::vector<NodeId> joins = joins_of(store);
      held.insert(joins.begin(), joins.end());
    }
    const std::vector<NodeId>& loaded = kernel.hook ? kernel.hook->leaves : kernel.leaves;
    std::set<NodeId> leaves(loaded.begin(), loaded.end());
    for (const auto* factors : {&kernel.a_made, &kernel.b_made}) {
      for (const MadeFactor& made : *factors) leaves.insert(made.leaves.begin(), made.leaves.end());
    }
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (kernel.step && !kernel.hook && graph_.node(node).op == Op::result) {  // one of several, of one step
        open.push_back(graph_.operands(node)[0]);
        continue;
      }
      if (is_given_value(graph_.node(node).op) || leaves.count(node) != 0 || !held.insert(node).second) continue;
      if (kernel.hook && node == kernel.hook->value) continue;  // what is in front of it is the source's to know
      if (kernel.computes(node)) {
        const auto operands = graph_.operands(node);
        NodeId b = kernel.b.source;
        for (const FurtherProduct& further : kernel.more) b = further.matmul == node ? further.b.source : b;
        for (const auto& [from, to] : {std::pair(operands[0], kernel.a.source), {operands[1], b}}) {
          for (NodeId view = from; view != to; view = graph_.operands(view)[0]) held.insert(view);
        }
        if (!kernel.a_made.empty()) open.push_back(kernel.a.source);
        if (!kernel.b_made.empty()) open.push_back(b);
        continue;
      }
      for (NodeId operand : graph_.operands(node)) open.push_back(operand);
    }
    return {held.begin(), held.end()};
  }

  void mark_stored(NodeId node) {
    in_memory_[node.index()] = true;
    while (moves_nothing(graph_.node(node).op)) {
      node = graph_.operands(node)[0];
      in_memory_[node.index()] = true;
    }
  }

  [[nodiscard]] Dim bytes_of(NodeId node) const {
    const ir::TensorType& type = graph_.type(node);
    Dim bytes = Dim::constant(types::byte_size(type.dtype));
    for (const Dim& dim : type.shape) bytes = bytes * dim;
    return bytes;
  }

  // Each operand once, as it is seen, but no more of it than is there.
  void count_reads(NodeId by) {
    std::set<NodeId> seen;
    for (NodeId operand : graph_.operands(by)) {
      if (!seen.insert(operand).second) continue;
      Dim bytes = bytes_of(operand);
      NodeId value = operand;
      while (moves_nothing(graph_.node(value).op)) {
        const bool repeats = graph_.node(value).op == Op::broadcast;
        value = graph_.operands(value)[0];
        if (repeats) bytes = bytes_of(value);
      }
      if (!is_given_value(graph_.node(value).op)) reads_[value.index()].push_back({by, std::move(bytes)});
    }
  }

  [[nodiscard]] Dim saved_by(NodeId node) const {
    const size_t i = node.index();
    const bool gone = !in_memory_[i];
    Dim saved = gone ? bytes_of(node) : Dim::constant(0);
    for (const Read& read : reads_[i]) {
      const auto& homes = homes_[read.by.index()];
      const bool at_hand = std::includes(homes_[i].begin(), homes_[i].end(), homes.begin(), homes.end());
      if (gone || (at_hand && !homes.empty())) saved = saved + read.bytes;
    }
    return saved;
  }

  // The number of the line that the node comes from, or 0.
  uint32_t add_line(NodeId node, std::map<uint32_t, std::string>& lines) const {
    if (graph_.source() == nullptr || !graph_.span(node).known()) return 0;
    const SourceLocation where = graph_.source()->locate(graph_.span(node));
    const size_t begin = where.line_text.find_first_not_of(" \t");
    lines.emplace(where.line, begin == std::string::npos ? "" : where.line_text.substr(begin));
    return where.line;
  }

  // A map that stores no part of a join has the element's position say which one it takes.
  [[nodiscard]] bool selects(const KernelRegion& kernel, NodeId join) const {
    return !kernel.matmul && !kernel.step &&
           std::none_of(kernel.stores.begin(), kernel.stores.end(), [&](const StoredValue& store) {
             const std::vector<NodeId> joins = joins_of(store);
             return std::find(joins.begin(), joins.end(), join) != joins.end();
           });
  }

  KernelAccount account_of(size_t k) const {
    KernelAccount account;
    std::map<uint32_t, std::string> lines;
    for (NodeId node : held_[k]) {
      HeldOperation held;
      held.node = node;
      held.op = graph_.node(node).op;
      held.how = how_held(held.op);
      if (held.op == Op::join && selects(kernels_[k], node)) held.how = HeldOperation::How::Select;
      held.name = graph_.name_hint(node);
      held.type = ir::to_string(graph_.type(node));
      held.bytes = bytes_of(node);
      held.in_memory = in_memory_[node.index()];
      held.repeated = homes_[node.index()].front() != k;
      if (held.how != HeldOperation::How::View && !held.repeated) held.saved = saved_by(node);
      account.saved = account.saved + held.saved;
      held.line = add_line(node, lines);
      account.held.push_back(std::move(held));
    }
    for (const StoredValue& store : kernels_[k].stores) add_line(store.target, lines);  // also of numbers and copies
    if (graph_.source() != nullptr) {
      const std::string& name = graph_.source()->name();
      account.file = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
    }
    for (auto& [line, text] : lines) account.origins.push_back({line, std::move(text)});
    for (const StoredValue& store : kernels_[k].stores) account.stored.push_back(store.target);
    return account;
  }

  const ir::Graph& graph_;
  const std::vector<KernelRegion>& kernels_;
  std::vector<std::vector<NodeId>> held_;   // by kernel
  std::vector<bool> in_memory_;             // by node
  std::vector<std::vector<size_t>> homes_;  // by node: kernels that hold it, ascending
  std::vector<std::vector<Read>> reads_;    // by value that is no view
};

}  // namespace

std::vector<KernelAccount> account_for(const ir::Graph& graph, const std::vector<KernelRegion>& kernels) {
  return Accountant(graph, kernels).run();
}

std::vector<std::string> origin_texts(const KernelAccount& account) {
  std::vector<std::string> texts;
  for (const OriginLine& origin : account.origins)
    texts.push_back(fmt::format("{}:{}: {}", account.file, origin.line, origin.text));
  return texts;
}

}  // namespace codetta::plan
