// SPDX-License-Identifier: Apache-2.0
// From a package and its bindings to an execution on the context's device.
#include <fmt/format.h>

#include "codetta/contents.hpp"
#include "diag/diagnostic.hpp"
#include "driver/device_access.hpp"
#include "driver/kernel_state.hpp"
#include "driver/one_run.hpp"

namespace codetta::driver {

Result<runtime::cuda::Execution> prepare_gpu(ContextState& context, const package::PackageRef& package,
                                             const Target& target, runtime::Bindings bindings, bool capturing,
                                             double& compile_seconds, runtime::cuda::FromOutside outside) {
  CODETTA_TRY(const runtime::cuda::DeviceRef device, context.gpu(target).device_for(target));
  std::vector<runtime::cuda::ModuleRef> modules;
  runtime::cuda::CublasLtHandleRef vendor;
  for (const package::Kernel& kernel : package->kernels) {
    if (package::is_vendor(kernel.config)) {
      CODETTA_TRY(vendor, context.cuda.vendor().handle());
      modules.emplace_back();
      continue;
    }
    CODETTA_TRY(LoadedGpuKernel loaded, context.load_on_gpu(kernel, target, capturing));
    compile_seconds += loaded.compile_seconds;
    modules.push_back(std::move(loaded.module));
  }
  CODETTA_TRY(runtime::cuda::Execution execution,
              runtime::cuda::Execution::make(package, std::move(modules), std::move(bindings), true,
                                             context.options.device_allocator, std::move(vendor), std::move(outside)));
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
  const int64_t workspace = execution.workspace_size();
  if (workspace != 0 && capturing) {
    return diag::error(diag::Code::capture_active, "this can not be done while a stream is being captured")
        .reason(fmt::format("the kernel needs a workspace of {} bytes, which would not live as long as the graph",
                            workspace))
        .help("call prepare() before the capture begins, keep the Execution, and run() it within the capture");
  }
  const auto* cuda = ExecutionState::cuda(execution);
  const bool looks = cuda != nullptr && cuda->looks();
  if (looks && capturing) {
    return diag::error(diag::Code::capture_active, "this can not be done while a stream is being captured")
        .reason("its kernels look at indices, and tell of them in memory that would not live as long as the graph")
        .help("call prepare() before the capture begins, keep the Execution, and run() it within the capture");
  }
  CODETTA_CHECK_OK(execution.run(stream));
  if (workspace != 0 || looks) CODETTA_CHECK_OK(device->synchronize(handle(stream)));
  return check_contents(execution);
}

}  // namespace codetta::driver

codetta::Result<void> codetta::check_contents(const Execution& execution) {
  const auto* cuda = driver::ExecutionState::cuda(execution);
  return cuda == nullptr ? Result<void>() : cuda->check();
}
