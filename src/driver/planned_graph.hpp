// SPDX-License-Identifier: Apache-2.0
// What a program is before it is optimized and planned for a target.
#pragma once

#include "codetta/target.hpp"
#include "ir/graph.hpp"

namespace codetta::driver {

// The program's graph with the products that kernels of the target are best at: on CPUs and AMD GPUs rows that are
// several dims of a slice are read as items (opt/slices.hpp); NVIDIA's fastest kernels copy items with two strides, and
// Apple's all slices, so that there the rows are.
Result<ir::Graph> graph_for(const ir::Graph& graph, const Target& target);

}  // namespace codetta::driver
