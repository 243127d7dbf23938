// SPDX-License-Identifier: Apache-2.0
// On which of the program's devices values lie. A value is computed where its operands lie, and to_device brings it to
// another one. What has no tensors in it (literals, numbers, positions, and what is made of these alone) lies anywhere:
// where the first device lies, counted from 0, that uses it. A branch or a loop runs where its operands lie, and its
// graphs begin and end there; the predicate of a branch is read from wherever it lies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/infer.hpp"

namespace codetta::ir {

// Whether anything in the graph, or in the graphs inside of it, is said to lie on a device other than 0.
bool uses_devices(const Graph& graph);

// By node, of a graph that find_mixed() has nothing to say of. `around`: where a branch or a loop runs, whose graph
// this is; none: the graph is a program's.
std::vector<uint32_t> devices_of(const Graph& graph, std::optional<uint32_t> around = {});

// A node whose operands lie on different devices, or a graph inside of one that leaves values on another device.
struct MixedDevices {
  const Graph* graph = nullptr;  // of the node
  NodeId node;
  Complaint complaint;  // E0234
};
std::optional<MixedDevices> find_mixed(const Graph& graph, std::optional<uint32_t> around = {});

// Where the program's parameters lie: a tensor all of whose uses bring it to one device lies there from the start, any
// other on device 0. What is brought to where it lies already is not brought at all, and what is brought twice goes
// straight to where it is used. Errors: E0234, at the operation.
Result<Graph> placed(Graph graph);

// A program in which each input that is chosen lies on all devices that it is brought to: as an input of its own on
// each but the first, behind the others, named as own_input_name() says.
Result<Graph> with_inputs_on_devices(Graph graph, const std::function<bool(const GraphInput&)>& chosen);
std::string own_input_name(std::string_view input, uint32_t device);  // "w on device 1": no name that a text may have
std::string_view input_of_own_name(std::string_view name);            // "w"; what is no such name stays as it is

// `graph` with each output on the device of the same output of `before`, which it is a rewriting of.
Result<Graph> with_devices_of(Graph graph, const Graph& before);

}  // namespace codetta::ir
