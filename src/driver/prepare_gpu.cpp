// SPDX-License-Identifier: Apache-2.0
// From a package and its bindings to an execution on the context's device.
#include <fmt/format.h>

#include "codetta/contents.hpp"
#include "diag/diagnostic.hpp"
#include "driver/device_access.hpp"
#include "driver/kernel_state.hpp"
#include "driver/one_run.hpp"
#include "ir/attr.hpp"
#include "package/gpu_steps.hpp"

namespace codetta::driver {
Result<runtime::cuda::Execution> prepare_gpu(ContextState& context, const package::PackageRef& package,
                                             const Target& target, runtime::Bindings bindings, double& compile_seconds,
                                             GpuPreparation how) {
  runtime::cuda::GpuOptions options;
  options.checked = how.checked;
  options.contents = how.contents;
  options.graph = how.graph;
  options.allocator = context.options.device_allocator;
  options.outside = std::move(how.outside);
  options.observer = std::move(how.observer);
  options.unaligned = how.unaligned;
  CODETTA_TRY(const std::vector<runtime::cuda::DeviceRef> devices,
              context.gpu(target).devices_for(target, package->device_count));
  const bool on_elements = package::needs_steps_kernel(*package, how.checked && how.contents);
  const std::vector<std::vector<bool>> launched = package::launched_on(*package);
  std::vector<std::vector<runtime::cuda::ModuleRef>> modules(devices.size());
  options.further.resize(devices.size() - 1);
  for (size_t place = 0; place < devices.size(); ++place) {
    for (size_t k = 0; k < package->kernels.size(); ++k) {
      const package::Kernel& kernel = package->kernels[k];
      runtime::cuda::ModuleRef& module = modules[place].emplace_back();
      const bool steps = package::is_steps_kernel(kernel);
      if (steps ? !on_elements : !launched[place][k]) continue;
      if (package::is_vendor(kernel.config)) {
        CODETTA_TRY((place == 0 ? options.vendor : options.further[place - 1].vendor),
                    context.cuda.vendor().handle(devices[place]));
        continue;
      }
      CODETTA_TRY(LoadedGpuKernel loaded, context.load_on_gpu(kernel, target, how.capturing, devices[place]));
      compile_seconds += loaded.compile_seconds;
      module = std::move(loaded.module);
    }
    if (place == 0) continue;
    options.further[place - 1].device = devices[place];
    options.further[place - 1].modules = std::move(modules[place]);
  }
  options.device = devices[0];
  CODETTA_TRY(runtime::cuda::Execution execution,
              runtime::cuda::Execution::make(package, std::move(modules[0]), std::move(bindings), std::move(options)));
  if (context.options.nvtx) execution.set_ranges(context.cuda.ranges());
  return execution;
}

Result<OneRun> OneRun::make(ContextState& context, const Target& target, Stream stream) {
  OneRun once;
  once.stream = stream;
  CODETTA_TRY(once.device, context.gpu(target).device_for(target));
  CODETTA_CHECK_OK(once.device->check_stream(handle(stream)));
  CODETTA_TRY(once.capturing, once.device->capturing(handle(stream)));
  return once;
}

Result<void> OneRun::run(Execution& execution) const {
  const auto* cuda = ExecutionState::cuda(execution);
  const bool looks = cuda != nullptr && cuda->looks(), sizes = cuda != nullptr && cuda->sizes_in_run();
  if (capturing && cuda != nullptr && cuda->observed()) return execution.run(stream);  // which says why it is refused
  if (capturing && sizes) {
    return diag::error(diag::Code::capture_active, "this can not be done while a stream is being captured")
        .reason("sizes are found in the run: in device memory, or by what a function allocates")
        .help("run the program outside of the capture, or pass sizes as scalars");
  }
  int64_t workspace = 0;
  for (uint32_t place = 0; place < ir::max_devices; ++place) workspace += execution.workspace_size(place);
  if (workspace != 0 && capturing) {
    return diag::error(diag::Code::capture_active, "this can not be done while a stream is being captured")
        .reason(fmt::format("the kernel needs a workspace of {} bytes, which would not live as long as the graph",
                            workspace))
        .help("call prepare() before the capture begins, keep the Execution, and run() it within the capture");
  }
  Result<void> ran = execution.run(stream);
  // Also behind a run that fails: what it has enqueued uses memory that goes with the execution.
  if (workspace != 0 || looks || sizes) {
    Result<void> waited = device->synchronize(handle(stream));
    if (ran) ran = std::move(waited);
  }
  return ran ? check_contents(execution) : ran;
}

}  // namespace codetta::driver

codetta::Result<void> codetta::check_contents(const Execution& execution) {
  const auto* cuda = driver::ExecutionState::cuda(execution);
  if (cuda == nullptr) return {};
  const Result<void> fine = cuda->check();
  const auto& placed = driver::ExecutionState::of(execution).placed;
  return fine || !placed ? fine : placed(fine.error());
}
