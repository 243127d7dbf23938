// SPDX-License-Identifier: Apache-2.0
// A launch of a kernel of the user's on a GPU, from evaluated sizes to what the driver is asked for: what a device
// cannot do is said with its numbers before the driver sees it. For runs in process (src/runtime/cuda) and for emitted
// host text alike; nothing is allocated and no driver is called. No standard C++ headers.
#pragma once

#include "device/host/cuda_abi.h"
#include "device/host/gpu_plan.h"

namespace codetta::gpu::host {

struct UserShape {
  i64 grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};  // blocks and threads, x first
  i32 cluster[3] = {1, 1, 1};
  i64 shared = 0;  // dynamic, bytes
  bool cooperative = false, programmatic = false;
  bool maps = false;  // it takes tensor maps
  bool clustered() const { return cluster[0] != 1 || cluster[1] != 1 || cluster[2] != 1; }
  i64 cluster_blocks() const { return static_cast<i64>(cluster[0]) * cluster[1] * cluster[2]; }
};
// What the device and the compiled function allow.
struct UserLimits {
  const char* device;
  i64 max_grid[3], max_block[3];
  i32 max_threads;       // of a block, by the function's registers
  i32 static_shared;     // bytes of the function
  i32 shared_bytes;      // of a block, all kinds together
  i32 major;             // compute capability
  bool cooperative;      // the device can
  i64 window_bytes;      // of one window of L2; 0: none
  bool tensor_maps;      // the device has them
  i64 most_threads = 0;  // of a grid along a dim; 0: what its blocks and their threads allow
};
inline constexpr i64 portable_cluster = 8, most_cluster = 16;  // blocks: of every device with clusters; where allowed
inline constexpr i32 most_user_values = 256;                   // of a kernel, with the sizes, in emitted text
inline constexpr i32 most_user_maps = 24;                      // of them

__attribute__((format(printf, 3, 4))) inline bool no_launch(Trouble& trouble, const char* name, const char* format,
                                                            ...) {
  trouble.code = trouble_limits;
  say(trouble.headline, "Failed to launch kernel %.200s", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trouble.reason, sizeof trouble.reason, format, arguments);
  va_end(arguments);
  trouble.help = "change what the source says about its launch, or the sizes";
  return false;
}

// Everything but how many blocks the device holds at once, which only the driver knows.
inline bool check_user_launch(const char* name, const UserShape& shape, const UserLimits& limits, Trouble& trouble) {
  const i64 *g = shape.grid, *b = shape.block;
  if (g[0] <= 0 || g[1] <= 0 || g[2] <= 0)
    return no_launch(trouble, name, "its grid is %lld x %lld x %lld blocks, and a result has elements", g[0], g[1],
                     g[2]);
  for (i32 i = 0; i < 3; ++i) {
    if (g[i] > limits.max_grid[i])
      return no_launch(trouble, name, "its grid is %lld x %lld x %lld blocks; %.80s takes %lld x %lld x %lld", g[0],
                       g[1], g[2], limits.device, limits.max_grid[0], limits.max_grid[1], limits.max_grid[2]);
    if (b[i] <= 0 || b[i] > limits.max_block[i])
      return no_launch(trouble, name, "its blocks have %lld x %lld x %lld threads; %.80s takes 1 to %lld x %lld x %lld",
                       b[0], b[1], b[2], limits.device, limits.max_block[0], limits.max_block[1], limits.max_block[2]);
  }
  for (i32 i = 0; i < 3 && limits.most_threads > 0; ++i) {
    if (g[i] > limits.most_threads / b[i])
      return no_launch(trouble, name, "its grid has %lld blocks of %lld threads along a dim; %.80s takes %lld threads",
                       g[i], b[i], limits.device, limits.most_threads);
  }
  if (b[0] * b[1] * b[2] > limits.max_threads)
    return no_launch(trouble, name, "its blocks have %lld threads and registers for %d", b[0] * b[1] * b[2],
                     limits.max_threads);
  if (shape.shared < 0 || shape.shared > limits.shared_bytes - limits.static_shared) {
    trouble.code = trouble_limits;
    say(trouble.headline, "Failed to set the allowed dynamic shared memory size to %lld", shape.shared);
    say(trouble.reason, "%.160s has %d static bytes beside it, and a block of %.80s has %d", name, limits.static_shared,
        limits.device, limits.shared_bytes);
    trouble.help = "use less shared memory, or smaller sizes";
    return false;
  }
  if (shape.clustered()) {
    if (limits.major < 9)
      return no_launch(trouble, name, "it has clusters, and %.80s has compute capability %d; clusters need 9.0",
                       limits.device, limits.major);
    if (shape.cluster_blocks() > most_cluster)
      return no_launch(trouble, name, "its clusters have %lld blocks; %lld are possible", shape.cluster_blocks(),
                       most_cluster);
    for (i32 i = 0; i < 3; ++i) {
      if (g[i] % shape.cluster[i] != 0)
        return no_launch(trouble, name, "dim %d of its grid has %lld blocks, no multiple of the %d of a cluster", i,
                         g[i], shape.cluster[i]);
    }
  }
  if (shape.maps && !limits.tensor_maps)
    return no_launch(trouble, name, "it takes tensor maps, and %.80s of compute capability %d has none", limits.device,
                     limits.major);
  if (shape.cooperative && !limits.cooperative)
    return no_launch(trouble, name, "it is cooperative, and %.80s launches no such kernels", limits.device);
  return true;
}

