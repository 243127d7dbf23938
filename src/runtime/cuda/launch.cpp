// SPDX-License-Identifier: Apache-2.0
// From a package, bound views and a loaded module to the plan of a launch, and its parameters.
#include "runtime/cuda/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "diag/diagnostic.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace codetta::runtime::cuda {

namespace gpu = codetta::gpu;
namespace shared = codetta::gpu::host;

KernelTables::KernelTables(const package::Kernel& kernel, bool has_product) {
  const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config);
  const package::GpuGemmConfig config = map != nullptr ? package::pieces_of(*map) : package::gpu(kernel.config);
  const package::EpilogueProgram& program = kernel.epilogue;
  for (const package::GpuEntry& entry : kernel.entries) {
    entries_.push_back({static_cast<gpu::u8>(entry.kind), entry.index, entry.symbol.c_str(), entry.threads,
                        entry.shared_bytes, entry.results_per_block});
  }
  for (const package::CudaTensorMap& one : kernel.maps)
    maps_.push_back({static_cast<gpu::u8>(one.source), one.column_major, one.operand, one.box_fast, one.box_slow,
                     one.swizzle_bytes});
  for (const package::Reduction& reduction : program.reductions) {
    reductions_.push_back({static_cast<gpu::u8>(reduction.axis), reduction.phase,
                           static_cast<int32_t>(dtype_size(reduction.type)), package::values_of(reduction.kind)});
  }
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const package::Operand& operand = program.operands[i];
    const package::FoldSlots slots = package::fold_slots_of(program, i);
    operands_.push_back({static_cast<gpu::u8>(operand.dtype), operand.is_store, slots.batch, slots.row});
  }
  kernel_.name = kernel.name.c_str();
  kernel_.family = static_cast<gpu::u8>(config.family);
  kernel_.a_dtype = static_cast<gpu::u8>(config.a_dtype);
  kernel_.b_dtype = static_cast<gpu::u8>(config.b_dtype);
  kernel_.has_product = has_product;
  kernel_.a_k_major = config.a_k_major;
  kernel_.b_k_major = config.b_k_major;
  kernel_.pack_a = config.pack_a && has_product;
  kernel_.pack_b = config.pack_b && has_product;
  kernel_.persistent = config.persistent;
  kernel_.stream_k = config.stream_k;
  kernel_.combines = config.combines;
  kernel_.whole_rows = config.whole_rows;
  for (size_t i = 1; i < program.phases.size(); ++i)
    kernel_.keeps_accumulators |= program.phases[i].reads_accumulator && !config.whole_rows;
  kernel_.folds = has_product && package::rows_fold_by_slots(program);
  kernel_.missing_when = package::missing_when(program, has_product);
  kernel_.accumulator_bytes = static_cast<int32_t>(dtype_size(config.accumulator));
  kernel_.tile_m = config.tile_m;
  kernel_.tile_n = config.tile_n;
  kernel_.tile_k = config.tile_k;
  kernel_.cluster_m = config.cluster_m;
  kernel_.cluster_n = config.cluster_n;
  kernel_.k_split = config.k_split;
  kernel_.group = config.group;
  kernel_.alignment = config.alignment;
  kernel_.piece_rows = config.piece_rows;
  kernel_.piece_cols = config.piece_cols;
  kernel_.ways = program.split.ways;
  kernel_.loaded_bytes = package::bytes_of_loads(program);
  kernel_.spread_a = config.spread_a;
  kernel_.a_rows = config.a_rows;
  kernel_.entries = entries_.data();
  kernel_.maps = maps_.data();
  kernel_.reductions = reductions_.data();
  kernel_.operands = operands_.data();
  kernel_.entry_count = static_cast<int32_t>(entries_.size());
  kernel_.map_count = static_cast<int32_t>(maps_.size());
  kernel_.reduction_count = static_cast<int32_t>(reductions_.size());
  kernel_.operand_count = static_cast<int32_t>(operands_.size());
  kernel_.argument_count = static_cast<int32_t>(program.scalar_count());
}

Error error_of(const shared::Trouble& trouble) {
  return diag::error(static_cast<diag::Code>(trouble.code), trouble.headline).reason(trouble.reason).help(trouble.help);
}

