// SPDX-License-Identifier: Apache-2.0
// plan_program: one kernel a product, temporaries between them.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "plan/guards.hpp"
#include "plan/memory_check.hpp"
#include "plan/regions.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Buffer;
using types::Dim;

namespace {

Dim bytes_of(const Buffer& buffer) {
  Dim bytes = Dim::constant(types::byte_size(buffer.dtype));
  for (const Dim& dim : buffer.shape) bytes = bytes * dim;
  return bytes;
}

class ProgramPlanner {
 public:
  ProgramPlanner(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                 const std::vector<std::pair<std::string, int64_t>>& hints)
      : graph_(graph), machine_(machine), hints_(hints) {
    plan_.target = target;
  }

  Result<Plan> run() {
    CODETTA_CHECK_OK(check_plannable(graph_));
    CODETTA_TRY(regions_, find_regions(graph_));
    add_buffers();
    for (size_t r = 0; r < regions_.regions.size(); ++r) CODETTA_CHECK_OK(add_kernel(r));
    define_symbols(plan_.buffers, plan_.steps);
    std::vector<KernelUse> uses;
    for (size_t r = 0; r < launches_.size(); ++r) {
      const bool batched = !(launches_[r].batch == Dim::constant(1));
      uses.push_back(
          {launches_[r].a, launches_[r].b, batched, &plan_.kernels[r].lowered.program, &launches_[r].arguments});
    }
    add_guards(plan_.buffers, uses, plan_.steps);
    CODETTA_CHECK_OK(schedule());
    return std::move(plan_);
  }

 private:
  void add_buffers() {
    for (const ir::GraphInput& input : graph_.inputs()) {
      const ir::TensorType& type = graph_.type(input.node);
      buffer_of_[input.node] = static_cast<uint32_t>(plan_.buffers.size());
      plan_.buffers.push_back({input.name, Buffer::Role::Argument, type.dtype, input.is_scalar, type.shape, {}});
    }
    first_output_ = plan_.buffers.size();
    for (const ir::GraphOutput& output : graph_.outputs()) {
      plan_.buffers.push_back(
          {output.name, Buffer::Role::Output, output.dtype, false, graph_.type(output.node).shape, {}});
    }
  }

  uint32_t output_buffer(const RegionGraph::Output& output) {
    const DType dtype = graph_.type(output.node).dtype;
    if (output.of) {
      const auto buffer = static_cast<uint32_t>(first_output_ + *output.of);
      if (plan_.buffers[buffer].dtype == dtype) buffer_of_.emplace(output.node, buffer);
      return buffer;
    }
    const auto buffer = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({fmt::format("t{}", output.node.index()),
                             Buffer::Role::Temporary,
                             dtype,
                             false,
                             graph_.type(output.node).shape,
                             {}});
    buffer_of_.emplace(output.node, buffer);
    return buffer;
  }

