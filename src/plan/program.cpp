// SPDX-License-Identifier: Apache-2.0
// plan_program: one kernel a product, temporaries between them.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "plan/guards.hpp"
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
    std::vector<Lifetime> lifetimes;
    for (size_t r = 0; r < launches_.size(); ++r) {
      for (const auto& [buffer, span] : spans) {
        if (span.first != r) continue;
        allocate_step[buffer] = plan_.steps.size();
        plan_.steps.emplace_back(package::AllocateFromPool{buffer, 0, {}});
      }
      plan_.steps.emplace_back(launches_[r]);
      for (const auto& [buffer, span] : spans) {
        if (span.last != r) continue;
        lifetimes.push_back(
            {buffer, hint(bytes_of(plan_.buffers[buffer])), allocate_step[buffer], plan_.steps.size(), 0});
        plan_.steps.emplace_back(package::Free{buffer});
      }
    }
    plan_.steps.emplace_back(package::Return{});
    return place(std::move(lifetimes), allocate_step);
  }

  // Offsets are numbers where all sizes are; else expressions: lifetimes in a row, each in a slot of exactly its size.
  Result<void> place(std::vector<Lifetime> lifetimes, const std::map<uint32_t, size_t>& allocate_step) {
    std::sort(lifetimes.begin(), lifetimes.end(),
              [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
    const auto offset_of = [&](uint32_t buffer) -> Dim& {
      return std::get_if<package::AllocateFromPool>(&plan_.steps[allocate_step.at(buffer)])->offset;
    };
    const bool symbolic = std::any_of(lifetimes.begin(), lifetimes.end(), [&](const Lifetime& l) {
      return !bytes_of(plan_.buffers[l.buffer]).is_constant();
    });
    plan_.memory = plan_memory(lifetimes);
    if (!symbolic) {
      CODETTA_CHECK_OK(check_memory(plan_.memory));
      for (const Lifetime& lifetime : plan_.memory.lifetimes)
        offset_of(lifetime.buffer) = Dim::constant(lifetime.offset);
      if (!lifetimes.empty()) plan_.pools.push_back({0, Dim::constant(plan_.memory.bytes), memory_alignment});
      return {};
    }
    struct Slot {
      Dim size, offset;
      size_t free_after = 0;
      int64_t hinted = 0;
    };
    std::vector<Slot> slots;
    Dim end = Dim::constant(0);
    int64_t hinted_end = 0;
    for (Lifetime& lifetime : lifetimes) {
      const Dim unit = Dim::constant(memory_alignment);
      const Dim size =
          floordiv(bytes_of(plan_.buffers[lifetime.buffer]) + Dim::constant(memory_alignment - 1), unit) * unit;
      auto slot = std::find_if(slots.begin(), slots.end(),
                               [&](const Slot& s) { return s.free_after < lifetime.first && s.size == size; });
      if (slot == slots.end()) {
        slot = slots.insert(slots.end(), {size, end, 0, hinted_end});
        end = end + size;
        hinted_end += base::round_up(lifetime.bytes, memory_alignment);
      }
      slot->free_after = lifetime.last;
      lifetime.offset = slot->hinted;
      offset_of(lifetime.buffer) = slot->offset;
    }
    plan_.memory.lifetimes = std::move(lifetimes);
    plan_.memory.bytes = hinted_end;
    plan_.pools.push_back({0, end, memory_alignment});
    return check_memory(plan_.memory);
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