// A factor of the product, whose views were checked.
shared::Factor Launch::factor(const Bindings& bindings, bool is_a) const {
  const package::Product& product = *step_->product;
  const package::EpilogueProgram& program = kernel_->epilogue;
  if (is_a ? program.makes_a() : program.makes_b()) return {};  // nothing lies in memory
  return is_a ? factor_at(bindings, product.a, true, a_plan_) : factor_b(bindings, 0);
}
shared::Factor Launch::factor_b(const Bindings& bindings, size_t of) const {
  return factor_at(bindings, step_->product->factor_b(of), false, b_plans_[of]);
}
shared::Factor Launch::factor_at(const Bindings& bindings, uint32_t buffer, bool is_a, const FactorPlan& seen) const {
  const bool transposed = is_a ? step_->product->a_transposed : step_->product->b_transposed;
  const TensorView view = runtime::factor_of(bindings.tensors[buffer], seen);
  const bool k_is_last = is_a != transposed;
  const int k_dim = view.rank() - (k_is_last ? 1 : 2), other_dim = view.rank() - (k_is_last ? 2 : 1);
  shared::Factor factor;
  factor.name = package_->buffers[buffer].name.c_str();
  factor.data = view.data();
  const items::Items items = items_of(view).value_or(items::Items());
  factor.batch = items.stride;
  factor.skip = items.skip;
  factor.inner = items.inner;
  factor.other = view.stride(other_dim);
  factor.k = view.stride(k_dim);
  for (int dim = 0; dim + 2 < view.rank(); ++dim) factor.batches *= view.size(dim);
  factor.others = view.size(other_dim);
  factor.ks = view.size(k_dim);
  factor.empty = view.empty();
  return factor;
}

// Addresses and strides as the views have them.
std::vector<gpu::Operand> Launch::operands(const Bindings& bindings) const {
  const package::EpilogueProgram& program = kernel_->epilogue;
  std::vector<gpu::Operand> operands(program.operands.size());
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const codetta::cpu::Operand resolved =
        resolve_operand(program.operands[i], plans_[i], bound(program.operands[i], bindings));
    operands[i].data = resolved.data;
    for (size_t s = 0; s < package::max_index_terms; ++s) operands[i].stride[s] = resolved.stride[s];
  }
  return operands;
}

Result<Launch> Launch::make(const package::Package& package, const package::LaunchKernel& step,
                            const Bindings& bindings, ModuleRef module, const Symbols& symbols, bool& unaligned) {
  CODETTA_TRY(Launch launch, planned(package, step, bindings, symbols, unaligned));
  launch.module_ = std::move(module);
  const bool zero = launch.needs_zero(bindings);
  CODETTA_CHECK_OK(launch.plan_entries());
  CODETTA_CHECK_OK(launch.plan_workspace(zero));
  return launch;
}

Result<LaunchRoom> Launch::room(const package::Package& package, const package::LaunchKernel& step,
                                const Bindings& bindings, const Symbols& symbols, int multiprocessors) {
  bool unaligned = false;
  CODETTA_TRY(Launch launch, planned(package, step, bindings, symbols, unaligned));
  const shared::Kernel& kernel = launch.tables_.get();
  LaunchRoom room;
  if (kernel.stream_k && step.product) {
    const int64_t cluster = int64_t{kernel.cluster_m} * kernel.cluster_n;
    const int64_t units = launch.plan_.blocks * shared::ceil_div(launch.plan_.problem.k, kernel.tile_k);
    launch.plan_.gemm_blocks = std::min(units, std::max(multiprocessors / cluster, int64_t{1}) * cluster);
    room.estimated = true;
  }
  const bool zero = launch.needs_zero(bindings);
  CODETTA_CHECK_OK(launch.plan_workspace(zero));
  room.workspace_bytes = launch.workspace_bytes;
  room.counter_bytes = launch.counter_bytes();
  return room;
}

Result<void> Launch::check(const package::Package& package, const package::LaunchKernel& step, const Bindings& bindings,
                           const Symbols& symbols, bool& unaligned) {
  const Result<Launch> launch = planned(package, step, bindings, symbols, unaligned);
  return launch ? Result<void>() : launch.error();
}

