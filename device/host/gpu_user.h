// SPDX-License-Identifier: Apache-2.0
// Launches of kernels of the user's in emitted C++ host text for a GPU, by the rules of user_launch.h.
#pragma once

#include "device/host/gpu.h"
#include "device/host/user_launch.h"
#include "device/host/user_maps.h"

namespace codetta::host {

constexpr plan::Kernel user_kernel(const char* name, const plan::Entry* entry) {
  plan::Kernel kernel{};
  kernel.name = name;
  kernel.entries = entry;
  kernel.entry_count = 1;
  return kernel;
}

// What a kernel of the user's is passed: the address of a tensor's elements, or a number.
struct UserValue {
  const View* view;  // null: a number
  const char* name;  // of the tensor
  u64 bits;          // of the number, as its type has them, low bytes first
  bool is_result;
};
inline UserValue user_tensor(const View& view, const char* name, bool is_result) { return {&view, name, 0, is_result}; }
inline UserValue user_number(const cpu::ScalarValue& value, i32 dtype) {
  UserValue number{nullptr, "", value.u, false};  // of integers the low bytes
  if (dtype == 13) number.bits = 0, memcpy(&number.bits, &value.f, sizeof value.f);
  if (dtype == 14) memcpy(&number.bits, &value.d, sizeof value.d);
  if (dtype >= 9 && dtype <= 12) number.bits = 0, codetta_engine_store(dtype, &number.bits, value.f);
  return number;
}

// One launch as the text of a program has it.
struct UserStep {
  const UserValue* values;
  i32 value_count;
  const Number* sizes;  // integers behind the values
  i32 size_count;
  codetta::gpu::u32 narrow;  // bit i: size i is passed in 32 bits
  Number grid[3], block[3], shared;
  i32 cluster[3];
  bool cooperative, programmatic;
  i32 window;  // which value a window of L2 is for; -1: there is none
  Number window_bytes;
  i32 per_mille;
  const plan::UserMap* maps;  // each stands for the value that it walks
  i32 map_count;
  plan::UserHook hook;
};

// What the driver is asked for; `placed`: where the tensor lies is known.
inline Status user_map(const plan::UserMap& wanted, const UserValue& value, bool placed, plan::UserMapArguments& call) {
  const View& tensor = *value.view;
  plan::UserMapView view{};
  view.name = value.name;
  view.dtype = static_cast<codetta::gpu::u8>(tensor.dtype);
  view.address = placed ? reinterpret_cast<codetta::gpu::u64>(tensor.data) : 0;
  view.rank = tensor.rank;
  for (i32 d = 0; d < tensor.rank; ++d) {
    view.size[d] = tensor.size[tensor.rank - 1 - d];
    view.stride[d] = tensor.stride[tensor.rank - 1 - d];
  }
  plan::Trouble trouble;
  return plan::user_map(wanted, view, call, trouble) ? ok : fail(trouble);
}

inline Status encode_user(const plan::UserMap& wanted, const UserValue& value, cuda_driver::TensorMap& map) {
  plan::UserMapArguments call;
  CODETTA_OK(user_map(wanted, value, true, call));
  const GpuCalls& calls = gpu_library.calls;
  void* address = value.view->data;
  const DriverStatus status =
      wanted.im2col ? calls.map_im2col(&map, call.dtype, call.rank, address, call.sizes, call.strides, call.lower,
                                       call.upper, call.channels, call.pixels, call.steps, call.interleave,
                                       call.swizzle, call.promotion, call.fill)
                    : calls.map_tiled(&map, call.dtype, call.rank, address, call.sizes, call.strides, call.box,
                                      call.steps, call.interleave, call.swizzle, call.promotion, call.fill);
  if (status == DriverStatus::Success) return ok;
  return fail(gpu_failed, "E0647: Failed to initialize the TMA descriptor of %.160s with error: %s; it is %s",
              value.name, driver_text(calls, status), describe(*value.view));
}

inline Status ask_user_facts(const GpuDevice& device, GpuFunction& function) {
  GpuUserFacts& facts = function.user;
  if (__atomic_load_n(&facts.ready, __ATOMIC_ACQUIRE) != 0) return ok;
  const Locked locked(gpu_library.starting);
  if (facts.ready != 0) return ok;
  const GpuCalls& calls = gpu_library.calls;
  const struct {
    int attribute;
    int* value;
  } wanted[] = {{cuda_driver::device_max_block_x, &facts.max_block[0]},
                {cuda_driver::device_max_block_y, &facts.max_block[1]},
                {cuda_driver::device_max_block_z, &facts.max_block[2]},
                {cuda_driver::device_cooperative_launch, &facts.cooperative},
                {cuda_driver::device_max_window_bytes, &facts.window},
                {cuda_driver::device_tensor_maps, &facts.tensor_maps}};
  for (const auto& one : wanted)
    CODETTA_GPU("asking for a fact of the device", calls.device_attribute(one.value, one.attribute, device.id));
  CODETTA_GPU("asking for a kernel's shared memory",
              calls.function_attribute(&facts.static_shared, cuda_driver::function_static_shared, function.handle));
  __atomic_store_n(&facts.ready, 1, __ATOMIC_RELEASE);
  return ok;
}

inline Status user_limits(const GpuDevice& device, GpuFunction& function, plan::UserLimits& limits) {
  CODETTA_OK(ask_user_facts(device, function));
  const GpuUserFacts& facts = function.user;
  limits.device = device.name;
  for (i32 i = 0; i < 3; ++i) limits.max_grid[i] = device.limits.max_grid[i], limits.max_block[i] = facts.max_block[i];
  limits.max_threads = function.most_threads;
  limits.static_shared = facts.static_shared;
  limits.shared_bytes = device.shared_bytes;
  limits.major = device.major;
  limits.cooperative = facts.cooperative != 0;
  limits.window_bytes = facts.window;
  limits.tensor_maps = facts.tensor_maps != 0;
  limits.most_threads = gpu_facts.most_threads;
  return ok;
}

// Attributes of the function that the launch needs; shared memory is only ever raised.
inline Status allow_user(const char* name, const plan::UserShape& shape, GpuFunction& function) {
  const GpuCalls& calls = gpu_library.calls;
  const Locked locked(gpu_library.starting);
  if (shape.shared > function.allowed) {
    const DriverStatus allowed =
        calls.function_allow(function.handle, cuda_driver::function_max_dynamic_shared, static_cast<int>(shape.shared));
    if (allowed != DriverStatus::Success)
      return fail(gpu_failed,
                  "E0647: Failed to set the allowed dynamic shared memory size to %lld with error: %s; kernel %s",
                  shape.shared, driver_text(calls, allowed), name);
    function.allowed = static_cast<i32>(shape.shared);
  }
  if (shape.cluster_blocks() > plan::portable_cluster)
    CODETTA_GPU("allowing large clusters",
                calls.function_allow(function.handle, cuda_driver::function_non_portable_cluster, 1));
  return ok;
}

inline Status held_blocks(const plan::UserShape& shape, const plan::UserLimits& limits, const GpuDevice& device,
                          const GpuFunction& function, i64& held) {
  const GpuCalls& calls = gpu_library.calls;
  int found = 0;
  if (shape.clustered()) {
    LaunchAttribute attributes[plan::most_user_attributes] = {};
    LaunchConfig query{};
    plan::set_user_shape(shape, query);
    query.attributes = attributes;
    query.attribute_count = static_cast<unsigned>(plan::user_attributes(shape, limits, plan::UserWindow{}, attributes));
    CODETTA_GPU("asking how many clusters fit", calls.clusters_that_fit(&found, function.handle, &query));
    held = found * shape.cluster_blocks();
    return ok;
  }
  CODETTA_GPU(
      "asking how many blocks fit",
      calls.blocks_that_fit(&found, function.handle, static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]),
                            static_cast<size_t>(shape.shared)));
  held = static_cast<i64>(found) * device.limits.multiprocessors;
  return ok;
}