// Blocks of a cooperative kernel run at the same time: `held` of them fit the device.
inline bool check_cooperative(const char* name, const UserShape& shape, i64 held, const char* device,
                              Trouble& trouble) {
  i64 blocks = 0;
  const bool over = __builtin_mul_overflow(shape.grid[0], shape.grid[1], &blocks) ||
                    __builtin_mul_overflow(blocks, shape.grid[2], &blocks);
  if (!over && blocks <= held) return true;
  return no_launch(trouble, name,
                   "it is cooperative, and %.80s holds %lld of its %lld x %lld x %lld blocks at the same time", device,
                   held, shape.grid[0], shape.grid[1], shape.grid[2]);
}

// The part of L2 that the launch keeps. Bytes beyond the tensor's and the device's are not asked for.
struct UserWindow {
  const void* base = nullptr;
  i64 bytes = 0;      // wanted
  i64 tensor = 0;     // of the tensor, from its first element on
  i32 per_mille = 0;  // 0: there is none
};

// Elements from the first of a tensor to the furthest behind it, with both; it has elements.
template <class Size, class Stride>
i64 user_extent(i32 rank, Size size, Stride stride) {
  i64 last = 0;
  for (i32 d = 0; d < rank; ++d) last += stride(d) > 0 ? stride(d) * (size(d) - 1) : 0;
  return last + 1;
}

using UserAttribute = cuda_driver::LaunchAttribute;
inline constexpr i32 most_user_attributes = 4;

// The attributes of the launch, all of which end with it; how many.
inline i32 user_attributes(const UserShape& shape, const UserLimits& limits, const UserWindow& window,
                           UserAttribute* attributes) {
  i32 count = 0;
  const auto add = [&](int id) -> UserAttribute& {
    attributes[count] = UserAttribute{};
    attributes[count].id = id;
    return attributes[count++];
  };
  if (shape.clustered())
    add(cuda_driver::launch_cluster_dimension).value.cluster = {static_cast<unsigned>(shape.cluster[0]),
                                                                static_cast<unsigned>(shape.cluster[1]),
                                                                static_cast<unsigned>(shape.cluster[2])};
  if (shape.cooperative) add(cuda_driver::launch_cooperative).value.flag = 1;
  // Before 9.0 kernels of a stream follow each other in any case.
  if (shape.programmatic && limits.major >= 9) add(cuda_driver::launch_programmatic_serialization).value.flag = 1;
  const i64 bytes = smaller(smaller(window.bytes, window.tensor), limits.window_bytes);
  if (window.per_mille > 0 && bytes > 0) {
    cuda_driver::AccessPolicyWindow& policy = add(cuda_driver::launch_access_policy_window).value.window;
    policy.base = const_cast<void*>(window.base);
    policy.bytes = static_cast<size_t>(bytes);
    policy.hit_ratio = static_cast<float>(window.per_mille) / 1000.0F;
    policy.hit_property = 2;   // persisting
    policy.miss_property = 1;  // streaming
  }
  return count;
}

inline void set_user_shape(const UserShape& shape, cuda_driver::LaunchConfig& config) {
  config.grid_x = static_cast<unsigned>(shape.grid[0]);
  config.grid_y = static_cast<unsigned>(shape.grid[1]);
  config.grid_z = static_cast<unsigned>(shape.grid[2]);
  config.block_x = static_cast<unsigned>(shape.block[0]);
  config.block_y = static_cast<unsigned>(shape.block[1]);
  config.block_z = static_cast<unsigned>(shape.block[2]);
  config.dynamic_shared = static_cast<unsigned>(shape.shared);
}

// A result that the function hands over is one parameter: some arguments and the last sizes, which follow each other.
struct UserHook {
  i32 position = -1;  // of the parameter; -1: there is none
  i32 first = 0, arguments = 0, sizes = 0;
};
// What stands for each value and size becomes what stands for each parameter; how many. `block` takes the hook's
// values.
inline i32 user_parameters(const UserHook& hook, i32 value_count, i32 size_count, const u64* values, u64* block,
                           void** parameters) {
  if (hook.position < 0) return value_count + size_count;
  for (i32 i = 0; i < hook.arguments; ++i) block[i] = values[hook.first + i];
  for (i32 i = 0; i < hook.sizes; ++i) block[hook.arguments + i] = values[value_count + size_count - hook.sizes + i];
  i32 count = 0;
  for (i32 i = 0; i <= value_count; ++i) {
    if (i >= hook.first + hook.arguments && count == hook.position) parameters[count++] = block;
    if (i < value_count && (i < hook.first || i >= hook.first + hook.arguments)) parameters[count++] = parameters[i];
  }
  for (i32 i = 0; i < size_count - hook.sizes; ++i) parameters[count++] = parameters[value_count + i];
  return count;
}

// An integer that the kernel takes: 64 bits, or 32 that hold it.
inline bool user_size(const char* name, i32 index, i64 value, bool narrow, u64& bits, Trouble& trouble) {
  bits = static_cast<u64>(value);
  if (!narrow || (value >= -2147483648LL && value <= 2147483647LL)) return true;
  return no_launch(trouble, name, "its size %d is %lld, and it takes 32 bits of it", index, value);
}

}  // namespace codetta::gpu::host
