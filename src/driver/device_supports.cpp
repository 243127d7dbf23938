// SPDX-License-Identifier: Apache-2.0
// Whether a target runs on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "diag/diagnostic.hpp"
#include "emit/metal.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/hip/driver.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace {

Result<void> gpu_target_runs(const Target& target) {
  using runtime::cuda::Device;
  const bool hip = target.backend == Backend::hip;
  CODETTA_TRY(const runtime::cuda::DriverRef driver, hip ? runtime::hip::load() : runtime::cuda::Driver::load());
  CODETTA_TRY(const int count, Device::count(*driver));
  std::string there;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CODETTA_TRY(const std::string arch, Device::architecture(*driver, ordinal));
    if (target.arch.empty() || target.arch == arch) return {};
    there += fmt::format("{}device {} is of {}", there.empty() ? "" : ", ", ordinal, arch);
  }
  return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
      .reason(there.empty() ? "the driver sees no device" : there)
      .help(fmt::format("use the target '{}', which takes the device's own architecture", hip ? "hip" : "cuda"));
}

}  // namespace

Result<void> device_supports(const Target& target) {
  if (target.backend == Backend::cpu) return types::cpu_target_runs(target);
  if (target.backend == Backend::cuda || target.backend == Backend::hip) return gpu_target_runs(target);
  if (target.backend == Backend::metal) {
    return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
        .reason(
            "kernels for Metal are compiled and run on macOS; this version of Codetta emits and builds them everywhere")
        .help(fmt::format(
            "`codetta build` writes a folder with a build.sh for a Mac; a text of `codetta emit`, which includes "
            "headers of Codetta's sources, becomes a library there by: xcrun -sdk macosx metal {} -I SOURCES "
            "-c x.metal -o x.air && xcrun -sdk macosx metallib x.air -o x.metallib",
            fmt::join(emit::metal_flags(false), " ")));
  }
  return diag::error(diag::Code::target_unavailable, "target '" + target.to_string() + "' can not run here")
      .reason("Codetta runs kernels on CPUs and on GPUs of NVIDIA and AMD")
      .help("use the target 'cpu', 'cuda' or 'hip'");
}

}  // namespace codetta