// A launch whose results all have no elements is none.
inline Status launch_user(GpuFrame& frame, const GpuKernel& kernel, const UserStep& step) {
  if (frame.sizes_only) return ok;
  bool owed = false;
  for (i32 i = 0; i < step.value_count; ++i) owed = owed || (step.values[i].is_result && !step.values[i].view->empty());
  if (!owed) return ok;
  const char* name = kernel.table.name;
  plan::UserShape shape;
  bool bad = step.shared.bad || (step.window >= 0 && step.window_bytes.bad);
  for (i32 i = 0; i < 3; ++i) {
    bad = bad || step.grid[i].bad || step.block[i].bad;
    shape.grid[i] = step.grid[i].value;
    shape.block[i] = step.block[i].value;
    shape.cluster[i] = step.cluster[i];
  }
  if (bad) return fail(bad_sizes, "E0610: a size of the launch of %s has no value", name);
  shape.shared = step.shared.value;
  shape.cooperative = step.cooperative;
  shape.programmatic = step.programmatic;
  shape.maps = step.map_count != 0;
  GpuDevice& device = *frame.here->device;
  GpuLoaded* loaded = nullptr;
  CODETTA_OK(load_kernel(frame, kernel, &loaded));
  GpuFunction& function = loaded->functions[0];
  plan::UserLimits limits{};
  CODETTA_OK(user_limits(device, function, limits));
  plan::Trouble trouble;
  if (!plan::check_user_launch(name, shape, limits, trouble)) return fail(trouble);
  codetta::gpu::u64 values[plan::most_user_values];
  void* parameters[plan::most_user_values];
  for (i32 i = 0; i < step.value_count + step.size_count; ++i) {
    parameters[i] = &values[i];
    if (i < step.value_count) {
      const UserValue& value = step.values[i];
      values[i] = value.view == nullptr ? value.bits : reinterpret_cast<u64>(value.view->data);
      continue;
    }
    const i32 s = i - step.value_count;
    if (step.sizes[s].bad) return fail(bad_sizes, "E0610: size %d of %s has no value", s, name);
    if (!plan::user_size(name, s, step.sizes[s].value, s < 31 && (step.narrow >> s & 1) != 0, values[i], trouble))
      return fail(trouble);
  }
  if (!frame.running) {
    // Temporaries lie nowhere yet: maps are encoded when they do.
    plan::UserMapArguments call;
    for (i32 i = 0; i < step.map_count; ++i)
      CODETTA_OK(user_map(step.maps[i], step.values[step.maps[i].argument], false, call));
    CODETTA_OK(allow_user(name, shape, function));
    if (!shape.cooperative) return ok;
    i64 held = 0;
    CODETTA_OK(held_blocks(shape, limits, device, function, held));
    return plan::check_cooperative(name, shape, held, device.name, trouble) ? ok : fail(trouble);
  }
  cuda_driver::TensorMap maps[plan::most_user_maps];
  for (i32 i = 0; i < step.map_count; ++i) {
    CODETTA_OK(encode_user(step.maps[i], step.values[step.maps[i].argument], maps[i]));
    parameters[step.maps[i].argument] = &maps[i];
  }
  plan::UserWindow window;
  if (step.window >= 0) {
    const View& view = *step.values[step.window].view;
    const i64 extent = plan::user_extent(
        view.rank, [&](i32 d) { return view.size[d]; }, [&](i32 d) { return view.stride[d]; });
    window.base = view.data;
    window.bytes = step.window_bytes.value;
    window.tensor = view.empty() ? 0 : extent * dtype_bytes(view.dtype);
    window.per_mille = step.per_mille;
  }
  LaunchAttribute attributes[plan::most_user_attributes] = {};
  LaunchConfig config{};
  plan::set_user_shape(shape, config);
  config.stream = frame.here->stream;
  config.attributes = attributes;
  config.attribute_count = static_cast<unsigned>(plan::user_attributes(shape, limits, window, attributes));
  codetta::gpu::u64 block[plan::most_user_values];
  plan::user_parameters(step.hook, step.value_count, step.size_count, values, block, parameters);
  const DriverStatus status = gpu_library.calls.launch(&config, function.handle, parameters, nullptr);
  if (status == DriverStatus::Success) return ok;
  return fail(gpu_failed,
              "E0647: Failed to launch kernel %s with error: %s; a grid of %lld x %lld x %lld blocks of %lld x %lld x "
              "%lld threads with %lld bytes of dynamic shared memory",
              name, driver_text(gpu_library.calls, status), shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
              shape.block[1], shape.block[2], shape.shared);
}

}  // namespace codetta::host
