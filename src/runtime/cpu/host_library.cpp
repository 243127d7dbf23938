// SPDX-License-Identifier: Apache-2.0
// The engine as a shared library, for host modules that are no C++: what they need of device/host/engine.h, exported.
// A pool runs one launch at a time.
#include "codetta/extern.h"
#include "device/host/engine.h"
#include "device/host/gpu_plan.h"
#include "device/host/gpu_steps.h"
#include "device/host/user_launch.h"
#include "device/host/user_maps.h"

#define CODETTA_HOST_EXPORT extern "C" __attribute__((visibility("default")))

namespace codetta::host {
namespace {

void run_here(void*, i32 tasks, void (*task)(void*, i32), void* context) {
  for (i32 i = 0; i < tasks; ++i) task(context, i);
}

Threads threads_of(void* pool) {
  return {pool == nullptr ? 1 : codetta_engine_threads_size(pool),
          pool == nullptr ? run_here : codetta_engine_threads_run, pool};
}

}  // namespace

CODETTA_HOST_EXPORT i32 codetta_host_interface() { return host_interface; }

// Bytes of a struct that modules lay out themselves, by its name there; 0: none has this name.
CODETTA_HOST_EXPORT i64 codetta_host_bytes_of(const char* name) {
  namespace gpu = codetta::gpu;
  static constexpr struct {
    const char* name;
    i64 bytes;
  } forms[] = {
      {"GemmConfig", sizeof(GemmConfig)},
      {"MapConfig", sizeof(MapConfig)},
      {"FactorB", sizeof(FactorB)},
      {"Maker", sizeof(Maker)},
      {"Gemm", sizeof(Gemm)},
      {"Phase", sizeof(Phase)},
      {"Reduction", sizeof(Reduction)},
      {"Operand", sizeof(cpu::Operand)},
      {"Scalar", sizeof(cpu::ScalarValue)},
      {"Epilogue", sizeof(Epilogue)},
      {"Extent", sizeof(Extent)},
      {"Given", sizeof(CodettaTensor)},
      {"Entry", sizeof(gpu::host::Entry)},
      {"Map", sizeof(gpu::host::Map)},
      {"GpuReduction", sizeof(gpu::host::Reduction)},
      {"OperandFacts", sizeof(gpu::host::OperandFacts)},
      {"Kernel", sizeof(gpu::host::Kernel)},
      {"Limits", sizeof(gpu::host::DeviceLimits)},
      {"Trouble", sizeof(gpu::host::Trouble)},
      {"Factor", sizeof(gpu::host::Factor)},
      {"Grid", sizeof(gpu::host::Grid)},
      {"StepView", sizeof(gpu::host::StepView)},
      {"Fault", sizeof(gpu::Fault)},
      {"Tiled", sizeof(gpu::host::TiledArguments)},
      {"UserShape", sizeof(gpu::host::UserShape)},
      {"UserLimits", sizeof(gpu::host::UserLimits)},
      {"UserMap", sizeof(gpu::host::UserMap)},
      {"UserMapView", sizeof(gpu::host::UserMapView)},
      {"UserMapArguments", sizeof(gpu::host::UserMapArguments)},
      {"UserHook", sizeof(gpu::host::UserHook)},
  };
  static_assert(sizeof(cpu::Operand) == sizeof(gpu::Operand) && sizeof(cpu::ScalarValue) == sizeof(gpu::ScalarValue));
  for (const auto& form : forms) {
    if (__builtin_strcmp(form.name, name) == 0) return form.bytes;
  }
  return 0;
}

CODETTA_HOST_EXPORT bool codetta_host_runs(i32 isa) { return codetta_engine_runs(isa); }

// As codetta_engine_threads_make; null: launches run on the calling thread.
CODETTA_HOST_EXPORT void* codetta_host_threads_make(i32 threads) { return codetta_engine_threads_make(threads); }

CODETTA_HOST_EXPORT i64 codetta_host_workspace(void* pool, const GemmConfig* config, const Gemm* gemm,
                                               const Epilogue* epilogue) {
  return codetta_engine_workspace(config, gemm, epilogue, pool == nullptr ? 1 : codetta_engine_threads_size(pool));
}

CODETTA_HOST_EXPORT void codetta_host_run(void* pool, const GemmConfig* config, const Gemm* gemm,
                                          const Epilogue* epilogue, void* workspace) {
  const Threads threads = threads_of(pool);
  codetta_engine_run(config, gemm, epilogue, &threads, workspace);
}

CODETTA_HOST_EXPORT i64 codetta_host_map_workspace(const MapConfig* config, const Gemm* space,
                                                   const Epilogue* epilogue) {
  return codetta_engine_map_workspace(config, space, epilogue);
}

CODETTA_HOST_EXPORT void codetta_host_map_run(void* pool, const MapConfig* config, const Gemm* space,
                                              const Epilogue* epilogue, void* workspace) {
  const Threads threads = threads_of(pool);
  codetta_engine_map_run(config, space, epilogue, &threads, workspace);
}

CODETTA_HOST_EXPORT void codetta_host_copy(void* pool, const Extent* target, const Extent* source) {
  const Threads threads = threads_of(pool);
  codetta_engine_copy(target, source, &threads);
}

// ---- launches of a GPU: device/host/gpu_plan.h, one function each ----
namespace plan = codetta::gpu::host;

CODETTA_HOST_EXPORT i64 codetta_host_gpu_plan_bytes() { return sizeof(plan::Plan); }
CODETTA_HOST_EXPORT bool codetta_host_gpu_sizes(const plan::Kernel* kernel, i64 batch, i64 m, i64 n, i64 k, i64 chunk,
                                                plan::Plan* planned, plan::Trouble* trouble) {
  *planned = plan::Plan();
  return plan::plan_sizes(*kernel, batch, m, n, k, chunk, *planned, *trouble);
}
// The same of products with root spaces of their own, of so many columns each.
CODETTA_HOST_EXPORT bool codetta_host_gpu_spaces(const plan::Kernel* kernel, i64 batch, i64 m, i64 n, i64 k, i64 chunk,
                                                 const i64* widths, i32 spaces, plan::Plan* planned,
                                                 plan::Trouble* trouble) {
  *planned = plan::Plan();
  planned->spaces = spaces < plan::most_spaces ? spaces : plan::most_spaces;
  for (i32 i = 0; i < planned->spaces; ++i) planned->widths[i] = widths[i];
  return plan::plan_sizes(*kernel, batch, m, n, k, chunk, *planned, *trouble);
}
// Folds the batch where that can be: `a` and `operands` become those of the folded product.
CODETTA_HOST_EXPORT bool codetta_host_gpu_product(const plan::Kernel* kernel, plan::Factor* a, const plan::Factor* b,
                                                  codetta::gpu::Operand* operands, plan::Plan* planned,
                                                  plan::Trouble* trouble) {
  if (!plan::fold_batch(*kernel, *a, *b, operands, *planned, *trouble)) return false;
  plan::fold(*planned, *a);
  plan::fold(*kernel, *planned, operands);
  return plan::plan_product(*kernel, *a, *b, *planned, *trouble);
}
// Of a further product's B, which the kernel finds among its operands.
CODETTA_HOST_EXPORT bool codetta_host_gpu_check_b(const plan::Kernel* kernel, const plan::Factor* b,
                                                  plan::Trouble* trouble) {
  return plan::check_factor(*kernel, *b, false, *trouble);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_needs_fit(const plan::Kernel* kernel, i32 entry, const plan::Plan* planned) {
  return plan::needs_fit(*kernel, kernel->entries[entry], *planned);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_grid(const plan::Kernel* kernel, i32 entry, const plan::DeviceLimits* device,
                                               i64 fit, plan::Plan* planned, plan::Grid* grid, plan::Trouble* trouble) {
  return plan::plan_grid(*kernel, kernel->entries[entry], *device, fit, *planned, *grid, *trouble);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_finish(const plan::Kernel* kernel, bool needs_zero, plan::Plan* planned,
                                                 plan::Reserved* reserved, plan::Trouble* trouble) {
  return plan::check_parameters(*kernel, *trouble) &&
         plan::plan_workspace(*kernel, needs_zero, *planned, reserved, *trouble);
}
// Counters, and behind them the rest.
CODETTA_HOST_EXPORT i64 codetta_host_gpu_workspace(const plan::Plan* planned) {
  return planned->counter_bytes + planned->workspace;
}
CODETTA_HOST_EXPORT i64 codetta_host_gpu_counter_bytes(const plan::Plan* planned) { return planned->counter_bytes; }
CODETTA_HOST_EXPORT i64 codetta_host_gpu_parameter_bytes(const plan::Kernel* kernel) {
  return plan::parameter_bytes(*kernel);
}
CODETTA_HOST_EXPORT void codetta_host_gpu_resolve(const plan::Kernel* kernel, const plan::Factor* a,
                                                  const plan::Factor* b, char* workspace, plan::Plan* planned) {
  plan::resolve(*kernel, *a, *b, workspace, workspace + planned->counter_bytes, *planned);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_uses_maps(const plan::Kernel* kernel, const plan::Plan* planned) {
  return plan::uses_maps(*kernel, *planned);
}
// Which of the kernel's maps is encoded in the place of one.
CODETTA_HOST_EXPORT i32 codetta_host_gpu_encoded(const plan::Kernel* kernel, const plan::Plan* planned, i32 map) {
  return static_cast<i32>(&plan::encoded_map(*kernel, *planned, map) - kernel->maps);
}
// `operand`: of an operand's map, else null.
CODETTA_HOST_EXPORT bool codetta_host_gpu_map(const plan::Kernel* kernel, const plan::Plan* planned, i32 map,
                                              const codetta::gpu::Operand* operand, const char* name,
                                              plan::TiledArguments* call, u64* address, plan::Trouble* trouble) {
  plan::Tiled view;
  const codetta::gpu::Operand none{};
  if (!plan::tiled_view(*kernel, *planned, kernel->maps[map], operand != nullptr ? *operand : none, name, view,
                        *trouble) ||
      !plan::check_tiled(view, *trouble))
    return false;
  *call = plan::arguments_of(view);
  *address = view.address;
  return true;
}
CODETTA_HOST_EXPORT void codetta_host_gpu_write(const plan::Kernel* kernel, const plan::Plan* planned,
                                                const codetta::gpu::Operand* operands, const bool* nothing,
                                                const codetta::gpu::ScalarValue* scalars,
                                                const plan::Reserved* reserved, char* workspace, char* parameters) {
  plan::write_parameters(*kernel, *planned, operands, nothing, scalars, reserved, workspace,
                         workspace + planned->counter_bytes, parameters);
}
CODETTA_HOST_EXPORT const void* codetta_host_gpu_packing(const plan::Plan* planned) { return &planned->packing; }

// ---- steps on elements: device/host/gpu_steps.h. Each writes the parameters of its entry and gives the blocks, 0:
// there is nothing to do, -1: trouble ----
CODETTA_HOST_EXPORT i64 codetta_host_gpu_step_bytes() {
  return plan::larger(sizeof(codetta::gpu::PutParams),
                      plan::larger(sizeof(codetta::gpu::MoveParams), sizeof(codetta::gpu::LookParams)));
}
// dim < 0: index_put, else scatter. `wide_bytes` of memory at `wide` are what it then needs.
CODETTA_HOST_EXPORT i64 codetta_host_gpu_put(const plan::StepView* target, const plan::StepView* indices, i32 count,
                                             const plan::StepView* values, i32 dim, i32 how, void* wide,
                                             codetta::gpu::Fault* fault, u64 number, codetta::gpu::PutParams* params,
                                             i64* wide_bytes, plan::Trouble* trouble) {
  const bool fits = dim < 0 ? plan::plan_index_put(*target, indices, count, *values, how, *params, *trouble)
                            : plan::plan_scatter(*target, *indices, *values, dim, how, *params, *trouble);
  if (!fits) return -1;
  *wide_bytes = plan::wide_bytes(*params);
  params->wide = *wide_bytes == 0 ? nullptr : static_cast<float*>(wide);
  params->fault = {fault, number};
  return params->positions == 0 ? 0 : plan::put_blocks(*params);
}
CODETTA_HOST_EXPORT i64 codetta_host_gpu_move(const plan::StepView* to, const plan::StepView* from, u64 bits,
                                              codetta::gpu::MoveParams* params, plan::Trouble* trouble) {
  if (!plan::plan_move(*to, from, bits, *params, *trouble)) return -1;
  return params->count == 0 ? 0 : plan::move_blocks(*params);
}
CODETTA_HOST_EXPORT i64 codetta_host_gpu_look(const plan::StepView* view, i32 looks, i64 limit,
                                              codetta::gpu::Fault* fault, u64 number,
                                              codetta::gpu::LookParams* params) {
  *params = plan::plan_look(*view, static_cast<codetta::gpu::Looks>(looks), limit);
  params->fault = {fault, number};
  return params->count == 0 ? 0 : plan::look_blocks(*params);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_fault(codetta::gpu::Fault* word, codetta::gpu::Fault* found) {
  return plan::take_fault(word, *found);
}

// ---- launches of kernels of the user's: device/host/user_launch.h and user_maps.h, one function each ----
CODETTA_HOST_EXPORT bool codetta_host_gpu_user_launch(const char* name, const plan::UserShape* shape,
                                                      const plan::UserLimits* limits, plan::Trouble* trouble) {
  return plan::check_user_launch(name, *shape, *limits, *trouble);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_user_cooperative(const char* name, const plan::UserShape* shape, i64 held,
                                                           const char* device, plan::Trouble* trouble) {
  return plan::check_cooperative(name, *shape, held, device, *trouble);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_user_size(const char* name, i32 index, i64 value, bool narrow,
                                                    codetta::gpu::u64* bits, plan::Trouble* trouble) {
  return plan::user_size(name, index, value, narrow, *bits, *trouble);
}
CODETTA_HOST_EXPORT bool codetta_host_gpu_user_map(const plan::UserMap* map, const plan::UserMapView* view,
                                                   plan::UserMapArguments* call, plan::Trouble* trouble) {
  return plan::user_map(*map, *view, *call, *trouble);
}
// What is passed, by address, where a hook takes some of the values and sizes; how many parameters.
CODETTA_HOST_EXPORT i32 codetta_host_gpu_user_parameters(const plan::UserHook* hook, i32 value_count, i32 size_count,
                                                         const codetta::gpu::u64* values, codetta::gpu::u64* block,
                                                         void** parameters) {
  return plan::user_parameters(*hook, value_count, size_count, values, block, parameters);
}

CODETTA_HOST_EXPORT bool codetta_host_overlap(const Extent* a, const Extent* b) { return codetta_engine_overlap(a, b); }
CODETTA_HOST_EXPORT bool codetta_host_overlaps_itself(const Extent* view) {
  return codetta_engine_overlaps_itself(view);
}

}  // namespace codetta::host
