// SPDX-License-Identifier: Apache-2.0
// Plan: fusion regions with a chosen kernel each, the ordered host steps, and where temporaries live.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "package/package.hpp"
#include "plan/candidates.hpp"

namespace codetta::plan {

// One matmul with everything after it up to the next matmul or output.
struct Region {
  ir::NodeId matmul;
  std::vector<ir::NodeId> nodes;    // in graph order, the matmul first
  std::vector<ir::NodeId> inputs;   // values computed elsewhere, or graph inputs
  std::vector<ir::NodeId> outputs;  // values that other regions or the graph's outputs need
};

struct PlannedKernel {
  Region region;
  Lowered lowered;
  GemmShape shape;        // constants where known, hints elsewhere
  Discovery discovery;
  size_t chosen = 0;      // index into discovery.candidates
};

// Sizes of temporaries and when they live: [first, last] step that uses them.
struct Lifetime {
  uint32_t buffer = 0;
  int64_t bytes = 0;
  size_t first = 0, last = 0;
  int64_t offset = 0;
};
struct MemoryPlan {
  std::vector<Lifetime> lifetimes;
  int64_t bytes = 0;        // of the workspace for temporaries
  int64_t lower_bound = 0;  // largest sum of live bytes at any step
};

struct Plan {
  Target target;
  std::vector<PlannedKernel> kernels;
  std::vector<package::Buffer> buffers;
  std::vector<package::Step> steps;  // LaunchKernel::kernel indexes `kernels`
  MemoryPlan memory;
};

// A graph of one GEMM with its epilogue, planned with a given candidate (0 = best).
struct GemmPlanOptions {
  size_t candidate = 0;
};
Result<Plan> plan_gemm(const ir::Graph& graph, const GemmShape& shape, const std::vector<ArgumentLayout>& layouts,
                       const Target& target, const MachineFacts& machine);
// A program of consecutive GEMMs: one kernel a matmul, element-wise work fused behind it. Work that belongs to no matmul is E0310.
Result<Plan> plan_program(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                          const std::vector<std::pair<std::string, int64_t>>& size_hints);

// The independent checker: no two live buffers overlap, every buffer fits. Errors: E0901.
Result<void> check_memory(const MemoryPlan& plan);

std::string to_string(const Plan& plan);  // for `emit --what=plan` and explain
std::string to_json(const Plan& plan);

}  // namespace codetta::plan
