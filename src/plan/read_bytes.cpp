// SPDX-License-Identifier: Apache-2.0
#include "plan/read_bytes.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;

namespace {

class Reader {
 public:
  Reader(const ir::Graph& graph, const SizeOf& size)
      : graph_(graph), size_(size), users_(graph.size()), behind_(graph.size()) {
    for (size_t i = 0; i < graph.size(); ++i) {
      const NodeId node(i);
      const Op op = graph.node(node).op;
      behind_[i] = op == Op::matmul || is_step(op);
      for (NodeId operand : graph.operands(node)) {
        users_[operand.index()].push_back(node);
        behind_[i] = behind_[i] || behind_[operand.index()];
      }
    }
  }

  ReadBytes run() {
    for (const ir::GraphInput& input : graph_.inputs()) {
      if (!input.is_scalar) add(input.node);
    }
    for (size_t i = 0; i < graph_.size(); ++i) {
      const NodeId node(i);
      const Op op = graph_.node(node).op;
      const auto operands = graph_.operands(node);
      if (op == Op::matmul) {
        add(source_of(operands[0]));
        if (const NodeId b = source_of(operands[1]); behind_[b.index()]) add(b);
      } else if (is_step(op) && op != Op::result) {
        for (NodeId operand : operands) add(source_of(operand));
        result_.all += inside(node);
      }
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] static bool is_view(Op op) { return op == Op::reshape || op == Op::permute || op == Op::broadcast; }
  [[nodiscard]] NodeId source_of(NodeId node) const {
    while (is_view(graph_.node(node).op)) node = graph_.operands(node)[0];
    return node;
  }
  [[nodiscard]] double elements(NodeId node) const {
    double count = 1;
    for (const types::Dim& dim : graph_.type(node).shape) count *= static_cast<double>(size_(dim));
    return count;
  }

  void add(NodeId node) {
    if (result_.of.count(node.index()) != 0 || graph_.node(node).op == Op::literal) return;
    const double bytes = read_of(node);
    result_.of.emplace(node.index(), bytes);
    result_.all += bytes;
  }

  [[nodiscard]] double read_of(NodeId value) {
    const auto element = static_cast<double>(types::byte_size(graph_.type(value).dtype));
    const double whole = element * elements(value);
    double read = 0;
    std::vector<NodeId> open{value};
    while (!open.empty() && read < whole) {
      const NodeId seen = open.back();
      open.pop_back();
      for (NodeId user : users_[seen.index()]) {
        const Op op = graph_.node(user).op;
        const auto operands = graph_.operands(user);
        if (is_view(op)) {
          open.push_back(user);
        } else if (op == Op::slice || op == Op::split ||
                   ((op == Op::take || op == Op::gather) && operands[0] == seen && operands[1] != seen)) {
          read += element * elements(user);
        } else if (op == Op::cond) {
          for (size_t i = 1; i < operands.size(); ++i) {
            if (operands[i] == seen) read += read_by_branches(user, i - 1);
          }
          if (operands[0] == seen) read = whole;
        } else {
          read = whole;
        }
      }
    }
    return std::min(read, whole);
  }
  [[nodiscard]] double read_by_branches(NodeId cond, size_t input) {
    const auto& attr = graph_.attr_as<ir::CondAttr>(cond);
    double most = 0;
    for (const ir::Graph* branch : {attr.then.get(), attr.otherwise.get()})
      most = std::max(most, read_by(*branch).of_node(branch->inputs()[input].node));
    return most;
  }
  const ReadBytes& read_by(const ir::Graph& child) {
    const auto known = children_.find(&child);
    return known != children_.end() ? known->second : children_.emplace(&child, read_bytes(child, size_)).first->second;
  }

  // What a step's graphs read but for their inputs, which are what the step is given.
  [[nodiscard]] double inside(NodeId step) {
    const auto own = [&](const ir::Graph& graph) {
      const ReadBytes& read = read_by(graph);
      double rest = read.all;
      for (const ir::GraphInput& input : graph.inputs()) rest -= read.of_node(input.node);
      return std::max(rest, 0.0);
    };
    if (const auto* cond = std::get_if<ir::CondAttr>(&graph_.attr(step)))
      return std::max(own(*cond->then), own(*cond->otherwise));
    if (const auto* loop = std::get_if<ir::WhileAttr>(&graph_.attr(step)))
      return own(*loop->condition) + own(*loop->body);
    return 0;
  }

  const ir::Graph& graph_;
  const SizeOf& size_;
  std::vector<std::vector<NodeId>> users_;          // by node
  std::vector<bool> behind_;                        // by node: it needs a product or a step
  std::map<const ir::Graph*, ReadBytes> children_;  // of branches and loops
  ReadBytes result_;
};

}  // namespace

ReadBytes read_bytes(const ir::Graph& graph, const SizeOf& size) { return Reader(graph, size).run(); }

}  // namespace codetta::plan
