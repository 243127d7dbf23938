// SPDX-License-Identifier: Apache-2.0
#include "ir/devices.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "ir/report.hpp"

namespace codetta::ir {
namespace {

constexpr uint32_t anywhere = UINT32_MAX;

// Whether the operand decides where the node is computed: the predicate of a branch does where nothing else does.
bool decides(const Graph& graph, NodeId node, size_t operand) {
  return graph.node(node).op != Op::cond || operand > 0 || graph.operands(node).size() == 1;
}

// By node: where its operands make it lie.
std::vector<uint32_t> fixed_devices(const Graph& graph, std::optional<uint32_t> around) {
  std::vector<uint32_t> fixed(graph.size(), anywhere);
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    const Op op = graph.node(node).op;
    if (op == Op::input) {
      const GraphInput& input = graph.inputs()[i];
      if (!input.is_scalar) fixed[i] = around.value_or(input.device);
    } else if (op == Op::to_device) {
      fixed[i] = graph.attr_as<DeviceAttr>(node).device;
    } else {
      const auto operands = graph.operands(node);
      for (size_t o = 0; o < operands.size() && fixed[i] == anywhere; ++o) {
        if (decides(graph, node, o)) fixed[i] = fixed[operands[o].index()];
      }
      if (op == Op::cond && fixed[i] == anywhere && !operands.empty()) fixed[i] = fixed[operands[0].index()];
    }
  }
  return fixed;
}

std::vector<uint32_t> resolved(const Graph& graph, std::vector<uint32_t> fixed, uint32_t outputs_on) {
  std::vector<uint32_t> wanted(graph.size(), anywhere);
  for (const GraphOutput& output : graph.outputs()) {
    if (fixed[output.node.index()] == anywhere) fixed[output.node.index()] = outputs_on;
  }
  for (size_t i = graph.size(); i-- > 0;) {
    if (fixed[i] == anywhere) fixed[i] = wanted[i] == anywhere ? outputs_on : wanted[i];
    for (const NodeId operand : graph.operands(NodeId(i)))
      wanted[operand.index()] = std::min(wanted[operand.index()], fixed[i]);
  }
  for (size_t i = 0; i < graph.size(); ++i) {  // what a step makes lies in one place
    if (graph.node(NodeId(i)).op == Op::result) fixed[i] = fixed[graph.operands(NodeId(i))[0].index()];
  }
  return fixed;
}

// What brings a value there, as far as it has a name or a short text.
std::string bringing(const Graph& graph, NodeId node, uint32_t device) {
  std::string value = source_name(graph, node);
  const std::string shown = display_name(graph, node);
  if (value.empty() && shown.front() == '`') value = shown.substr(1, shown.size() - 2);
  return fmt::format("to_device({}, {})", value.empty() ? "..." : value, device);
}

bool has_children(const Graph& graph) {
  for (size_t i = 0; i < graph.size(); ++i) {
    if (!children(graph.attr(NodeId(i))).empty()) return true;
  }
  return false;
}

}  // namespace

bool uses_devices(const Graph& graph) {
  for (const GraphInput& input : graph.inputs()) {
    if (input.device != 0) return true;
  }
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op == Op::to_device) return true;
    for (const GraphRef& child : children(graph.attr(NodeId(i)))) {
      if (uses_devices(*child)) return true;
    }
  }
  return false;
}

std::vector<uint32_t> devices_of(const Graph& graph, std::optional<uint32_t> around) {
  return resolved(graph, fixed_devices(graph, around), around.value_or(0));
}

std::optional<MixedDevices> find_mixed(const Graph& graph, std::optional<uint32_t> around) {
  const std::vector<uint32_t> fixed = fixed_devices(graph, around);
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    if (graph.node(node).op == Op::to_device) continue;
    const auto operands = graph.operands(node);
    std::optional<size_t> first;
    for (size_t o = 0; o < operands.size(); ++o) {
      const uint32_t device = fixed[operands[o].index()];
      if (device == anywhere || !decides(graph, node, o)) continue;
      if (!first) first = o;
      const uint32_t other = fixed[operands[*first].index()];
      if (device == other) continue;
      const std::string name = display_name(graph, operands[o]), known = display_name(graph, operands[*first]);
      return MixedDevices{&graph, node,
                          Complaint{diag::Code::device_mixed, "operands lie on different devices",
                                    fmt::format("{} lies on device {}, {} on device {}", known, other, name, device),
                                    "bring one of them to the other's device: " + bringing(graph, operands[o], other),
                                    static_cast<int>(o)}};
    }
  }
  if (!has_children(graph)) return std::nullopt;
  const std::vector<uint32_t> devices = resolved(graph, fixed, around.value_or(0));
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const GraphRef& child : children(graph.attr(NodeId(i)))) {
      if (auto mixed = find_mixed(*child, devices[i])) return mixed;
      const std::vector<uint32_t> inside = devices_of(*child, devices[i]);
      for (const GraphOutput& output : child->outputs()) {
        const uint32_t device = inside[output.node.index()];
        if (device == devices[i]) continue;
        return MixedDevices{
            child.get(), output.node,
            Complaint{diag::Code::device_mixed, "a result lies on another device",
                      fmt::format("{} lies on device {}, and what returns it runs on device {}, where its operands lie",
                                  display_name(*child, output.node), device, devices[i]),
                      "return " + bringing(*child, output.node, devices[i]), -1}};
      }
    }
  }
  return std::nullopt;
}

