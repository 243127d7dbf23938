// SPDX-License-Identifier: Apache-2.0
// Geometry, workspace and parameters of a CUDA kernel; see device/gpu/abi.h for what they mean.
#include "runtime/cuda/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace codetta::runtime::cuda {

namespace abi = codetta::gpu;

namespace {

constexpr int64_t workspace_step = 256;  // alignment of everything in the workspace
constexpr size_t max_parameter_bytes = 4096;
constexpr int64_t pack_alignment = 16;  // bytes that rows of a packed factor are multiples of
constexpr int64_t pack_blocks = 8;      // a multiprocessor, which walk the rows

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Error misfit(const std::string& name, const std::string& reason) {
  return diag::error(diag::Code::guard_failed, fmt::format("{} does not fit the kernel", name))
      .reason(reason)
      .help("find a kernel with this view");
}

Error beyond(const std::string& kernel, const std::string& reason) {
  return diag::error(diag::Code::launch_limits, "the launch exceeds a limit of the device")
      .reason(fmt::format("{} {}", kernel, reason))
      .help("choose another kernel of the list, or split the problem");
}

// Sizes of the workspace's parts; any overflow makes the whole size negative.
class Placer {
 public:
  int64_t add(std::initializer_list<int64_t> factors) {
    const int64_t at = end_;
    int64_t bytes = 1;
    for (const int64_t factor : factors) {
      const auto product = base::checked_mul(bytes, factor);
      if (!product) overflow_ = true;
      bytes = product.value_or(0);
    }
    const auto rounded = base::checked_round_up(bytes, workspace_step);
    const auto end = rounded ? base::checked_add(end_, *rounded) : std::nullopt;
    if (!end) overflow_ = true;
    end_ = end.value_or(end_);
    return at;
  }
  [[nodiscard]] int64_t end() const { return overflow_ ? -1 : end_; }

