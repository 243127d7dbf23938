// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's that hand a result over element by element: what follows it becomes their epilogue, as if the
// result were a product's, as long as it works on single elements.
#include <algorithm>

#include <fmt/format.h>

#include "plan/region_finder.hpp"
#include "plan/user_hook.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

void RegionFinder::find_hooked() {
  std::map<NodeId, Head*> further;  // of those that hand a further result over
  for (Head& head : heads_) {
    const auto hook = options_.hooks.find(head.node);
    if (hook == options_.hooks.end()) continue;
    if (hook->second.result == 0) head.hooked = head.node;
    if (!head.hooked) further.emplace(head.node, &head);
  }
  for (size_t i = 0; i < graph_.size() && !further.empty(); ++i) {
    const auto* result = std::get_if<ir::ResultAttr>(&graph_.attr(NodeId(i)));
    const auto found = result == nullptr ? further.end() : further.find(graph_.operands(NodeId(i))[0]);
    if (found == further.end() || static_cast<size_t>(result->index) != options_.hooks.at(found->first).result)
      continue;
    found->second->hooked = NodeId(i);
    further.erase(found);
  }
  for (const Head& head : heads_) {
    if (head.hooked) hooked_[head.hooked->index()] = true;
  }
}

std::optional<std::pair<NodeId, Rejection>> RegionFinder::unhooked(size_t place, const std::vector<NodeId>& outputs,
                                                                   const std::vector<NodeId>& leaves) const {
  const NodeId value = *heads_[place].hooked;
  std::set<NodeId> inside;
  std::vector<NodeId> open = outputs;
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (node == value || std::binary_search(leaves.begin(), leaves.end(), node) || !inside.insert(node).second)
      continue;
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  const auto no = [&](NodeId node, diag::Code code, std::string_view why) {
    return std::pair(node, Rejection{static_cast<uint16_t>(code),
                                     {},
                                     fmt::format("{} {}", types::op_info(graph_.node(node).op).name, why),
                                     graph_.span(node)});
  };
  for (NodeId node : inside) {  // in graph order
    const Op op = graph_.node(node).op;
    const types::OpInfo& info = types::op_info(op);
    const bool behind = level_[node.index()] == static_cast<int32_t>(place);
    if (behind && info.is_reduction())
      return no(node, diag::Code::reduction_axes,
                "needs all elements, and a kernel of the user's hands over one at a time, in any order");
    if (behind && op == Op::split)
      return no(node, diag::Code::split_unsupported, "needs several elements, and one is handed over at a time");
    if (behind && op == Op::join)
      return no(node, diag::Code::operand_join, "stores what several kernels make, and one is handed over at a time");
    if (info.rule == types::OpRule::indexed)
      return no(node, diag::Code::position_conflict,
                "reads at computed places, and indices are looked at in front of a kernel");
  }
  return std::nullopt;
}

std::optional<Rejection> RegionFinder::refuses_hook(const KernelRegion& region) const {
  if (auto no = hook_obstacle(region.lowered.program)) return no;
  std::vector<package::Argument> arguments;
  for (NodeId operand : graph_.operands(*region.step)) {
    const bool number = is_input(operand) && input_of(operand)->is_scalar;
    arguments.push_back(
        {{}, graph_.type(operand).dtype, number, false, number ? std::vector<Dim>() : graph_.type(operand).shape});
  }
  const auto& own = region.lowered.program.arguments;
  arguments.insert(arguments.end(), own.begin(), own.end());
  const auto& shape = graph_.type(region.hook->value).shape;
  // Of 256 values that a kernel of the user's takes on a GPU at most half stand for what follows.
  constexpr size_t most_values = 128;
  size_t values = own.size() + shape.size();
  for (const package::Operand& operand : region.lowered.program.operands) values += operand.terms.size() + 1;
  if (options_.parameter_bytes != 0 && values > most_values) {
    return Rejection{static_cast<uint16_t>(diag::Code::epilogue_large),
                     {},
                     fmt::format("what follows takes {} addresses and strides; a kernel of the user's passes up to {}",
                                 values, most_values),
                     {}}
        .limited("values", static_cast<int64_t>(values), static_cast<int64_t>(most_values));
  }
  if (hooked_sizes(shape, arguments)) return std::nullopt;
  return Rejection{static_cast<uint16_t>(diag::Code::symbolic_layout),
                   {},
                   fmt::format("no tensor of the kernel has all sizes of {}, which it hands over",
                               ir::to_string(graph_.type(region.hook->value))),
                   graph_.span(region.hook->value)};
}

Result<void> RegionFinder::add_hooked(size_t place) {
  const NodeId step = heads_[place].node, value = *heads_[place].hooked;
  const auto level = static_cast<int32_t>(place);
  KernelRegion region;
  region.step = step;
  region.hook.emplace().value = value;
  std::vector<NodeId> outputs;
  for (const NodeId node : of_level(level)) {
    const bool made = node == step || (graph_.node(node).op == Op::result && graph_.operands(node)[0] == step);
    if (made && node != value && is_stored(node)) region.hook->others.push_back(place_of_result(node));
    if (!is_stored(node) || !needed_[node.index()] || !of_product(node)) continue;
    outputs.push_back(node);
    for (const StoredValue& stored : places_of(node, node, {})) region.stores.push_back(stored);
  }
  // Nobody reads it: its elements go somewhere all the same.
  if (region.stores.empty()) {
    outputs.push_back(value);
    region.stores.push_back({value, value, {}, std::nullopt});
  }
  const std::vector<NodeId> leaves =
      leaves_of(outputs, region, [&](NodeId node) { return of_product(node) && level_[node.index()] == level; });
  if (const auto no = unhooked(place, outputs, leaves)) {
    const Error error = diag::error(static_cast<diag::Code>(no->second.code),
                                    "this cannot follow the result of a kernel element by element")
                            .reason(no->second.text);
    return cut_at(value, no->first, error);
  }
  region.leaves = leaves;
  NodeId failed = value;
  auto lowered = lower_region(graph_, value, scope_of(region), &failed);
  if (!lowered) return cut_at(value, failed, lowered.error());
  region.lowered = *std::move(lowered);
  if (const auto no = refuses_hook(region)) {
    const Error error =
        diag::error(static_cast<diag::Code>(no->code), "this cannot follow the result of a kernel element by element")
            .reason(no->text);
    return cut_at(value, value, error);
  }
  region.hook->leaves = leaves;
  const auto operands = graph_.operands(step);
  region.leaves.insert(region.leaves.end(), operands.begin(), operands.end());
  std::sort(region.leaves.begin(), region.leaves.end());
  region.leaves.erase(std::unique(region.leaves.begin(), region.leaves.end()), region.leaves.end());
  products_[place] = std::move(region);
  return {};
}

}  // namespace codetta::plan
