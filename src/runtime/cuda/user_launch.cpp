// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/user_launch.hpp"

#include <cstring>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "package/plain_map.hpp"
#include "runtime/checks.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace codetta::runtime::cuda {

namespace shared = codetta::gpu::host;

Result<UserLaunch> UserLaunch::make(const package::Package& package, const package::LaunchKernel& step,
                                    const Bindings& bindings, ModuleRef module, const Symbols& symbols) {
  UserLaunch launch;
  launch.package_ = &package;
  launch.step_ = &step;
  launch.kernel_ = &package.kernels[step.kernel];
  launch.module_ = std::move(module);
  launch.skipped_ = true;
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    const package::Buffer& buffer = package.buffers[step.arguments[i]];
    if (buffer.is_scalar) continue;
    const TensorView& view = bindings.tensors[step.arguments[i]];
    CODETTA_CHECK_OK(check_view(buffer, view, symbols));
    if (launch.kernel_->epilogue.arguments[i].is_output && !view.empty()) launch.skipped_ = false;
  }
  if (launch.skipped_) return launch;
  CODETTA_CHECK_OK(launch.plan(symbols));
  return launch;
}

Result<void> UserLaunch::plan(const Symbols& symbols) {
  const package::LaunchOptions& options = step_->options;
  for (size_t i = 0; i < 3; ++i) {
    CODETTA_TRY(shape_.grid[i], value_of(options.grid[i], symbols, "the grid"));
    CODETTA_TRY(shape_.block[i], value_of(options.block[i], symbols, "the block"));
    shape_.cluster[i] = options.cluster[i];
  }
  CODETTA_TRY(shape_.shared, value_of(options.shared_bytes, symbols, "the dynamic shared memory"));
  shape_.cooperative = options.cooperative;
  shape_.programmatic = options.programmatic;
  shape_.maps = !options.maps.empty();
  const std::string& symbol = kernel_->entries[0].symbol;
  const auto cluster = static_cast<int>(shape_.cluster_blocks());
  CODETTA_TRY(function_, module_->function(symbol, 0, cluster));
  const Device& device = *module_->device();
  const DeviceFacts& facts = device.facts();
  limits_ = {facts.name.c_str(),
             {facts.max_grid[0], facts.max_grid[1], facts.max_grid[2]},
             {facts.max_block[0], facts.max_block[1], facts.max_block[2]},
             function_.facts.max_threads,
             function_.facts.static_shared,
             facts.shared_per_block_optin,
             facts.major,
             facts.cooperative,
             facts.max_window_bytes,
             facts.tensor_maps,
             facts.most_grid_threads};
  shared::Trouble trouble;
  if (!shared::check_user_launch(kernel_->name.c_str(), shape_, limits_, trouble)) return error_of(trouble);
  if (shape_.shared > 0) {
    CODETTA_TRY(function_, module_->function(symbol, static_cast<int>(shape_.shared), cluster));
  }
  shared::set_user_shape(shape_, config_);
  values_.resize(step_->arguments.size() + options.sizes.size());
  for (size_t i = 0; i < options.sizes.size(); ++i) {
    CODETTA_TRY(const int64_t size, value_of(options.sizes[i], symbols, "a size of the kernel"));
    const bool narrow = i < package::max_user_sizes && (package::gpu_user(kernel_->config).narrow >> i & 1) != 0;
    gpu::u64 bits = 0;
    if (!shared::user_size(kernel_->name.c_str(), static_cast<gpu::i32>(i), size, narrow, bits, trouble))
      return error_of(trouble);
    values_[step_->arguments.size() + i] = bits;
  }
  if (options.window) {
    CODETTA_TRY(window_.bytes, value_of(options.window->bytes, symbols, "the window of L2"));
    window_.per_mille = options.window->per_mille;
  }
  if (!shape_.cooperative) return {};
  LaunchAttribute attributes[shared::most_user_attributes];
  LaunchConfig query = config_;
  query.attributes = attributes;
  query.attribute_count =
      static_cast<unsigned>(shared::user_attributes(shape_, limits_, shared::UserWindow{}, attributes));
  CODETTA_TRY(const ContextGuard guard, device.enter());
  int held = 0;
  if (shape_.clustered()) {
    CODETTA_CUDA(device.driver(), "cuOccupancyMaxActiveClusters", symbol,
                 device.driver().call().max_active_clusters(&held, function_.handle, &query));
    held *= cluster;
  } else {
    const int64_t threads = shape_.block[0] * shape_.block[1] * shape_.block[2];
    CODETTA_CUDA(device.driver(), "cuOccupancyMaxActiveBlocksPerMultiprocessor", symbol,
                 device.driver().call().max_active_blocks(&held, function_.handle, static_cast<int>(threads),
                                                          static_cast<size_t>(shape_.shared)));
    held *= facts.multiprocessors;
  }
  if (!shared::check_cooperative(kernel_->name.c_str(), shape_, held, facts.name.c_str(), trouble))
    return error_of(trouble);
  return {};
}