 private:
  int64_t end_ = 0;
  bool overflow_ = false;
};

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

Result<Launch> Launch::make(const package::Package& package, const package::LaunchKernel& step,
                            const Bindings& bindings, ModuleRef module, const Symbols& symbols) {
  Launch launch;
  launch.package_ = &package;
  launch.step_ = &step;
  launch.kernel_ = &package.kernels[step.kernel];
  launch.module_ = std::move(module);
  const auto* map = std::get_if<package::GpuMapConfig>(&launch.kernel_->config);
  launch.config_ = map != nullptr ? package::pieces_of(*map) : package::gpu(launch.kernel_->config);
  const package::GpuGemmConfig& config = launch.config_;
  const package::EpilogueProgram& program = launch.kernel_->epilogue;
  abi::Problem& p = launch.geometry_.problem;
  CODETTA_TRY(p.batches, value_of(step.batch, symbols, "the batch"));
  CODETTA_TRY(p.m, value_of(step.m, symbols, "M"));
  CODETTA_TRY(p.n, value_of(step.n, symbols, "N"));
  if (step.product) {
    CODETTA_TRY(p.k, value_of(step.product->k, symbols, "K"));
  }
  const int64_t ways = program.split.ways;
  CODETTA_TRY(p.chunk, value_of(program.split.chunk, symbols, "the chunk of a split"));
  p.rows = p.m;
  p.cols = p.n / ways;
  if (ways == 1) p.chunk = std::max<int64_t>(p.cols, 1);
  if (ways > 1 && (p.n % ways != 0 || p.chunk < 1 || p.cols % p.chunk != 0)) {
    return diag::error(diag::Code::guard_failed, fmt::format("{} columns cannot be split", p.n))
        .reason(fmt::format("the kernel takes {} parts in chunks of {}", ways, p.chunk))
        .help("use a number of columns that is a multiple of both");
  }
  if (const auto& product = step.product) {
    CODETTA_CHECK_OK(check_view(package.buffers[product->a], bindings.tensors[product->a], symbols));
    CODETTA_CHECK_OK(check_view(package.buffers[product->b], bindings.tensors[product->b], symbols));
    CODETTA_CHECK_OK(check_factor(package.buffers[product->a], bindings.tensors[product->a], product->a_transposed,
                                  p.batches, p.m, p.k));
    CODETTA_CHECK_OK(check_factor(package.buffers[product->b], bindings.tensors[product->b], product->b_transposed,
                                  p.batches, p.k, p.n));
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const package::Buffer& buffer = package.buffers[step.arguments[i]];
    if (!buffer.is_scalar) CODETTA_CHECK_OK(check_view(buffer, bindings.tensors[step.arguments[i]], symbols));
  }
  for (const package::Operand& operand : program.operands) {
    CODETTA_CHECK_OK(plan_operand(operand, symbols, launch.plans_.emplace_back()));
  }
  p.tiles_m = ceil_div(p.rows, config.tile_m);
  p.tiles_n = ceil_div(p.cols, std::max<int64_t>(config.tile_n / ways, 1));
  p.pieces_m = ceil_div(p.rows, config.piece_rows);
  p.pieces_n = ceil_div(p.cols, config.piece_cols);
  p.k_slice = std::max<int64_t>(ceil_div(ceil_div(p.k, config.k_split), config.tile_k), 1) * config.tile_k;
  p.k_split = std::max<int64_t>(ceil_div(p.k, p.k_slice), 1);
  p.group = static_cast<abi::u64>(std::max(config.group, 1));
  launch.geometry_.empty = p.batches == 0 || p.rows == 0 || p.cols == 0;
  const int64_t cluster = int64_t{config.cluster_m} * config.cluster_n;
  const auto tiles = base::checked_mul(ceil_div(p.tiles_m, config.cluster_m), ceil_div(p.tiles_n, config.cluster_n));
  const auto all = tiles ? base::checked_mul(*tiles, cluster * p.k_split) : std::nullopt;
  const auto blocks = all ? base::checked_mul(*all, p.batches) : std::nullopt;
  if (!blocks) return beyond(launch.kernel_->name, "has more than 2^63 blocks");
  launch.geometry_.blocks = *blocks;
  CODETTA_CHECK_OK(launch.check_factors(bindings));
  CODETTA_CHECK_OK(launch.plan_nothing(bindings));
  launch.plan_packing(bindings);
  CODETTA_CHECK_OK(launch.plan_entries());
  CODETTA_CHECK_OK(launch.plan_workspace());
  return launch;
}

// Loads that meet nothing still have an address: that of a 0 on the device. Errors: E0618 where elements are taken by
// indices out of what has none, since each index is out of range then.
Result<void> Launch::plan_nothing(const Bindings& bindings) {
  const package::EpilogueProgram& program = kernel_->epilogue;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const package::Operand& operand = program.operands[i];
    const TensorView& view = bindings.tensors[step_->arguments[operand.argument]];
    if (operand.is_store || geometry_.empty || !meets_nothing(plans_[i], view)) continue;
    if (!operand.gathered.empty()) {
      return diag::error(diag::Code::index_range, fmt::format("elements of {} are taken by indices, and it has none",
                                                              program.arguments[operand.argument].name))
          .reason(fmt::format("it is {}, and {} elements are computed of it", view.describe(),
                              geometry_.problem.batches * geometry_.problem.rows * geometry_.problem.cols))
          .help("pass a tensor with elements, or no indices");
    }
    zero_at_ = 0;
  }
  return {};
}

