// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for a GPU includes where steps work on elements: writes at indices, copies of views, fills
// and checks of contents, as launches of one kernel of the program (device/host/gpu_steps.h).
#pragma once

#include "device/host/gpu.h"
#include "device/host/gpu_steps.h"

namespace codetta::host {

using codetta::gpu::StepEntry;

inline plan::StepView step_view(const View& view, const char* name) {
  plan::StepView result{};
  result.name = name;
  result.data = view.data;
  result.dtype = view.dtype;
  result.rank = view.rank;
  for (i32 i = 0; i < view.rank; ++i) {
    result.size[i] = view.size[i];
    result.stride[i] = view.stride[i];
  }
  return result;
}

// `parameters`: of the entry, by value as the kernel gets them. While sizes are measured the kernel is loaded.
inline Status launch_step(GpuFrame& frame, const GpuKernel& kernel, StepEntry entry, void* parameters, i64 blocks) {
  GpuLoaded* loaded = nullptr;
  CODETTA_OK(load_kernel(frame, kernel, &loaded));
  if (!frame.running || blocks == 0) return ok;
  const plan::Entry& one = kernel.table.entries[static_cast<i32>(entry)];
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(blocks);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = static_cast<unsigned>(one.threads);
  config.stream = frame.here->stream;
  void* values[] = {parameters};
  CODETTA_GPU("launching a step on elements",
              gpu_library.calls.launch(&config, loaded->functions[static_cast<i32>(entry)].handle, values, nullptr));
  return ok;
}

// Sums and products of narrow floats are formed in what launches need while they run.
inline Status put_elements(GpuFrame& frame, const GpuKernel& kernel, codetta::gpu::PutParams& params, i64 number) {
  const i64 bytes = plan::wide_bytes(params);
  if (!frame.running) {
    if (bytes < 0 || bytes > int64_max / 4) return fail(bad_sizes, "E0603: the size of the workspace overflows");
    if (bytes > frame.engine_bytes) frame.engine_bytes = bytes;
  } else if (bytes != 0) {
    params.wide = reinterpret_cast<float*>(frame.memory + frame.temporary_bytes + frame.counter_bytes);
  }
  params.fault = {number < 0 ? nullptr : frame.fault, static_cast<u64>(number)};
  return launch_step(frame, kernel, StepEntry::put, &params, params.positions == 0 ? 0 : plan::put_blocks(params));
}

struct Index {
  const View* view;
  const char* name;
};
// `number`: of the first index tensor among what the program's kernels look at; below 0: they don't.
inline Status index_put(GpuFrame& frame, const GpuKernel& kernel, const View& target, const char* name,
                        const Index* indices, i32 count, const View& values, const char* values_name, i32 how,
                        i64 number) {
  plan::StepView views[max_rank];
  for (i32 n = 0; n < count; ++n) views[n] = step_view(*indices[n].view, indices[n].name);
  codetta::gpu::PutParams params;
  plan::Trouble trouble;
  if (!plan::plan_index_put(step_view(target, name), views, count, step_view(values, values_name), how, params,
                            trouble))
    return fail(trouble);
  return put_elements(frame, kernel, params, number);
}
inline Status scatter(GpuFrame& frame, const GpuKernel& kernel, const View& target, const char* name,
                      const Index& index, const View& source, const char* source_name, i32 dim, i32 how, i64 number) {
  codetta::gpu::PutParams params;
  plan::Trouble trouble;
  if (!plan::plan_scatter(step_view(target, name), step_view(*index.view, index.name), step_view(source, source_name),
                          dim, how, params, trouble))
    return fail(trouble);
  return put_elements(frame, kernel, params, number);
}

// Views of any strides.
inline Status copy(GpuFrame& frame, const GpuKernel& kernel, const View& target, const View& source, const char* name) {
  if (is_row_major(target) && is_row_major(source)) return copy(frame, target, source, name);
  const plan::StepView from = step_view(source, name);
  codetta::gpu::MoveParams params;
  plan::Trouble trouble;
  if (!plan::plan_move(step_view(target, name), &from, 0, params, trouble)) return fail(trouble);
  return launch_step(frame, kernel, StepEntry::move, &params, params.count == 0 ? 0 : plan::move_blocks(params));
}
inline Status fill(GpuFrame& frame, const GpuKernel& kernel, const View& view, u64 bits, const char* name) {
  if (is_row_major(view) && plan::one_byte(view.dtype, bits))
    return fill(frame, view, static_cast<u8>(bits & 0xFF), name);
  codetta::gpu::MoveParams params;
  plan::Trouble trouble;
  if (!plan::plan_move(step_view(view, name), nullptr, bits, params, trouble)) return fail(trouble);
  return launch_step(frame, kernel, StepEntry::move, &params, params.count == 0 ? 0 : plan::move_blocks(params));
}

inline Status look(GpuFrame& frame, const GpuKernel& kernel, const View& view, const char* name,
                   codetta::gpu::Looks looks, Number limit, i64 number) {
  if (limit.bad) return fail(bad_sizes, "E0610: the size that %s indexes has no value", name);
  codetta::gpu::LookParams params = plan::plan_look(step_view(view, name), looks, limit.value);
  params.fault = {frame.fault, static_cast<u64>(number)};
  return launch_step(frame, kernel, StepEntry::look, &params, params.count == 0 ? 0 : plan::look_blocks(params));
}

}  // namespace codetta::host