  [[nodiscard]] int64_t hint(const Dim& dim) const {
    constexpr int64_t unknown = 512;
    return dim
        .evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
          for (const auto& [name, value] : hints_) {
            if (name == symbol) return value;
          }
          return unknown;
        })
        .value_or(unknown);
  }

  Result<void> add_kernel(size_t r) {
    CODETTA_TRY(RegionGraph region, extract(graph_, regions_, r));
    PlannedKernel kernel;
    kernel.region = regions_.regions[r];
    CODETTA_TRY(kernel.lowered, lower_epilogue(region.graph, region.matmul, {}));
    const auto& [a, b] = regions_.factors[r];
    package::LaunchKernel launch;
    launch.kernel = static_cast<uint32_t>(r);
    launch.a = buffer_of_.at(a.source);
    launch.b = buffer_of_.at(b.source);
    launch.a_transposed = a.transposed;
    launch.b_transposed = b.transposed;
    const auto operands = region.graph.operands(region.matmul);
    const auto& a_shape = region.graph.type(operands[0]).shape;
    const auto& b_shape = region.graph.type(operands[1]).shape;
    const auto& shape = region.graph.type(region.matmul).shape;
    launch.m = shape[shape.size() - 2];
    launch.n = shape.back();
    launch.k = a_shape.back();
    if (shape.size() > 2) launch.batch = shape[0];

    std::vector<uint32_t> stored;
    for (const RegionGraph::Output& output : region.outputs) stored.push_back(output_buffer(output));
    const size_t inputs = region.graph.inputs().size();
    for (uint32_t from : kernel.lowered.argument_input) {
      launch.arguments.push_back(from >= inputs ? stored[from - inputs]
                                                : buffer_of_.at(kernel.region.inputs[from - 2]));
    }

    GemmShape& gemm = kernel.shape;
    gemm.batch = hint(launch.batch);
    gemm.m = hint(launch.m);
    gemm.n = hint(launch.n);
    gemm.k = hint(launch.k);
    gemm.a = region.graph.type(operands[0]).dtype;
    gemm.b = region.graph.type(operands[1]).dtype;
    gemm.accumulator = region.graph.type(region.matmul).dtype;
    gemm.a_row_stride = launch.a_transposed ? 1 : gemm.k;
    gemm.a_k_stride = launch.a_transposed ? gemm.m : 1;
    gemm.b_k_stride = launch.b_transposed ? 1 : gemm.n;
    gemm.b_col_stride = launch.b_transposed ? gemm.k : 1;
    const Dim one = Dim::constant(1);
    gemm.a_batch_stride = a_shape.size() > 2 && !(a_shape[0] == one) ? gemm.m * gemm.k : 0;
    gemm.b_batch_stride = b_shape.size() > 2 && !(b_shape[0] == one) ? gemm.k * gemm.n : 0;
    kernel.discovery = discover(kernel.lowered.program, gemm, plan_.target, machine_);
    if (kernel.discovery.candidates.empty()) {
      const Rejection& last = kernel.discovery.rejections.back();
      return diag::error(static_cast<diag::Code>(last.code), "no kernel computes this product")
          .at(graph_.source(), graph_.span(kernel.region.matmul), ir::to_string(graph_.type(kernel.region.matmul)))
          .reason(last.text)
          .help("choose another target, or other element types");
    }
    launches_.push_back(std::move(launch));
    plan_.kernels.push_back(std::move(kernel));
    return {};
  }

  // Launches with Allocate before the first use of a temporary and Free behind its last.
  Result<void> schedule() {
    struct Span {
      size_t first = SIZE_MAX, last = 0;
    };
    std::map<uint32_t, Span> spans;  // by temporary: launches that use it
    for (size_t r = 0; r < launches_.size(); ++r) {
      std::vector<uint32_t> used = launches_[r].arguments;
      used.insert(used.end(), {launches_[r].a, launches_[r].b});
      for (uint32_t buffer : used) {
        if (plan_.buffers[buffer].role != Buffer::Role::Temporary) continue;
        spans[buffer].first = std::min(spans[buffer].first, r);
        spans[buffer].last = r;
      }
    }
    std::map<uint32_t, size_t> allocate_step;
    for (size_t r = 0; r < launches_.size(); ++r) {
      for (const auto& [buffer, span] : spans) {
        if (span.first != r) continue;
        allocate_step[buffer] = plan_.steps.size();
        plan_.steps.emplace_back(package::AllocateFromPool{buffer, 0, {}});
        MemoryRequest request;
        request.buffer = buffer;
        request.bytes = bytes_of(plan_.buffers[buffer]);
        request.hint = hint(request.bytes);
        request.alignment = memory_alignment();
        request.dtype = plan_.buffers[buffer].dtype;
        request.first = span.first;
        request.last = span.last;
        for (const uint32_t operand : launches_[r].arguments) {
          if (spans.count(operand) != 0 && updates_in_place(r, operand, buffer)) request.in_place_of.push_back(operand);
        }
        plan_.temporaries.requests.push_back(std::move(request));
      }
      plan_.steps.emplace_back(launches_[r]);
      for (const auto& [buffer, span] : spans) {
        if (span.last == r) plan_.steps.emplace_back(package::Free{buffer});
      }
    }
    plan_.steps.emplace_back(package::Return{});
    CODETTA_TRY(plan_.memory, plan_memory(plan_.temporaries));
    CODETTA_CHECK_OK(check_memory(plan_.temporaries, plan_.memory));
    for (const MemoryPool& pool : plan_.memory.pools) plan_.pools.push_back({pool.device, pool.bytes, pool.alignment});
    // A pool of nothing, too, for temporaries of no bytes.
    if (plan_.pools.empty() && !spans.empty()) plan_.pools.push_back({0, Dim::constant(0), memory_alignment()});
    for (size_t i = 0; i < plan_.memory.placements.size(); ++i) {
      const Placement& placement = plan_.memory.placements[i];
      auto& step = plan_.steps[allocate_step.at(plan_.temporaries.requests[i].buffer)];
      std::get_if<package::AllocateFromPool>(&step)->pool = placement.pool;
      std::get_if<package::AllocateFromPool>(&step)->offset = placement.offset;
    }
    return {};
  }

  // A cache line; what CUDA's allocations have.
  [[nodiscard]] int64_t memory_alignment() const { return plan_.target.backend == Backend::cpu ? 64 : 256; }

  // Whether launch r reads `operand` nowhere but at the element of `result` that it writes.
  [[nodiscard]] bool updates_in_place(size_t r, uint32_t operand, uint32_t result) const {
    const package::LaunchKernel& launch = launches_[r];
    const auto& arguments = launch.arguments;
    const auto once = [&](uint32_t buffer) { return std::count(arguments.begin(), arguments.end(), buffer) == 1; };
    const auto index = [&](uint32_t buffer) {
      return static_cast<uint32_t>(std::find(arguments.begin(), arguments.end(), buffer) - arguments.begin());
    };
    if (operand == result || operand == launch.a || operand == launch.b || !once(operand) || !once(result))
      return false;
    const Buffer &from = plan_.buffers[operand], &to = plan_.buffers[result];
    return from.dtype == to.dtype && from.shape == to.shape &&
           may_be_in_place(plan_.kernels[r].lowered.program, !(launch.batch == Dim::constant(1)), index(operand),
                           index(result));
  }

  const ir::Graph& graph_;
  const MachineFacts& machine_;
  const std::vector<std::pair<std::string, int64_t>>& hints_;
  Plan plan_;
  ProgramRegions regions_;
  std::vector<package::LaunchKernel> launches_;
  std::map<NodeId, uint32_t> buffer_of_;
  size_t first_output_ = 0;
};

}  // namespace

Result<Plan> plan_program(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                          const std::vector<std::pair<std::string, int64_t>>& size_hints) {
  return ProgramPlanner(graph, target, machine, size_hints).run();
}

}  // namespace codetta::plan