// What the kernel was compiled to rely on: adjacent elements along one dim, and alignment.
Result<void> Launch::check_factors(const Bindings& bindings) const {
  const package::GpuGemmConfig& config = config_;
  if (config.family == package::GpuFamily::Simt || !step_->product) return {};
  const struct {
    uint32_t buffer;
    bool transposed, k_last, k_major, packed;
    DType dtype;
  } factors[] = {
      {step_->product->a, step_->product->a_transposed, true, config.a_k_major, config.pack_a, config.a_dtype},
      {step_->product->b, step_->product->b_transposed, false, config.b_k_major, config.pack_b, config.b_dtype}};
  for (const auto& factor : factors) {
    const TensorView& view = bindings.tensors[factor.buffer];
    const std::string& name = package_->buffers[factor.buffer].name;
    if (view.empty() || factor.packed) continue;
    const int rows = view.rank() - 2, cols = view.rank() - 1;
    const bool k_is_last = factor.k_last != factor.transposed;
    const int fast = factor.k_major == k_is_last ? cols : rows, slow = fast == cols ? rows : cols;
    if (view.size(fast) > 1 && view.stride(fast) != 1) {
      return misfit(name, fmt::format("its elements are {} apart along {}, and {} reads them side by side",
                                      view.stride(fast), factor.k_major ? "K" : "the other dim", kernel_->name));
    }
    const int64_t element = dtype_size(factor.dtype);
    if (reinterpret_cast<uintptr_t>(view.data()) % static_cast<uintptr_t>(config.alignment) != 0) {
      return misfit(name, fmt::format("its address is no multiple of {} bytes", config.alignment));
    }
    for (int dim = 0; dim < view.rank(); ++dim) {
      if (dim == fast || view.size(dim) <= 1 || view.stride(dim) * element % config.alignment == 0) continue;
      return misfit(name, fmt::format("its stride in {} is {} bytes, no multiple of {}",
                                      dim == slow ? "the slower dim" : "the batch", view.stride(dim) * element,
                                      config.alignment));
    }
  }
  return {};
}

// Sizes and strides of the copies; their addresses come with resolve().
void Launch::plan_packing(const Bindings& bindings) {
  if (!step_->product) return;
  const package::GpuGemmConfig& config = config_;
  const abi::Problem& p = geometry_.problem;
  const package::Product& product = *step_->product;
  const struct {
    bool packed, k_major, transposed, k_last;
    uint32_t buffer;
    int64_t other;
    DType dtype;
  } factors[] = {{config.pack_a, config.a_k_major, product.a_transposed, true, product.a, p.m, config.a_dtype},
                 {config.pack_b, config.b_k_major, product.b_transposed, false, product.b, p.n, config.b_dtype}};
  int count = 0;
  for (const auto& factor : factors) {
    if (!factor.packed) continue;
    const TensorView& view = bindings.tensors[factor.buffer];
    const int k_dim = view.rank() - (factor.transposed == factor.k_last ? 2 : 1);
    const int other_dim = view.rank() - (factor.transposed == factor.k_last ? 1 : 2);
    const int64_t k_stride = view.stride(k_dim), other_stride = view.stride(other_dim);
    const int64_t batch_stride = runtime::batch_stride(view).value_or(0),
                  unit = pack_alignment / dtype_size(factor.dtype);
    abi::Packing& packing = packing_.factor[count++];
    packing.batches = batch_stride == 0 ? 1 : std::max<int64_t>(p.batches, 1);
    packing.fast = factor.k_major ? p.k : factor.other;
    packing.slow = factor.k_major ? factor.other : p.k;
    packing.batch_stride = batch_stride;
    packing.fast_stride = factor.k_major ? k_stride : other_stride;
    packing.slow_stride = factor.k_major ? other_stride : k_stride;
    packing.packed_stride = ceil_div(packing.fast, unit) * unit;
  }
}

