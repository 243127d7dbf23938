// SPDX-License-Identifier: Apache-2.0
// plan_program: a kernel a region, temporaries between them.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "plan/family_map.hpp"
#include "plan/guards.hpp"
#include "plan/memory_check.hpp"
#include "plan/order.hpp"
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
    std::map<NodeId, Discovery> found;  // of products, by matmul: the last one is of the region that stays
    const Refusal refuses = [&](const KernelRegion& region) -> std::optional<Rejection> {
      Discovery& discovery = found[*region.matmul];
      discovery = discover(region.lowered.program, gemm_shape(region), plan_.target, machine_);
      if (!discovery.candidates.empty()) return std::nullopt;
      return discovery.rejections.back();
    };
    CODETTA_TRY(ProgramRegions regions, find_regions(graph_, refuses));
    plan_.notes = std::move(regions.notes);
    std::vector<KernelAccount> accounts = account_for(graph_, regions.kernels);
    add_buffers();
    for (size_t k = 0; k < regions.kernels.size(); ++k) {
      KernelRegion& region = regions.kernels[k];
      PlannedKernel kernel;
      kernel.account = std::move(accounts[k]);
      if (region.matmul) {
        kernel.shape = gemm_shape(region);
        kernel.discovery = std::move(found[*region.matmul]);
      } else {
        kernel.discovery = discover_map(
            region.lowered.program, {hint(region.batch), hint(region.rows), hint(region.cols)}, plan_.target, machine_);
        if (kernel.discovery.candidates.empty()) {
          const Rejection& last = kernel.discovery.rejections.back();
          return diag::error(static_cast<diag::Code>(last.code), "no kernel computes this")
              .at(graph_.source(), graph_.span(region.stores[0].node))
              .reason(last.text)
              .help("choose another target");
        }
      }
      add_kernel(std::move(region), std::move(kernel));
    }
    define_symbols(plan_.buffers, plan_.steps);
    std::vector<KernelUse> uses;
    for (size_t r = 0; r < launches_.size(); ++r)
      uses.push_back({launches_[r].product, !(launches_[r].batch == Dim::constant(1)),
                      &plan_.kernels[r].lowered.program, &launches_[r].arguments});
    add_guards(plan_.buffers, uses, plan_.steps);
    CODETTA_CHECK_OK(schedule());
    return std::move(plan_);
  }

 private:
  void add_buffers() {
    for (const ir::GraphInput& input : graph_.inputs()) {
      const ir::TensorType& type = graph_.type(input.node);
      input_buffer_[input.node] = static_cast<uint32_t>(plan_.buffers.size());
      plan_.buffers.push_back({input.name, Buffer::Role::Argument, type.dtype, input.is_scalar, type.shape, {}});
    }
    first_output_ = plan_.buffers.size();
    for (const ir::GraphOutput& output : graph_.outputs()) {
      plan_.buffers.push_back(
          {output.name, Buffer::Role::Output, output.dtype, false, graph_.type(output.node).shape, {}});
    }
  }

  // Where a value is stored; parts of a join share a buffer.
  uint32_t stored_buffer(const StoredValue& store) {
    const DType dtype = graph_.type(store.target).dtype;
    if (store.output) {
      const auto buffer = static_cast<uint32_t>(first_output_ + *store.output);
      if (plan_.buffers[buffer].dtype == dtype && graph_.node(store.target).op != types::Op::input)
        buffer_of_.emplace(store.target, buffer);
      return buffer;
    }
    const auto [at, fresh] = buffer_of_.emplace(store.target, static_cast<uint32_t>(plan_.buffers.size()));
    if (fresh) {
      plan_.buffers.push_back({fmt::format("t{}", store.target.index()),
                               Buffer::Role::Temporary,
                               dtype,
                               false,
                               graph_.type(store.target).shape,
                               {}});
    }
    return at->second;
  }
  [[nodiscard]] uint32_t read_buffer(NodeId node) const {
    const auto stored = buffer_of_.find(node);
    return stored != buffer_of_.end() ? stored->second : input_buffer_.at(node);
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

  [[nodiscard]] GemmShape gemm_shape(const KernelRegion& region) const {
    const auto operands = graph_.operands(*region.matmul);
    const auto& a_shape = graph_.type(operands[0]).shape;
    const auto& b_shape = graph_.type(operands[1]).shape;
    GemmShape gemm;
    gemm.batch = hint(region.batch);
    gemm.m = hint(region.rows);
    gemm.n = hint(region.cols);
    gemm.k = hint(a_shape.back());
    gemm.a = graph_.type(operands[0]).dtype;
    gemm.b = graph_.type(operands[1]).dtype;
    gemm.accumulator = graph_.type(*region.matmul).dtype;
    gemm.a_row_stride = region.a.transposed ? 1 : gemm.k;
    gemm.a_k_stride = region.a.transposed ? gemm.m : 1;
    gemm.b_k_stride = region.b.transposed ? 1 : gemm.n;
    gemm.b_col_stride = region.b.transposed ? gemm.k : 1;
    const auto batched = [](const std::vector<Dim>& shape) {
      return std::any_of(shape.begin(), shape.end() - 2, [](const Dim& dim) { return !(dim == Dim::constant(1)); });
    };
    gemm.a_batch_stride = batched(a_shape) ? gemm.m * gemm.k : 0;
    gemm.b_batch_stride = batched(b_shape) ? gemm.k * gemm.n : 0;
    return gemm;
  }

  void add_kernel(KernelRegion region, PlannedKernel kernel) {
    package::LaunchKernel launch;
    launch.kernel = static_cast<uint32_t>(plan_.kernels.size());
    launch.batch = region.batch;
    launch.m = region.rows;
    launch.n = region.cols;
    Region& planned = kernel.region;
    planned.kind = region.matmul ? Region::Kind::Product : Region::Kind::Map;
    planned.matmul = region.matmul.value_or(region.stores[0].node);
    if (region.matmul) {
      package::Product& product = launch.product.emplace();
      product.a = read_buffer(region.a.source);
      product.b = read_buffer(region.b.source);
      product.a_transposed = region.a.transposed;
      product.b_transposed = region.b.transposed;
      product.k = graph_.type(graph_.operands(*region.matmul)[0]).shape.back();
    }
    // What is read is known before anything is stored: a copy reads its input.
    std::vector<uint32_t> buffers;
    for (NodeId leaf : region.leaves) buffers.push_back(read_buffer(leaf));
    for (const StoredValue& store : region.stores) buffers.push_back(stored_buffer(store));
    for (uint32_t from : region.lowered.argument_input) launch.arguments.push_back(buffers[from]);
    planned.inputs = std::move(region.leaves);
    for (const StoredValue& store : region.stores) planned.outputs.push_back(store.node);
    kernel.lowered = std::move(region.lowered);
    launches_.push_back(std::move(launch));
    plan_.kernels.push_back(std::move(kernel));
  }

  // Parts of a join share a buffer: the first writer makes it, the others find it there, and readers wait for all.
  static void order_writers(std::vector<OrderStep>& steps, size_t buffers) {
    std::vector<std::vector<uint32_t>> writers(buffers);
    for (uint32_t s = 0; s < steps.size(); ++s) {
      for (const uint32_t buffer : steps[s].makes) writers[buffer].push_back(s);
    }
    for (OrderStep& step : steps) {
      for (const uint32_t buffer : step.reads) {
        if (writers[buffer].size() > 1)
          step.behind.insert(step.behind.end(), writers[buffer].begin(), writers[buffer].end());
      }
    }
    for (uint32_t s = 0; s < steps.size(); ++s) {
      std::erase_if(steps[s].makes, [&](uint32_t buffer) {
        const bool later = writers[buffer].front() != s;
        if (later) steps[s].reads.push_back(buffer);
        return later;
      });
    }
  }

  // Launches in the order that needs the least memory at once.
  Result<void> order_launches() {
    const int64_t most = INT64_MAX / static_cast<int64_t>(plan_.buffers.size() + 1);
    std::vector<OrderBuffer> buffers;
    for (const Buffer& buffer : plan_.buffers) {
      const bool temporary = buffer.role == Buffer::Role::Temporary;
      buffers.push_back({temporary ? std::min(hint(bytes_of(buffer)), most) : 0, !temporary});
    }
    std::vector<OrderStep> steps;
    for (const package::LaunchKernel& launch : launches_) {
      OrderStep step;
      if (launch.product) step.reads = {launch.product->a, launch.product->b};
      const auto& arguments = plan_.kernels[launch.kernel].lowered.program.arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        auto& list = arguments[i].is_output ? step.makes : step.reads;
        if (std::find(list.begin(), list.end(), launch.arguments[i]) == list.end()) list.push_back(launch.arguments[i]);
      }
      steps.push_back(std::move(step));
    }
    order_writers(steps, buffers.size());
    CODETTA_TRY(const StepOrder order, order_for_memory(steps, buffers));
    std::vector<package::LaunchKernel> ordered;
    for (const uint32_t r : order.steps) ordered.push_back(std::move(launches_[r]));
    launches_ = std::move(ordered);
    return {};
  }

  // Launches with Allocate before the first use of a temporary and Free behind its last.
  Result<void> schedule() {
    CODETTA_CHECK_OK(order_launches());
    struct Span {
      size_t first = SIZE_MAX, last = 0;
    };
    std::map<uint32_t, Span> spans;  // by temporary: launches that use it
    for (size_t r = 0; r < launches_.size(); ++r) {
      std::vector<uint32_t> used = launches_[r].arguments;
      if (const auto& product = launches_[r].product) used.insert(used.end(), {product->a, product->b});
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
    const auto& product = launch.product;
    if (product && (operand == product->a || operand == product->b)) return false;
    if (operand == result || !once(operand) || !once(result)) return false;
    const Buffer &from = plan_.buffers[operand], &to = plan_.buffers[result];
    return from.dtype == to.dtype && from.shape == to.shape &&
           may_be_in_place(plan_.kernels[launch.kernel].lowered.program, !(launch.batch == Dim::constant(1)),
                           index(operand), index(result));
  }

  const ir::Graph& graph_;
  const MachineFacts& machine_;
  const std::vector<std::pair<std::string, int64_t>>& hints_;
  Plan plan_;
  std::vector<package::LaunchKernel> launches_;
  std::map<NodeId, uint32_t> input_buffer_, buffer_of_;  // of inputs; of stored values (and copies of inputs)
  size_t first_output_ = 0;
};

}  // namespace

Result<Plan> plan_program(const ir::Graph& graph, const Target& target, const MachineFacts& machine,
                          const std::vector<std::pair<std::string, int64_t>>& size_hints) {
  return ProgramPlanner(graph, target, machine, size_hints).run();
}

}  // namespace codetta::plan