namespace {

// What is brought there, by way of other devices or not.
NodeId brought_from(const Graph& graph, NodeId node) {
  while (graph.node(node).op == Op::to_device) node = graph.operands(node)[0];
  return node;
}

// By input of the program: where its uses bring it.
std::vector<uint32_t> homes_of(const Graph& graph) {
  std::vector<uint32_t> homes(graph.inputs().size(), anywhere);
  for (size_t i = 0; i < homes.size(); ++i) {
    if (graph.inputs()[i].is_scalar) homes[i] = 0;
  }
  const auto use = [&](NodeId operand, uint32_t device) {
    if (operand.index() >= homes.size()) return;
    uint32_t& home = homes[operand.index()];
    home = home == anywhere || home == device ? device : 0;
  };
  std::vector<bool> elsewhere(graph.size());  // by node: whether it is more than brought on
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op == Op::to_device) continue;
    for (const NodeId operand : graph.operands(NodeId(i))) elsewhere[operand.index()] = true;
  }
  for (const GraphOutput& output : graph.outputs()) elsewhere[output.node.index()] = true;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op == Op::to_device && elsewhere[i])
      use(brought_from(graph, NodeId(i)), graph.attr_as<DeviceAttr>(NodeId(i)).device);
  }
  for (size_t i = 0; i < homes.size(); ++i) {
    if (homes[i] == anywhere || elsewhere[i]) homes[i] = 0;
  }
  return homes;
}

// Whether each user of the node has another operand that lies on the node's device anyway, so that it need not be said.
std::vector<bool> said_otherwise(const Graph& graph, const std::vector<uint32_t>& fixed) {
  std::vector<bool> otherwise(graph.size(), true);
  for (const GraphOutput& output : graph.outputs()) otherwise[output.node.index()] = false;
  const auto brings_anything = [&](NodeId node) {
    return graph.node(node).op == Op::to_device && fixed[graph.operands(node)[0].index()] == anywhere;
  };
  for (size_t i = 0; i < graph.size(); ++i) {
    const auto operands = graph.operands(NodeId(i));
    for (const NodeId operand : operands) {
      if (!brings_anything(operand)) continue;
      const bool tensors = std::any_of(operands.begin(), operands.end(), [&](NodeId other) {
        return fixed[other.index()] == fixed[operand.index()] && !brings_anything(other);
      });
      otherwise[operand.index()] = otherwise[operand.index()] && tensors;
    }
  }
  return otherwise;
}

// Without what branches and loops bring to where it lies: there it would be copied, in each turn.
Result<Graph> without_idle(const Graph& graph, std::optional<uint32_t> around) {
  const std::vector<uint32_t> fixed = fixed_devices(graph, around);
  const std::vector<uint32_t> devices = resolved(graph, fixed, around.value_or(0));
  GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const GraphInput& input : graph.inputs()) now[input.node.index()] = builder.add_input(graph, input);
  for (size_t i = graph.inputs().size(); i < graph.size(); ++i) {
    const NodeId node(i);
    if (graph.node(node).op == Op::to_device) {
      const NodeId from = graph.operands(node)[0];
      if (fixed[from.index()] == fixed[i]) {
        now[i] = now[from.index()];
        continue;
      }
    }
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(node)) operands.push_back(now[operand.index()]);
    Attr attr = graph.attr(node);
    const auto settle = [&](GraphRef& child) -> Result<void> {
      CODETTA_TRY(Graph settled, without_idle(*child, devices[i]));
      child = std::make_shared<const Graph>(std::move(settled));
      return {};
    };
    if (auto* branches = std::get_if<CondAttr>(&attr)) {
      CODETTA_CHECK_OK(settle(branches->then));
      CODETTA_CHECK_OK(settle(branches->otherwise));
    } else if (auto* loop = std::get_if<WhileAttr>(&attr)) {
      CODETTA_CHECK_OK(settle(loop->condition));
      CODETTA_CHECK_OK(settle(loop->body));
    }
    now[i] = builder.add_unchecked(graph.node(node).op, operands, std::move(attr), graph.type(node), graph.span(node),
                                   graph.name_hint(node));
  }
  for (const GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

}  // namespace