Result<void> Launch::plan_workspace(bool zero) {
  shared::Trouble trouble;
  reserved_.resize(kernel_->epilogue.reductions.size());
  if (!shared::plan_workspace(tables_.get(), zero, plan_, reserved_.data(), trouble)) return error_of(trouble);
  workspace_bytes = plan_.workspace;
  return {};
}

// All that the device has no part in.
Result<Launch> Launch::planned(const package::Package& package, const package::LaunchKernel& step,
                               const Bindings& bindings, const Symbols& symbols, bool& unaligned) {
  Launch launch;
  launch.package_ = &package;
  launch.step_ = &step;
  launch.kernel_ = &package.kernels[step.kernel];
  launch.tables_ = KernelTables(*launch.kernel_, step.product.has_value());
  const shared::Kernel& kernel = launch.tables_.get();
  const package::EpilogueProgram& program = launch.kernel_->epilogue;
  shared::Plan& plan = launch.plan_;
  CODETTA_TRY(const int64_t batches, value_of(step.batch, symbols, "the batch"));
  CODETTA_TRY(const int64_t m, value_of(step.m, symbols, "M"));
  CODETTA_TRY(const int64_t n, value_of(step.n, symbols, "N"));
  int64_t k = 0;
  if (step.product) {
    CODETTA_TRY(k, value_of(step.product->k, symbols, "K"));
  }
  CODETTA_TRY(const int64_t chunk, value_of(program.split.chunk, symbols, "the chunk of a split"));
  CODETTA_CHECK_OK(plan_sizes(program, symbols, launch.sizes_));
  static_assert(shared::most_spaces == package::max_products);
  for (const package::ProductSpace& space : program.spaces) plan.widths[plan.spaces++] = launch.sizes_[space.columns];
  shared::Trouble trouble;
  if (!shared::plan_sizes(kernel, batches, m, n, k, chunk, plan, trouble)) {
    unaligned = trouble.unaligned;
    return error_of(trouble);
  }
  if (const auto& product = step.product) {
    const auto check = [&](uint32_t buffer, bool is_a, int64_t rows, int64_t cols, size_t of = 0) -> Result<void> {
      const TensorView& lies = bindings.tensors[buffer];
      FactorPlan& seen = is_a ? launch.a_plan_ : launch.b_plans_[of];
      const package::FactorView view = is_a ? product->a_view : package::view_of_b(*product, program, of);
      CODETTA_CHECK_OK(check_view(package.buffers[buffer], lies, symbols));
      CODETTA_CHECK_OK(plan_factor(package.buffers[buffer], view, lies, symbols, seen));
      return check_factor(package.buffers[buffer], runtime::factor_of(lies, seen),
                          is_a ? product->a_transposed : product->b_transposed, batches, rows, cols);
    };
    launch.b_plans_.resize(product->products());
    if (!program.makes_a()) CODETTA_CHECK_OK(check(product->a, true, m, k));
    for (size_t i = 0; i < product->products() && !program.makes_b(); ++i) {
      const auto products = static_cast<int64_t>(product->products());
      const int64_t columns = shared::columns_of_b(plan, products, static_cast<int32_t>(i));
      CODETTA_CHECK_OK(check(product->factor_b(i), false, k, columns, i));
      if (i > 0 && !shared::check_factor(kernel, launch.factor_b(bindings, i), false, trouble)) {
        unaligned = trouble.unaligned;
        return error_of(trouble);
      }
    }
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const package::Buffer& buffer = package.buffers[step.arguments[i]];
    if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[step.arguments[i]], symbols));
  }
  for (const package::Operand& operand : program.operands) {
    CODETTA_CHECK_OK(plan_operand(operand, symbols, launch.plans_.emplace_back()));
  }
  if (step.product) {
    shared::Factor a = launch.factor(bindings, true);
    const shared::Factor b = launch.factor(bindings, false);
    const bool folds = shared::fold_batch(kernel, a, b, launch.operands(bindings).data(), plan, trouble);
    shared::fold(plan, a);
    if (!folds || !shared::plan_product(kernel, a, b, plan, trouble)) {
      unaligned = trouble.unaligned;
      return error_of(trouble);
    }
  }
  return launch;
}

