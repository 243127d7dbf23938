// SPDX-License-Identifier: Apache-2.0
// Whether a target runs on this machine.
#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "runtime/cuda/device.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace {

Result<void> cuda_target_runs(const Target& target) {
  using runtime::cuda::DriverTable;
  CODETTA_TRY(const runtime::cuda::DriverRef driver, runtime::cuda::Driver::load());
  CODETTA_TRY(const int count, runtime::cuda::Device::count(*driver));
  const DriverTable& call = driver->call();
  std::string there;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    runtime::cuda::DeviceId id = 0;
    int major = 0, minor = 0;
    const std::string which = fmt::format("device = {}", ordinal);
    CODETTA_CUDA(*driver, "cuDeviceGet", which, call.device_get(&id, ordinal));
    CODETTA_CUDA(*driver, "cuDeviceGetAttribute", which,
                 call.device_get_attribute(&major, runtime::cuda::device_capability_major, id));
    CODETTA_CUDA(*driver, "cuDeviceGetAttribute", which,
                 call.device_get_attribute(&minor, runtime::cuda::device_capability_minor, id));
    const std::string arch = runtime::cuda::arch_of(major, minor);
    if (target.arch.empty() || target.arch == arch) return {};
    there += fmt::format("{}device {} is of {}", there.empty() ? "" : ", ", ordinal, arch);
  }
  return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
      .reason(there.empty() ? "the driver sees no device" : there)
      .help("use the target 'cuda', which takes the device's own architecture");
}

}  // namespace

Result<void> device_supports(const Target& target) {
  if (target.backend == Backend::cpu) return types::cpu_target_runs(target);
  if (target.backend == Backend::cuda) return cuda_target_runs(target);
  if (target.backend == Backend::metal) {
    return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
        .reason(
            "kernels for Metal are compiled and run on macOS; this version of Codetta emits and builds them everywhere")
        .help(
            "write the source with `codetta emit` or `codetta build`, and on a Mac: xcrun -sdk macosx metal "
            "-std=metal3.1 -fno-fast-math -c x.metal -o x.air && xcrun -sdk macosx metallib x.air -o x.metallib");
  }
  if (target.backend == Backend::hip) {
    return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
        .reason(
            "kernels for AMD GPUs are compiled to code objects; this process has no HIP runtime to launch them with")
        .help("use `codetta compile`, `codetta emit` or `codetta explain` for this target, or run on cpu or cuda");
  }
  return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
      .reason("this version of Codetta runs kernels on CPUs and NVIDIA GPUs")
      .help("use the target 'cpu' or 'cuda'");
}

}  // namespace codetta