Result<void> Launch::plan_workspace() {
  const package::GpuGemmConfig& config = config_;
  const package::EpilogueProgram& program = kernel_->epilogue;
  abi::Problem& p = geometry_.problem;
  const int64_t accumulator = dtype_size(config.accumulator);
  Placer placer;
  if (zero_at_ >= 0) zero_at_ = placer.add({workspace_step});
  counter_bytes_ = placer.end();
  if (config.stream_k && !geometry_.empty) {
    // As sm90::Schedule of device/cuda/kernels/sm90.h counts them.
    const int64_t cluster = int64_t{config.cluster_m} * config.cluster_n, tiles = geometry_.blocks / cluster;
    const int64_t clusters = gemm_blocks_ / cluster, full = tiles / clusters;
    const int64_t cut = tiles % clusters == 0 ? 0 : tiles - (std::max<int64_t>(full, 1) - 1) * clusters;
    if (cut > 0) {
      const int64_t steps = ceil_div(p.k, config.tile_k), share = ceil_div(cut * steps, clusters);
      p.k_split = ceil_div(steps, share) + 1;
      counters_at_ = placer.add({cut, cluster, 4});
      counter_bytes_ = placer.end();
      slices_at_ = placer.add({cut, cluster, p.k_split, int64_t{config.tile_m} * config.tile_n, accumulator});
    }
  } else if (p.k_split > 1) {
    const int64_t tiles = geometry_.blocks / p.k_split;
    counters_at_ = placer.add({tiles, 4});
    counter_bytes_ = placer.end();
    slices_at_ = placer.add({tiles, p.k_split, int64_t{config.tile_m} * config.tile_n, accumulator});
  }
  for (int factor = 0, place = 0; factor < 2; ++factor) {
    if (!(factor == 0 ? config.pack_a : config.pack_b)) continue;
    const abi::Packing& packing = packing_.factor[place++];
    packed_at_[factor] = placer.add({packing.batches, packing.slow, packing.packed_stride,
                                     dtype_size(factor == 0 ? config.a_dtype : config.b_dtype)});
  }
  for (size_t i = 1; i < program.phases.size(); ++i) {
    if (!program.phases[i].reads_accumulator || accumulators_at_ >= 0) continue;
    accumulators_at_ = placer.add({p.batches, program.split.ways, p.rows, p.cols, accumulator});
  }
  for (const package::Reduction& reduction : program.reductions) {
    const int64_t element = dtype_size(reduction.type);
    const int64_t values = reduction.kind == package::ReduceKind::LogSumExp ? 2 : 1;
    int64_t pieces = p.pieces_m, results = p.cols;
    if (reduction.axis == package::ReduceAxis::Row) pieces = p.pieces_n, results = p.rows;
    int64_t partials = 0;
    if (reduction.axis == package::ReduceAxis::All || reduction.axis == package::ReduceAxis::Item) {
      partials = placer.add({p.batches, p.pieces_m, p.pieces_n, values, element});
      results = 1;
    } else {
      partials = placer.add({p.batches, pieces, results, values, element});
    }
    reductions_at_.emplace_back(partials, placer.add({std::max<int64_t>(p.batches, 1), results, element}));
  }
  workspace_bytes = placer.end();
  if (workspace_bytes >= 0) return {};
  return diag::error(diag::Code::tensor_overflow, fmt::format("the workspace of {} overflows", kernel_->name))
      .reason("its parts exceed 2^63 bytes together")
      .help("use smaller sizes");
}