// Loads that meet nothing still have an address: that of a 0 on the device, also over an empty root space, where the
// block that looks at the stores of finished reductions reads what is the same everywhere.
bool Launch::needs_zero(const Bindings& bindings) {
  const package::EpilogueProgram& program = kernel_->epilogue;
  bool needed = false;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const package::Operand& operand = program.operands[i];
    const TensorView& view = bound(operand, bindings);
    if (operand.is_store || !meets_nothing(plans_[i], view)) continue;
    needed = true;
    if (operand.gathered.empty() || plan_.empty) continue;
    shared::Trouble trouble;
    shared::gathers_nothing(plan_, program.arguments[operand.argument].name.c_str(), view.describe().c_str(), trouble);
    gathers_nothing = error_of(trouble);
  }
  return needed;
}

Result<void> Launch::plan_entries() {
  const shared::Kernel& kernel = tables_.get();
  const Device& device = *module_->device();
  const DeviceFacts& facts = device.facts();
  const DriverTable& call = device.driver().call();
  const shared::DeviceLimits device_limits{
      facts.name.c_str(), facts.multiprocessors, {facts.max_grid[0], facts.max_grid[1], facts.max_grid[2]}};
  for (int32_t i = 0; i < kernel.entry_count; ++i) {
    const shared::Entry& wanted = kernel.entries[i];
    const int cluster = shared::cluster_of(kernel, wanted);
    Entry entry;
    CODETTA_TRY(entry.function, module_->function(wanted.symbol, wanted.shared_bytes, cluster));
    shared::Trouble trouble;
    if (wanted.threads > entry.function.facts.max_threads) {
      shared::beyond(trouble, "%.200s has blocks of %d threads and registers for %d", wanted.symbol, wanted.threads,
                     entry.function.facts.max_threads);
      return error_of(trouble);
    }
    shared::DeviceLimits limits = device_limits;
    if (const gpu::i64 blocks = facts.most_grid_threads / wanted.threads; blocks > 0)
      limits.max_grid[0] = std::min(limits.max_grid[0], blocks);
    LaunchConfig& launch = entry.config;
    launch.block_x = static_cast<unsigned>(wanted.threads);
    launch.block_y = launch.block_z = 1;
    launch.dynamic_shared = static_cast<unsigned>(wanted.shared_bytes);
    if (cluster > 1) {
      LaunchAttribute attribute{};
      attribute.id = launch_cluster_dimension;
      attribute.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
      entry.attributes.push_back(attribute);
    }
    if (facts.major >= 9) {
      // Every entry waits for its predecessor by itself, and may begin before that ends.
      LaunchAttribute attribute{};
      attribute.id = launch_programmatic_serialization;
      attribute.value.flag = 1;
      entry.attributes.push_back(attribute);
    }
    int fit = 0;
    if (shared::needs_fit(kernel, wanted, plan_)) {
      CODETTA_TRY(const ContextGuard guard, device.enter());
      if (cluster > 1) {
        LaunchConfig query = launch;
        query.grid_x = static_cast<unsigned>(cluster);
        query.grid_y = query.grid_z = 1;
        query.attributes = entry.attributes.data();
        query.attribute_count = 1;
        CODETTA_CUDA(device.driver(), "cuOccupancyMaxActiveClusters", wanted.symbol,
                     call.max_active_clusters(&fit, entry.function.handle, &query));
      } else {
        CODETTA_CUDA(device.driver(), "cuOccupancyMaxActiveBlocksPerMultiprocessor", wanted.symbol,
                     call.max_active_blocks(&fit, entry.function.handle, wanted.threads,
                                            static_cast<size_t>(wanted.shared_bytes)));
        fit *= facts.multiprocessors;
      }
    }
    shared::Grid grid{};
    if (!shared::plan_grid(kernel, wanted, limits, fit, plan_, grid, trouble)) return error_of(trouble);
    entry.skipped = grid.skipped;
    entry.packs = grid.packs;
    launch.grid_x = static_cast<unsigned>(grid.blocks[0]);
    launch.grid_y = static_cast<unsigned>(grid.blocks[1]);
    launch.grid_z = static_cast<unsigned>(grid.blocks[2]);
    entries_.push_back(std::move(entry));
  }
  shared::Trouble trouble;
  if (!shared::check_parameters(kernel, trouble)) return error_of(trouble);
  parameters_.resize(static_cast<size_t>(shared::parameter_bytes(kernel)));
  return {};
}