Result<void> UserLaunch::resolve(const Bindings& bindings) {
  if (skipped_) return {};
  for (size_t i = 0; i < step_->arguments.size(); ++i) {
    const uint32_t b = step_->arguments[i];
    const package::Buffer& buffer = package_->buffers[b];
    if (buffer.is_scalar) {
      values_[i] = 0;
      store_scalar(bindings.scalars[b], buffer.dtype, reinterpret_cast<std::byte*>(&values_[i]));
    } else {
      values_[i] = reinterpret_cast<uintptr_t>(bindings.tensors[b].data());
    }
  }
  if (step_->options.window) {
    const TensorView& view = bindings.tensors[step_->arguments[step_->options.window->argument]];
    const int64_t extent = shared::user_extent(
        view.rank(), [&](int d) { return view.size(d); }, [&](int d) { return view.stride(d); });
    window_.base = view.data();
    window_.tensor = view.empty() ? 0 : extent * dtype_size(view.dtype());
  }
  parameters_.clear();
  for (gpu::u64& value : values_) parameters_.push_back(&value);
  CODETTA_CHECK_OK(encode_maps(bindings));
  const package::GpuUserConfig& config = package::gpu_user(kernel_->config);
  const shared::UserHook hook{config.hook, config.hook_first, config.hook_arguments, config.hook_sizes};
  block_.resize(static_cast<size_t>(config.hook_arguments + config.hook_sizes));
  parameters_.resize(static_cast<size_t>(shared::user_parameters(hook, static_cast<gpu::i32>(step_->arguments.size()),
                                                                 static_cast<gpu::i32>(step_->options.sizes.size()),
                                                                 values_.data(), block_.data(), parameters_.data())));
  attributes_.resize(shared::most_user_attributes);
  attributes_.resize(static_cast<size_t>(shared::user_attributes(shape_, limits_, window_, attributes_.data())));
  return {};
}

Result<void> UserLaunch::encode_maps(const Bindings& bindings) {
  const std::vector<package::TensorMap>& wanted = step_->options.maps;
  maps_.resize(wanted.size());
  if (wanted.empty()) return {};
  const Device& device = *module_->device();
  CODETTA_TRY(const ContextGuard guard, device.enter());  // the driver encodes for the current context
  for (size_t i = 0; i < wanted.size(); ++i) {
    const uint32_t b = step_->arguments[wanted[i].argument];
    const TensorView& tensor = bindings.tensors[b];
    shared::UserMapView view{};
    view.name = package_->buffers[b].name.c_str();
    view.dtype = static_cast<gpu::u8>(tensor.dtype());
    view.address = reinterpret_cast<uintptr_t>(tensor.data());
    view.rank = tensor.rank();
    for (int d = 0; d < tensor.rank(); ++d) {
      view.size[d] = tensor.size(tensor.rank() - 1 - d);
      view.stride[d] = tensor.stride(tensor.rank() - 1 - d);
    }
    const auto plain = package::plain_map<shared::UserMap>(wanted[i], static_cast<size_t>(tensor.rank()));
    CODETTA_CHECK_OK(encode_user(device.driver(), plain, view, maps_[i]));
    parameters_[wanted[i].argument] = &maps_[i];
  }
  return {};
}

Status UserLaunch::run(StreamHandle stream) const {
  if (skipped_) return Status::Success;
  LaunchConfig config = config_;
  config.stream = stream;
  config.attributes = const_cast<LaunchAttribute*>(attributes_.data());
  config.attribute_count = static_cast<unsigned>(attributes_.size());
  return module_->device()->driver().call().launch_kernel(&config, function_.handle,
                                                          const_cast<void**>(parameters_.data()), nullptr);
}

std::string UserLaunch::describe() const {
  return fmt::format("grid {} x {} x {}, block {} x {} x {}, {} bytes of dynamic shared memory", shape_.grid[0],
                     shape_.grid[1], shape_.grid[2], shape_.block[0], shape_.block[1], shape_.block[2], shape_.shared);
}

}  // namespace codetta::runtime::cuda