Result<Graph> placed(Graph graph) {
  if (!uses_devices(graph)) return graph;
  const std::vector<uint32_t> homes = homes_of(graph);
  GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const GraphInput& input : graph.inputs()) {
    now[input.node.index()] = builder.add_input(graph, input);
    builder.lay_on(now[input.node.index()], homes[input.node.index()]);
  }
  std::vector<uint32_t> fixed = fixed_devices(graph, {});
  for (size_t i = 0; i < homes.size(); ++i) {
    if (fixed[i] != anywhere) fixed[i] = homes[i];
  }
  for (size_t i = homes.size(); i < graph.size(); ++i) {  // an operand's operands may have changed
    const auto operands = graph.operands(NodeId(i));
    if (graph.node(NodeId(i)).op == Op::to_device) continue;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (!decides(graph, NodeId(i), o) || fixed[operands[o].index()] == anywhere) continue;
      fixed[i] = fixed[operands[o].index()];
      break;
    }
  }
  const std::vector<bool> otherwise = said_otherwise(graph, fixed);
  for (size_t i = homes.size(); i < graph.size(); ++i) {
    const NodeId node(i);
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(node)) operands.push_back(now[operand.index()]);
    if (graph.node(node).op == Op::to_device) {
      const NodeId from = brought_from(graph, node);
      const bool there = fixed[from.index()] == graph.attr_as<DeviceAttr>(node).device;
      const bool free = fixed[from.index()] == anywhere && (graph.type(from).weak || otherwise[i]);
      if (there || free) {
        now[i] = now[from.index()];
        continue;
      }
      operands = {now[from.index()]};
    }
    now[i] = builder.add_unchecked(graph.node(node).op, operands, graph.attr(node), graph.type(node), graph.span(node),
                                   graph.name_hint(node));
  }
  for (const GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  CODETTA_TRY(Graph result, std::move(builder).finish());
  if (const auto mixed = find_mixed(result)) {
    const Graph& at = *mixed->graph;
    return located(at, mixed->complaint, at.node(mixed->node).op, at.operands(mixed->node), at.attr(mixed->node),
                   at.span(mixed->node), {});
  }
  return has_children(result) ? without_idle(result, {}) : std::move(result);
}

namespace {
constexpr std::string_view on_device = " on device ";
}
std::string own_input_name(std::string_view input, uint32_t device) {
  return fmt::format("{}{}{}", input, on_device, device);
}
std::string_view input_of_own_name(std::string_view name) { return name.substr(0, name.find(on_device)); }

Result<Graph> with_inputs_on_devices(Graph graph, const std::function<bool(const GraphInput&)>& chosen) {
  std::map<std::pair<NodeId, uint32_t>, NodeId> own;  // by input and device
  for (size_t i = graph.inputs().size(); i < graph.size(); ++i) {
    if (graph.node(NodeId(i)).op != Op::to_device) continue;
    const NodeId from = graph.operands(NodeId(i))[0];
    const auto input = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&](const GraphInput& one) { return one.node == from; });
    if (input != graph.inputs().end() && !input->is_scalar && chosen(*input))
      own[{from, graph.attr_as<DeviceAttr>(NodeId(i)).device}] = NodeId();
  }
  if (own.empty()) return graph;
  GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const GraphInput& input : graph.inputs()) now[input.node.index()] = builder.add_input(graph, input);
  for (auto& [which, made] : own) {
    const auto& [from, device] = which;
    const auto input = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&, node = from](const GraphInput& one) { return one.node == node; });
    made = builder.add_input(own_input_name(input->name, device), graph.type(from), false, graph.span(from));
    builder.lay_on(made, device);
  }
  for (size_t i = graph.inputs().size(); i < graph.size(); ++i) {
    const NodeId node(i);
    if (graph.node(node).op == Op::to_device) {
      const auto there = own.find({graph.operands(node)[0], graph.attr_as<DeviceAttr>(node).device});
      if (there != own.end()) {
        now[i] = there->second;
        continue;
      }
    }
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(node)) operands.push_back(now[operand.index()]);
    now[i] = builder.add_unchecked(graph.node(node).op, operands, graph.attr(node), graph.type(node), graph.span(node),
                                   graph.name_hint(node));
  }
  for (const GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

Result<Graph> with_devices_of(Graph graph, const Graph& before) {
  if (!uses_devices(before)) return graph;
  const std::vector<uint32_t> had = devices_of(before), has = devices_of(graph);
  bool same = true;
  for (size_t o = 0; o < graph.outputs().size(); ++o)
    same = same && had[before.outputs()[o].node.index()] == has[graph.outputs()[o].node.index()];
  if (same) return graph;
  GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const GraphInput& input : graph.inputs()) now[input.node.index()] = builder.add_input(graph, input);
  for (size_t i = graph.inputs().size(); i < graph.size(); ++i) {
    const NodeId node(i);
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(node)) operands.push_back(now[operand.index()]);
    now[i] = builder.add_unchecked(graph.node(node).op, operands, graph.attr(node), graph.type(node), graph.span(node),
                                   graph.name_hint(node));
  }
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const GraphOutput& output = graph.outputs()[o];
    const uint32_t device = had[before.outputs()[o].node.index()];
    NodeId node = now[output.node.index()];
    if (device != has[output.node.index()]) {
      const NodeId from[] = {node};
      node = builder.add_unchecked(Op::to_device, from, DeviceAttr{device}, graph.type(output.node),
                                   graph.span(output.node));
    }
    builder.add_output(output.name, node, output.dtype);
  }
  return std::move(builder).finish();
}

}  // namespace codetta::ir