Result<void> Launch::resolve(const Bindings& bindings, DeviceAddress counters, DeviceAddress workspace,
                             bool& unaligned) {
  const shared::Kernel& kernel = tables_.get();
  const package::EpilogueProgram& program = kernel_->epilogue;
  auto *memory = reinterpret_cast<char*>(workspace), *counted = reinterpret_cast<char*>(counters);
  auto* parameters = reinterpret_cast<char*>(parameters_.data());
  shared::Factor a, b;
  if (step_->product) a = factor(bindings, true), b = factor(bindings, false);
  shared::fold(plan_, a);
  shared::resolve(kernel, a, b, counted, memory, plan_);
  std::vector<gpu::Operand> operands = this->operands(bindings);
  shared::fold(kernel, plan_, operands.data());
  std::vector<gpu::ScalarValue> scalars(program.scalar_count());
  const auto nothing = std::make_unique<bool[]>(program.operands.size());
  for (size_t i = 0; i < program.operands.size(); ++i)
    nothing[i] = meets_nothing(plans_[i], bound(program.operands[i], bindings));
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    if (!program.arguments[i].is_scalar) continue;
    static_assert(sizeof(codetta::cpu::ScalarValue) == sizeof(gpu::ScalarValue));
    std::memcpy(&scalars[i], &bindings.scalars[step_->arguments[i]], sizeof scalars[i]);
  }
  for (size_t i = 0; i < sizes_.size(); ++i) scalars[program.arguments.size() + i].i = sizes_[i];
  for (int32_t i = 0; shared::uses_maps(kernel, plan_) && i < kernel.map_count; ++i) {
    const shared::Map& map = shared::encoded_map(kernel, plan_, i);
    const auto& product = step_->product;
    const uint32_t buffer = map.source == shared::map_a   ? product->a
                            : map.source == shared::map_b ? product->b
                                                          : step_->arguments[program.operands[map.operand].argument];
    shared::Tiled view;
    shared::Trouble trouble;
    const gpu::Operand none{};
    const bool own = shared::of_operand(map);
    if (!shared::tiled_view(kernel, plan_, map, own ? operands[map.operand] : none,
                            package_->buffers[buffer].name.c_str(), view, trouble)) {
      unaligned = trouble.unaligned;
      return error_of(trouble);
    }
    TensorMap encoded{};
    CODETTA_TRY(const ContextGuard guard, module_->device()->enter());  // the driver encodes for the current context
    CODETTA_CHECK_OK(encode_tiled(module_->device()->driver(), view, encoded, unaligned));
    std::memcpy(parameters + static_cast<size_t>(i) * sizeof encoded, &encoded, sizeof encoded);
  }
  shared::write_parameters(kernel, plan_, operands.data(), nothing.get(), scalars.data(), reserved_.data(), counted,
                           memory, parameters);
  return {};
}

Status Launch::run(StreamHandle stream, bool& enqueued) const {
  const DriverTable& call = module_->device()->driver().call();
  void* parameters[] = {const_cast<std::byte*>(parameters_.data())};  // the driver copies them
  void* packing[] = {const_cast<gpu::PackParams*>(&plan_.packing)};
  for (const Entry& entry : entries_) {
    if (entry.skipped) continue;
    LaunchConfig config = entry.config;
    config.stream = stream;
    config.attributes = const_cast<LaunchAttribute*>(entry.attributes.data());
    config.attribute_count = static_cast<unsigned>(entry.attributes.size());
    const Status status =
        call.launch_kernel(&config, entry.function.handle, entry.packs ? packing : parameters, nullptr);
    if (status != Status::Success) return status;
    enqueued = true;
  }
  return Status::Success;
}

}  // namespace codetta::runtime::cuda
