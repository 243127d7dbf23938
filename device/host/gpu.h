// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for a GPU includes: calls, which measure and then launch by the plan of gpu_plan.h. A call
// enqueues on the caller's stream and returns; it waits only where a value in device memory decides what runs.
#pragma once

#include "device/host/gpu_state.h"

namespace codetta::host {

// ---- calls ----
// What a launch was found to be while sizes were measured.
struct GpuLaunch {
  plan::Plan plan;
  plan::Factor a, b;
  i64 counters;  // offset among the counters of all launches
};
template <i32 entries, i32 reductions>
struct GpuLaunchOf : GpuLaunch {
  plan::Grid grids[codetta::gpu::at_least_one(entries)];
  plan::Reserved reserved[codetta::gpu::at_least_one(reductions)];
};

// Behind the counters is what launches need while they run: one after the other, in the stream's order, so that all
// begin at the same place.
struct GpuFrame : Frame {
  OnDevice* here = nullptr;
  i64 piece_bytes = 0;                  // behind that: what copies between devices bring
  void* launches = nullptr;             // of the program's own type
  bool clears_first = false;            // the launch to be measured next is the first, of a map that can clear counters
  const GpuLaunch* clearing = nullptr;  // the launch that clears those of all
  codetta::gpu::Fault* fault = nullptr;