Result<void> Launch::plan_entries() {
  const package::GpuGemmConfig& config = config_;
  const package::EpilogueProgram& program = kernel_->epilogue;
  const abi::Problem& p = geometry_.problem;
  const Device& device = *module_->device();
  const DeviceFacts& facts = device.facts();
  const DriverTable& call = device.driver().call();
  const int cluster = config.cluster_m * config.cluster_n;
  for (const package::GpuEntry& wanted : kernel_->entries) {
    const bool is_gemm = wanted.kind == package::GpuEntry::Kind::Gemm;
    Entry entry;
    CODETTA_TRY(entry.function, module_->function(wanted.symbol, wanted.shared_bytes, is_gemm ? cluster : 1));
    if (wanted.threads > entry.function.facts.max_threads) {
      return beyond(wanted.symbol, fmt::format("has blocks of {} threads and registers for {}", wanted.threads,
                                               entry.function.facts.max_threads));
    }
    LaunchConfig& launch = entry.config;
    launch.block_x = static_cast<unsigned>(wanted.threads);
    launch.block_y = launch.block_z = 1;
    launch.dynamic_shared = static_cast<unsigned>(wanted.shared_bytes);
    if (is_gemm && cluster > 1) {
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
    int64_t grid[3] = {1, 1, 1};
    if (is_gemm) {
      grid[0] = geometry_.blocks;
      entry.skipped = geometry_.empty;
      if (config.persistent && !entry.skipped) {
        CODETTA_TRY(const ContextGuard guard, device.enter());
        int fit = 0;
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
        if (fit < 1) {
          return beyond(wanted.symbol, fmt::format("fits no multiprocessor of {}: clusters of {} blocks of {} threads "
                                                   "with {} bytes of shared memory",
                                                   facts.name, cluster, wanted.threads, wanted.shared_bytes));
        }
        const int64_t work = config.stream_k ? grid[0] * ceil_div(p.k, config.tile_k) : grid[0];
        grid[0] = std::min<int64_t>(work, int64_t{fit} * cluster);
        gemm_blocks_ = grid[0];
      }
    } else if (wanted.kind == package::GpuEntry::Kind::Pack) {
      const int count = (config.pack_a ? 1 : 0) + (config.pack_b ? 1 : 0);
      int64_t rows = 0;
      for (int i = 0; i < count; ++i)
        rows = std::max<int64_t>(rows, packing_.factor[i].batches * packing_.factor[i].slow);
      const int64_t warps = std::max(wanted.threads / 32, 1);
      grid[0] = std::min(ceil_div(rows, warps), int64_t{facts.multiprocessors} * pack_blocks);
      grid[1] = count;
      entry.packs = true;
      entry.skipped = geometry_.empty || p.k == 0 || rows == 0 || count == 0;
    } else if (wanted.kind == package::GpuEntry::Kind::Combine) {
      int64_t largest = 0, count = 0;
      for (const package::Reduction& reduction : program.reductions) {
        if (reduction.phase != wanted.index) continue;
        ++count;
        // A block finishes one result of an item, which has as many partials as there are pieces.
        const int64_t results = reduction.axis == package::ReduceAxis::Row      ? p.batches * p.rows
                                : reduction.axis == package::ReduceAxis::Column ? p.batches * p.cols
                                : reduction.axis == package::ReduceAxis::Item
                                    ? p.batches * std::max(wanted.results_per_block, 1)
                                    : 1;
        largest = std::max(largest, results);
      }
      grid[0] = ceil_div(largest, std::max(wanted.results_per_block, 1));
      grid[1] = count;
      entry.skipped = grid[0] == 0 || count == 0;
    } else {
      // Over an empty root space the stores of finished reductions are still owed: one block looks at them. A block of
      // a panel walks its rows itself.
      grid[0] = wanted.kind == package::GpuEntry::Kind::Panel ? 1 : std::max<int64_t>(p.pieces_n, 1);
      grid[1] = std::clamp<int64_t>(p.pieces_m, 1, facts.max_grid[1]);
      grid[2] = std::clamp<int64_t>(p.batches, 1, facts.max_grid[2]);
    }
    for (int i = 0; i < 3 && !entry.skipped; ++i) {
      if (grid[i] > facts.max_grid[i]) {
        return beyond(wanted.symbol,
                      fmt::format("needs a grid of {} x {} x {} blocks; {} takes {} x {} x {}", grid[0], grid[1],
                                  grid[2], facts.name, facts.max_grid[0], facts.max_grid[1], facts.max_grid[2]));
      }
    }
    launch.grid_x = static_cast<unsigned>(grid[0]);
    launch.grid_y = static_cast<unsigned>(grid[1]);
    launch.grid_z = static_cast<unsigned>(grid[2]);
    entries_.push_back(std::move(entry));
  }
  const size_t bytes = sizeof(abi::TensorMap) * std::max<size_t>(kernel_->maps.size(), 1) + sizeof(abi::Problem) +
                       sizeof(abi::Operand) * std::max<size_t>(program.operands.size(), 1) +
                       sizeof(abi::ScalarValue) * std::max<size_t>(program.arguments.size(), 1) +
                       sizeof(abi::ReductionBuffers) * std::max<size_t>(program.reductions.size(), 1);
  if (bytes > max_parameter_bytes) {
    return beyond(kernel_->name,
                  fmt::format("has {} bytes of parameters; {} can be passed", bytes, max_parameter_bytes));
  }
  parameters_.resize((bytes + 63) / 64 * 64);
  return {};
}

Result<void> Launch::encode(const package::CudaTensorMap& map, const Bindings& bindings, TensorMap& encoded) const {
  const package::GpuGemmConfig& config = config_;
  const abi::Problem& p = geometry_.problem;
  TiledView view;
  view.box_fast = map.box_fast;
  view.box_slow = map.box_slow;
  view.swizzle_bytes = map.swizzle_bytes;
  int64_t slow = 0, batch = 0;
  switch (map.source) {
    case package::CudaTensorMap::Source::A:
      view.name = package_->buffers[step_->product->a].name;
      view.dtype = config.a_dtype;
      view.address = reinterpret_cast<uintptr_t>(p.a);
      view.fast = config.a_k_major ? p.k : p.m;
      view.slow = config.a_k_major ? p.m : p.k;
      slow = config.a_k_major ? p.a_row : p.a_k;
      batch = p.a_batch;
      break;
    case package::CudaTensorMap::Source::B:
      view.name = package_->buffers[step_->product->b].name;
      view.dtype = config.b_dtype;
      view.address = reinterpret_cast<uintptr_t>(p.b);
      view.fast = config.b_k_major ? p.k : p.n;
      view.slow = config.b_k_major ? p.n : p.k;
      slow = config.b_k_major ? p.b_col : p.b_k;
      batch = p.b_batch;
      break;
    case package::CudaTensorMap::Source::Operand: {
      const package::Operand& operand = kernel_->epilogue.operands[map.operand];
      const codetta::cpu::Operand at =
          resolve_operand(operand, plans_[map.operand], bindings.tensors[step_->arguments[operand.argument]]);
      view.name = package_->buffers[step_->arguments[operand.argument]].name;
      view.dtype = operand.dtype;
      view.address = reinterpret_cast<uintptr_t>(at.data);
      view.fast = p.cols;
      view.slow = p.rows;
      if (const int64_t row = p.cols * dtype_size(operand.dtype); operand.is_store && row % config.alignment != 0) {
        return misfit(view.name, fmt::format("its rows have {} bytes, and {} stores {} at a time", row, kernel_->name,
                                             config.alignment));
      }
      slow = at.stride[1];
      batch = at.stride[0];
      break;
    }
  }
  const int64_t element = dtype_size(view.dtype);
  view.slow_stride = slow * element;
  view.batch_stride = batch * element;
  view.batches = batch == 0 ? 1 : p.batches;
  CODETTA_TRY(const ContextGuard guard, module_->device()->enter());  // the driver encodes for the current context
  return encode_tiled(module_->device()->driver(), view, encoded);
}

Result<void> Launch::resolve(const Bindings& bindings, DeviceAddress workspace) {
  const package::EpilogueProgram& program = kernel_->epilogue;
  const auto at = [&](int64_t offset) -> void* {
    return offset < 0 ? nullptr : reinterpret_cast<void*>(workspace + static_cast<uint64_t>(offset));
  };
  abi::Problem& p = geometry_.problem;
  if (const auto& product = step_->product) {
    const TensorView &a = bindings.tensors[product->a], &b = bindings.tensors[product->b];
    p.a = a.data();
    p.a_batch = batch_stride(a).value_or(0);
    p.a_row = a.stride(a.rank() - (product->a_transposed ? 1 : 2));
    p.a_k = a.stride(a.rank() - (product->a_transposed ? 2 : 1));
    p.b = b.data();
    p.b_batch = batch_stride(b).value_or(0);
    p.b_k = b.stride(b.rank() - (product->b_transposed ? 1 : 2));
    p.b_col = b.stride(b.rank() - (product->b_transposed ? 2 : 1));
  }
  const package::GpuGemmConfig& config = config_;
  int place = 0;
  const auto packed = [&](int factor, bool k_major, const void*& data, abi::i64& batch, abi::i64& k, abi::i64& other) {
    if (packed_at_[factor] < 0) return;
    abi::Packing& packing = packing_.factor[place++];
    packing.from = data;
    packing.to = at(packed_at_[factor]);
    data = packing.to;
    batch = packing.batch_stride == 0 ? 0 : packing.slow * packing.packed_stride;
    k = k_major ? 1 : packing.packed_stride;
    other = k_major ? packing.packed_stride : 1;
  };
  packed(0, config.a_k_major, p.a, p.a_batch, p.a_k, p.a_row);
  packed(1, config.b_k_major, p.b, p.b_batch, p.b_k, p.b_col);
  p.accumulators = at(accumulators_at_);
  p.slices = at(slices_at_);
  p.counters = static_cast<abi::u32*>(at(counters_at_));

  size_t offset = 0;
  if (!geometry_.empty && p.k != 0) {
    for (size_t i = 0; i < kernel_->maps.size(); ++i) {
      TensorMap map{};
      CODETTA_CHECK_OK(encode(kernel_->maps[i], bindings, map));
      put(parameters_, i * sizeof(abi::TensorMap), map);
    }
  }
  offset += sizeof(abi::TensorMap) * std::max<size_t>(kernel_->maps.size(), 1);
  put(parameters_, offset, p);
  offset += sizeof p;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const package::Operand& operand = program.operands[i];
    const codetta::cpu::Operand resolved =
        resolve_operand(operand, plans_[i], bindings.tensors[step_->arguments[operand.argument]]);
    abi::Operand value{};
    value.data = resolved.data;
    if (!operand.is_store && meets_nothing(plans_[i], bindings.tensors[step_->arguments[operand.argument]]))
      value.data = at(zero_at_);
    for (size_t s = 0; s < package::max_index_terms; ++s) value.stride[s] = resolved.stride[s];
    put(parameters_, offset + i * sizeof value, value);
  }
  offset += sizeof(abi::Operand) * std::max<size_t>(program.operands.size(), 1);
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    if (!program.arguments[i].is_scalar) continue;
    static_assert(sizeof(codetta::cpu::ScalarValue) == sizeof(abi::ScalarValue));
    put(parameters_, offset + i * sizeof(abi::ScalarValue), bindings.scalars[step_->arguments[i]]);
  }
  offset += sizeof(abi::ScalarValue) * std::max<size_t>(program.arguments.size(), 1);
  for (size_t i = 0; i < reductions_at_.size(); ++i) {
    put(parameters_, offset + i * sizeof(abi::ReductionBuffers),
        abi::ReductionBuffers{at(reductions_at_[i].first), at(reductions_at_[i].second)});
  }
  return {};
}

Status Launch::run(StreamHandle stream) const {
  const DriverTable& call = module_->device()->driver().call();
  void* parameters[] = {const_cast<std::byte*>(parameters_.data())};  // the driver copies them
  void* packing[] = {const_cast<abi::PackParams*>(&packing_)};
  for (const Entry& entry : entries_) {
    if (entry.skipped) continue;
    LaunchConfig config = entry.config;
    config.stream = stream;
    config.attributes = const_cast<LaunchAttribute*>(entry.attributes.data());
    config.attribute_count = static_cast<unsigned>(entry.attributes.size());
    const Status status =
        call.launch_kernel(&config, entry.function.handle, entry.packs ? packing : parameters, nullptr);
    if (status != Status::Success) return status;
  }
  return Status::Success;
}

}  // namespace codetta::runtime::cuda