  [[nodiscard]] i64 pieces_at() const {
    return temporary_bytes + counter_bytes + (engine_bytes + gpu_alignment - 1) / gpu_alignment * gpu_alignment;
  }
  [[nodiscard]] i64 bytes() const { return piece_bytes == 0 ? Frame::bytes() : pieces_at() + piece_bytes; }
};

struct GpuProgram {
  Status (*steps)(GpuFrame& frame);
  i32 view_count;
  u64 launch_bytes;
  bool clears_first = false;            // a map is launched before everything that has counters
  i32 index = 0;                        // of the program in its library
  const char* const* looked = nullptr;  // names of what its kernels look at; null: nothing
  i32 looked_count = 0;
};

inline Status load_kernel(const GpuFrame& frame, const GpuKernel& kernel, GpuLoaded** found) {
  return load_kernel(*frame.here->device, kernel, frame.sizes_only ? nullptr : &frame.here->stream, found);
}

// `widths`: of products with root spaces of their own the columns of each, `spaces` of them.
inline Status set_sizes(GpuFrame& frame, const GpuKernel& kernel, GpuLaunch& one, Number batch, Number m, Number n,
                        Number k, Number chunk, const Number* widths = nullptr, i32 spaces = 0) {
  if (frame.running) return ok;
  if (batch.bad || m.bad || n.bad || k.bad || (kernel.table.ways > 1 && chunk.bad))
    return fail(bad_sizes, "E0610: a size of a kernel has no value");
  one.plan = plan::Plan();
  one.plan.spaces = spaces;
  for (i32 i = 0; i < spaces; ++i) {
    if (widths[i].bad) return fail(bad_sizes, "E0610: a size of a kernel has no value");
    one.plan.widths[i] = widths[i].value;
  }
  plan::Trouble trouble;
  if (plan::plan_sizes(kernel.table, batch.value, m.value, n.value, k.value, chunk.value, one.plan, trouble)) return ok;
  return fail_measured(trouble);
}

inline Status set_factor(const GpuFrame& frame, GpuLaunch& one, bool is_a, const View& view, const char* name,
                         bool transposed, i64 products = 1, i32 of = 0) {
  plan::Factor& factor = is_a ? one.a : one.b;
  factor.data = view.data;
  if (frame.running) return ok;
  const codetta::gpu::Problem& p = one.plan.problem;
  i64 inner = 0, batch = 0, skip = 0;
  CODETTA_OK(check_factor(view, name, transposed, p.batches, is_a ? p.m : p.k,
                          is_a ? p.k : plan::columns_of_b(one.plan, products, of), inner, batch, skip));
  const bool k_is_last = is_a != transposed;
  const i32 k = view.rank - (k_is_last ? 1 : 2), other = view.rank - (k_is_last ? 2 : 1);
  factor.name = name;
  factor.batch = batch;
  factor.skip = skip;
  factor.inner = inner;
  factor.other = view.stride[other];
  factor.k = view.stride[k];
  factor.batches = 1;
  for (i32 i = 0; i + 2 < view.rank; ++i) factor.batches *= view.size[i];
  factor.others = view.size[other];
  factor.ks = view.size[k];
  factor.empty = view.empty();
  return ok;
}

// The B of a further product, which the kernel finds among its operands, fits as the first does.
inline Status check_more_b(const GpuFrame& frame, const GpuKernel& kernel, GpuLaunch& one, const View& view,
                           const char* name, bool transposed, i64 products, i32 of = 0) {
  if (frame.running) return ok;
  const plan::Factor first = one.b;
  CODETTA_OK(set_factor(frame, one, false, view, name, transposed, products, of));
  const plan::Factor further = one.b;
  one.b = first;
  plan::Trouble trouble;
  return plan::check_factor(kernel.table, further, false, trouble) ? ok : fail_measured(trouble);
}

// An operand of a launch beside its strides: what it is bound to, and whether it meets no element of that.
struct GpuOperand {
  const View* view;
  const char* name;
  bool nothing;
  bool gathers;  // elements are taken by indices; in a branch or a loop, which may not run, once it does
};

inline Status fit_of(const GpuKernel& kernel, const plan::Entry& entry, const GpuDevice& device, GpuFunction& function,
                     i32* fit) {
  *fit = __atomic_load_n(&function.fit, __ATOMIC_RELAXED);
  if (*fit > 0) return ok;
  const GpuCalls& calls = gpu_library.calls;
  const i32 cluster = plan::cluster_of(kernel.table, entry);
  int found = 0;
  if (cluster > 1) {
    LaunchAttribute attribute{};
    attribute.id = cuda_driver::launch_cluster_dimension;
    attribute.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
    LaunchConfig query{};
    query.grid_x = static_cast<unsigned>(cluster);
    query.grid_y = query.grid_z = query.block_y = query.block_z = 1;
    query.block_x = static_cast<unsigned>(entry.threads);
    query.dynamic_shared = static_cast<unsigned>(entry.shared_bytes);
    query.attributes = &attribute;
    query.attribute_count = 1;
    CODETTA_GPU("asking how many clusters fit", calls.clusters_that_fit(&found, function.handle, &query));
  } else {
    CODETTA_GPU("asking how many blocks fit",
                calls.blocks_that_fit(&found, function.handle, entry.threads, static_cast<size_t>(entry.shared_bytes)));
    found *= device.limits.multiprocessors;
  }
  __atomic_store_n(&function.fit, found, __ATOMIC_RELAXED);
  *fit = found;
  return ok;
}

// What the kernel asks of tensors and sizes. `zero`: some load meets no element.
inline Status fit_tensors(const GpuFrame& frame, const plan::Kernel& table, GpuLaunch& one, const GpuOperand* operands,
                          const codetta::gpu::Operand* strides, bool& zero) {
  plan::Trouble trouble;
  if (table.has_product) {
    if (!plan::fold_batch(table, one.a, one.b, strides, one.plan, trouble)) return fail_measured(trouble);
    plan::fold(one.plan, one.a);
    if (!plan::plan_product(table, one.a, one.b, one.plan, trouble)) return fail_measured(trouble);
  }
  zero = false;
  for (i32 i = 0; i < table.operand_count; ++i) {
    if (table.operands[i].is_store || !operands[i].nothing) continue;
    // Also over an empty root space: the block that looks at owed stores reads what is the same everywhere.
    zero = true;
    if (!operands[i].gathers || one.plan.empty) continue;
    plan::gathers_nothing(one.plan, operands[i].name, describe(*operands[i].view), trouble);
    return fail(trouble);
  }
  // What the copy engine brings or takes of operands and further factors; of A and B it is known by now.
  for (i32 i = 0; plan::uses_maps(table, one.plan) && i < table.map_count; ++i) {
    const plan::Map& map = plan::encoded_map(table, one.plan, i);
    if (!plan::of_operand(map)) continue;
    codetta::gpu::Operand operand = strides[map.operand];
    plan::fold(one.plan, table.operands[map.operand], operand);
    plan::Tiled view;
    if (!plan::tiled_view(table, one.plan, map, operand, operands[map.operand].name, view, trouble))
      return fail_measured(trouble);
    if (frame.sizes_only) view.address = 0;
    if (!plan::check_tiled(view, trouble)) return fail_measured(trouble);
  }
  return ok;
}

// Sizes, grids and workspace; nothing is enqueued.
inline Status measure(GpuFrame& frame, const GpuKernel& kernel, GpuLaunch& one, plan::Grid* grids,
                      plan::Reserved* reserved, const GpuOperand* operands, const codetta::gpu::Operand* strides) {
  const plan::Kernel& table = kernel.table;
  plan::Trouble trouble;
  bool zero = false;
  CODETTA_OK(fit_tensors(frame, table, one, operands, strides, zero));
  GpuDevice& device = *frame.here->device;
  GpuLoaded* loaded = nullptr;
  CODETTA_OK(load_kernel(frame, kernel, &loaded));
  for (i32 i = 0; i < table.entry_count; ++i) {
    i32 fit = 0;
    plan::DeviceLimits limits = device.limits;
    if (const i64 blocks = gpu_facts.most_threads / table.entries[i].threads; blocks > 0 && blocks < limits.max_grid[0])
      limits.max_grid[0] = blocks;
    if (plan::needs_fit(table, table.entries[i], one.plan))
      CODETTA_OK(fit_of(kernel, table.entries[i], device, loaded->functions[i], &fit));
    if (!plan::plan_grid(table, table.entries[i], limits, fit, one.plan, grids[i], trouble)) return fail(trouble);
  }
  if (!plan::check_parameters(table, trouble) || !plan::plan_workspace(table, zero, one.plan, reserved, trouble))
    return fail(trouble);
  if (frame.clears_first && one.plan.counter_bytes == 0 && !grids[0].skipped) frame.clearing = &one;
  frame.clears_first = false;
  one.counters = frame.counter_bytes;
  const Number counted = Number(frame.counter_bytes) + Number(one.plan.counter_bytes);
  if (counted.bad || counted.value > int64_max / 8 || one.plan.workspace > int64_max / 4)
    return fail(bad_sizes, "E0603: the size of the workspace overflows");
  frame.counter_bytes = counted.value;
  if (one.plan.workspace > frame.engine_bytes) frame.engine_bytes = one.plan.workspace;
  return ok;
}

inline Status encode_map(const plan::Kernel& table, const plan::Plan& planned, const plan::Map& of,
                         const codetta::gpu::Operand& operand, const char* name, char* to) {
  const GpuCalls& calls = gpu_library.calls;
  plan::Tiled view;
  plan::Trouble trouble;
  if (!plan::tiled_view(table, planned, of, operand, name, view, trouble)) return fail(trouble);
  if (!plan::check_tiled(view, trouble)) {
    return fail(bad_sizes, "E0649: Failed to initialize the TMA descriptor of %.160s: %s", name, trouble.reason);
  }
  const plan::TiledArguments call = plan::arguments_of(view);
  cuda_driver::TensorMap map{};
  const DriverStatus status =
      calls.map_tiled(&map, call.dtype, 3, reinterpret_cast<void*>(view.address), call.sizes, call.strides, call.box,
                      call.steps, call.interleave, call.swizzle, call.l2_promotion, call.fill);
  if (status != DriverStatus::Success)
    return fail(
        gpu_failed,
        "E0647: Failed to initialize the TMA descriptor of %.160s with error: %s; sizes = %lu x %lu x %lu, strides "
        "= %lu, %lu, box = %u x %u, swizzle = %d",
        name, driver_text(calls, status), call.sizes[0], call.sizes[1], call.sizes[2], call.strides[0], call.strides[1],
        call.box[0], call.box[1], view.swizzle_bytes);
  memcpy(to, &map, sizeof map);
  return ok;
}

// Those of all launches at once, unless the first of them does it: each leaves its own cleared.
inline Status clear_counters(const GpuFrame& frame) {
  if (frame.counter_bytes != 0 && frame.clearing == nullptr)
    CODETTA_GPU("clearing counters",
                gpu_library.calls.set_bytes(reinterpret_cast<DeviceAddress>(frame.memory + frame.temporary_bytes), 0,
                                            static_cast<size_t>(frame.counter_bytes), frame.here->stream));
  return ok;
}

inline Status enqueue(GpuFrame& frame, const GpuKernel& kernel, GpuLaunch& one, const plan::Grid* grids,
                      const plan::Reserved* reserved, const GpuOperand* bound, codetta::gpu::Operand* operands,
                      const codetta::gpu::ScalarValue* scalars) {
  const plan::Kernel& table = kernel.table;
  plan::fold(table, one.plan, operands);
  const GpuCalls& calls = gpu_library.calls;
  const OnDevice& here = *frame.here;
  alignas(64) char parameters[plan::most_parameter_bytes];
  memset(parameters, 0, static_cast<u64>(plan::parameter_bytes(table)));
  bool nothing[plan::most_parameter_bytes / sizeof(codetta::gpu::Operand) + 1] = {};
  for (i32 i = 0; i < table.operand_count; ++i) {
    nothing[i] = bound[i].nothing;
    if (table.operands[i].is_store || !nothing[i] || !bound[i].gathers || one.plan.empty) continue;
    plan::Trouble trouble;
    plan::gathers_nothing(one.plan, bound[i].name, describe(*bound[i].view), trouble);
    return fail(trouble);
  }
  char* counters = frame.memory + frame.temporary_bytes + one.counters;
  char* workspace = frame.memory + frame.temporary_bytes + frame.counter_bytes;
  plan::resolve(table, one.a, one.b, counters, workspace, one.plan);
  if (frame.clearing == &one) {
    one.plan.problem.counters = reinterpret_cast<codetta::gpu::u32*>(frame.memory + frame.temporary_bytes);
    one.plan.problem.clears = frame.counter_bytes / static_cast<i64>(sizeof(codetta::gpu::u32));
  }
  const codetta::gpu::Operand none{};
  for (i32 i = 0; plan::uses_maps(table, one.plan) && i < table.map_count; ++i) {
    const plan::Map& map = plan::encoded_map(table, one.plan, i);
    const bool own = plan::of_operand(map);
    const char* name = map.source == plan::map_a ? one.a.name : own ? bound[map.operand].name : one.b.name;
    CODETTA_OK(encode_map(table, one.plan, map, own ? operands[map.operand] : none, name,
                          parameters + static_cast<u64>(i) * sizeof(codetta::gpu::TensorMap)));
  }
  plan::write_parameters(table, one.plan, operands, nothing, scalars, reserved, counters, workspace, parameters);
  void* values[] = {parameters};
  void* packing[] = {&one.plan.packing};
  const GpuLoaded& loaded = here.device->loaded[kernel.index];
  for (i32 i = 0; i < table.entry_count; ++i) {
    if (grids[i].skipped) continue;
    const plan::Entry& entry = table.entries[i];
    LaunchConfig config{};
    config.grid_x = static_cast<unsigned>(grids[i].blocks[0]);
    config.grid_y = static_cast<unsigned>(grids[i].blocks[1]);
    config.grid_z = static_cast<unsigned>(grids[i].blocks[2]);
    config.block_x = static_cast<unsigned>(entry.threads);
    config.block_y = config.block_z = 1;
    config.dynamic_shared = static_cast<unsigned>(entry.shared_bytes);
    config.stream = here.stream;
    LaunchAttribute attributes[2] = {};
    config.attributes = attributes;
    if (const i32 cluster = plan::cluster_of(table, entry); cluster > 1) {
      LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = cuda_driver::launch_cluster_dimension;
      attribute.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
    }
    if (here.device->major >= 9) {  // every kernel waits for its predecessor by itself, and may begin before that ends
      LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = cuda_driver::launch_programmatic_serialization;
      attribute.value.flag = 1;
    }
    const DriverStatus status =
        calls.launch(&config, loaded.functions[i].handle, grids[i].packs ? packing : values, nullptr);
    if (status == DriverStatus::Success) continue;
    return fail(
        gpu_failed,
        "E0647: Failed to launch kernel %s with error: %s; %s in a grid of %lld x %lld x %lld blocks of %d threads "
        "with %d bytes of dynamic shared memory",
        table.name, driver_text(calls, status), entry.symbol, grids[i].blocks[0], grids[i].blocks[1],
        grids[i].blocks[2], entry.threads, entry.shared_bytes);
  }
  return ok;
}

template <i32 entries, i32 reductions>
Status launch(GpuFrame& frame, const GpuKernel& kernel, GpuLaunchOf<entries, reductions>& one, const GpuOperand* bound,
              codetta::gpu::Operand* operands, const codetta::gpu::ScalarValue* scalars) {
  return frame.running ? enqueue(frame, kernel, one, one.grids, one.reserved, bound, operands, scalars)
                       : measure(frame, kernel, one, one.grids, one.reserved, bound, operands);
}

// In front of what computes sizes: whether a launch behind it takes what is known by then.
template <class Launch>
Status look(const GpuFrame& frame, const GpuKernel& kernel, Launch& one, const GpuOperand* bound,
            const codetta::gpu::Operand* operands) {
  bool zero = false;
  return fit_tensors(frame, kernel.table, one, bound, operands, zero);
}
// What no other program takes is told when the launch is measured, if it ever is.
inline Status if_another_may(Status status) { return unaligned ? status : ok; }

// `start` elements from the view's first; its strides are set by the text that calls this.
inline codetta::gpu::Operand gpu_operand(const View& view, Number start = Number(0)) {
  codetta::gpu::Operand result{};
  if (!view.empty()) result.data = view.data + start.value * dtype_bytes(view.dtype);
  return result;
}
inline Status add_stride(codetta::gpu::Operand& operand, i32 slot, Number scale, i64 step) {
  const Number stride = scale * Number(step) + Number(operand.stride[slot]);
  if (stride.bad) return fail(bad_sizes, "E0610: an index has no value");
  operand.stride[slot] = stride.value;
  return ok;
}
// Whether an operand begins outside of its view's memory: the view has no elements, or a slice is empty and begins
// behind the last.
inline bool meets_nothing(const View& view, const codetta::gpu::Operand& operand) {
  if (view.empty()) return true;
  const i64 bytes = dtype_bytes(view.dtype);
  i64 low = 0, high = 0;
  for (i32 i = 0; i < view.rank; ++i) (view.stride[i] < 0 ? low : high) += (view.size[i] - 1) * view.stride[i] * bytes;
  const char* at = static_cast<const char*>(operand.data);
  return at < view.data + low || at > view.data + high;
}
inline codetta::gpu::ScalarValue gpu_scalar(const cpu::ScalarValue& value) {
  static_assert(sizeof(cpu::ScalarValue) == sizeof(codetta::gpu::ScalarValue));
  codetta::gpu::ScalarValue same{};
  memcpy(&same, &value, sizeof same);
  return same;
}

// ---- other work on the device ----
inline i64 elements_of(const View& view) {
  i64 count = 1;
  for (i32 i = 0; i < view.rank; ++i) count *= view.size[i];
  return count;
}

inline Status copy(GpuFrame& frame, const View& target, const View& source, const char* name) {
  if (target.dtype != source.dtype || elements_of(target) != elements_of(source))
    return fail(bad_sizes, "E0610: %s is copied from a tensor of another form: %s from %s", name, describe(target),
                describe(source));
  if (!is_row_major(target) || !is_row_major(source))
    return fail(bad_sizes, "E0614: %s is copied: only contiguous tensors are copied on a GPU", name);
  if (!frame.running || target.empty() || target.data == source.data) return ok;
  CODETTA_GPU("copying a tensor",
              gpu_library.calls.copy_within(
                  reinterpret_cast<DeviceAddress>(target.data), reinterpret_cast<DeviceAddress>(source.data),
                  static_cast<size_t>(elements_of(source) * dtype_bytes(source.dtype)), frame.here->stream));
  return ok;
}

// All bytes of all elements are `byte`.
inline Status fill(GpuFrame& frame, const View& view, u8 byte, const char* name) {
  if (!is_row_major(view))
    return fail(bad_sizes, "E0614: %s is filled: only contiguous tensors are filled on a GPU", name);
  if (!frame.running || view.empty()) return ok;
  CODETTA_GPU("filling a tensor",
              gpu_library.calls.set_bytes(reinterpret_cast<DeviceAddress>(view.data), byte,
                                          static_cast<size_t>(elements_of(view) * dtype_bytes(view.dtype)),
                                          frame.here->stream));
  return ok;
}

// Reads one bool when all work in front of it is done.
inline Status read_flag(const GpuFrame& frame, const View& view, const char* name, bool& taken) {
  taken = false;
  if (!frame.running || view.empty()) return ok;
  const GpuCalls& calls = gpu_library.calls;
  if (is_captured(frame.here->stream))
    return fail(bad_argument, "E0646: a branch can not be captured: %s is read on the host to decide what runs", name);
  unsigned char value = 0;
  CODETTA_GPU("reading a predicate",
              calls.copy_out(&value, reinterpret_cast<DeviceAddress>(view.data), 1, frame.here->stream));
  CODETTA_GPU("waiting for the stream", calls.stream_wait(frame.here->stream));
  taken = value != 0;
  return ok;
}

// The tensor's memory can be read by the device: its own, managed, or host memory that the driver knows.
inline Status check_place(const OnDevice& here, const View& view, const char* name) {
  if (view.empty()) return ok;
  unsigned type = 0;
  int ordinal = -1;
  unsigned char managed[4] = {};  // the driver writes a bool
  int attributes[] = {cuda_driver::pointer_memory_type, cuda_driver::pointer_is_managed,
                      cuda_driver::pointer_device_ordinal};
  void* values[] = {&type, managed, &ordinal};
  CODETTA_GPU("asking where a tensor lies",
              gpu_library.calls.pointer_attributes(3, attributes, values, reinterpret_cast<DeviceAddress>(view.data)));
  if (managed[0] != 0 || type == cuda_driver::memory_type_host) return ok;
  if (type == cuda_driver::memory_type_device && ordinal == here.device->id) return ok;
  if (type == cuda_driver::memory_type_device)
    return fail(bad_argument, "E0648: %s does not lie on device %d: its address %p is memory of device %d", name,
                here.device->id, static_cast<void*>(view.data), ordinal);
  return fail(bad_argument,
              "E0648: %s does not lie on device %d: its address %p is host memory that the device can not read", name,
              here.device->id, static_cast<void*>(view.data));
}

// Checks, measures, takes a workspace (the caller's, if there is one) and enqueues. `measured`: only says how large the
// workspace has to be.
inline Status run(const GpuProgram& program, OnDevice& here, View* views, const cpu::ScalarValue* scalars,
                  void* workspace, i64 workspace_bytes, i64* measured = nullptr) {
  GpuFrame frame;
  frame.views = views;
  frame.scalars = scalars;
  frame.unit = gpu_alignment;
  frame.sizes_only = measured != nullptr;
  frame.here = &here;
  frame.clears_first = program.clears_first;
  struct Launches {
    void* memory;
    ~Launches() { free(memory); }
  } const launches{calloc(1, program.launch_bytes)};
  frame.launches = launches.memory;
  if (program.looked != nullptr && measured == nullptr) {
    CODETTA_OK(fault_of(here, program.index, &frame.fault));
    CODETTA_OK(tell_fault(frame.fault, program.looked, program.looked_count));
  }
  if (launches.memory == nullptr) return fail(no_memory, "E0606: no memory for the launches of a call");
  if (const Status bad = program.steps(frame)) return bad;
  const i64 bytes = frame.bytes();
  if (measured != nullptr) {
    *measured = bytes;
    return ok;
  }
  if (workspace != nullptr && reinterpret_cast<u64>(workspace) % gpu_alignment != 0)
    return fail(bad_workspace, "E0605: the workspace is not aligned to 256 bytes");
  if (workspace != nullptr && workspace_bytes < bytes)
    return fail(bad_workspace, "E0611: the workspace is too small: %lld bytes are given, %lld are needed",
                static_cast<long long>(workspace_bytes), static_cast<long long>(bytes));
  GpuBlock own;
  if (workspace == nullptr && bytes != 0) {
    CODETTA_OK(take_block(here, bytes, own));
    workspace = own.memory;
  }
  frame.memory = static_cast<char*>(workspace);
  frame.running = true;
  Status status = clear_counters(frame);
  if (status == ok) status = program.steps(frame);
  put_block(here, own);
  return status;
}

}  // namespace codetta::host
