// SPDX-License-Identifier: Apache-2.0
// GEMMs whose tensors lie in host memory, run on the GPU by a kernel of a given configuration and judged by the oracle:
// emission, NVRTC and runtime/cuda, without discovery.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "codetta/gemm.hpp"
#include "driver/problem.hpp"
#include "emit/emit.hpp"
#include "oracle/oracle.hpp"
#include "plan/plan.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/stream.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::gpu {

// All bytes that some of the views point into.
struct HostBlock {
  unsigned char* data = nullptr;
  size_t bytes = 0;
};

// A problem bound, optimized and lowered; `plan` still lacks a kernel.
struct Planned {
  driver::Problem problem;
  plan::Plan plan;
  [[nodiscard]] const package::EpilogueProgram& program() const { return plan.kernels[0].lowered.program; }
};
Result<Planned> plan_call(const GemmArguments& call, const std::string& arch);

// Copies of blocks in memory of the device, at addresses alike modulo 256.
class Mirror {
 public:
  static Result<Mirror> make(const runtime::cuda::DeviceRef& device, std::span<const HostBlock> blocks,
                             runtime::cuda::StreamHandle stream);
  // The view there. Errors: an address in no block.
  [[nodiscard]] Result<TensorView> on_device(const TensorView& view) const;
  struct Place {
    HostBlock block;
    runtime::cuda::DeviceAddress address;
  };
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

 private:
  std::vector<Place> places_;
  std::vector<runtime::cuda::DeviceBuffer> memory_;
};

struct Prepared {
  runtime::cuda::OwnedStream stream;
  Mirror mirror;
  runtime::cuda::Execution execution;
};

struct Compiled {
  package::PackageRef package;
  runtime::cuda::ModuleRef module;
  int64_t registers = 0, spilled_bytes = 0, stack_bytes = 0;  // the most of any entry
  double seconds = 0;                                         // of NVRTC
};

// The first GPU of this machine with its driver, and NVRTC. Thread safe.
class Gpu {
 public:
  // Errors: no driver, no device, no NVRTC. With `arch`: without a device, for compiling only.
  static Result<std::shared_ptr<Gpu>> open(const std::string& arch = {});
  [[nodiscard]] const runtime::cuda::DeviceRef& device() const { return device_; }
  [[nodiscard]] const std::string& arch() const { return arch_; }
  // Whether a kernel has failed, after which nothing can run on the device in this process.
  [[nodiscard]] bool lost() const { return lost_; }
  // "12 compiled in 3.4 s": kernels so far, and the sum of their times.
  [[nodiscard]] std::string statistics();
  [[nodiscard]] bool compiles_only() const { return device_ == nullptr; }

  // A device that is none: what `compile` makes of a source is what its driver loads (tests/emulator). Tensors come to
  // it without the memory around them. `arch`: what kernels are made for, where it is not the device's: "gfx942".
  using CompileSource =
      std::function<Result<std::string>(const std::string& source, const std::vector<std::string>& flags)>;
  static std::shared_ptr<Gpu> over(runtime::cuda::DeviceRef device, CompileSource compile, std::string arch = {});

  // The same source is compiled once while it is among the last `kept_modules`.
  Result<Compiled> compile(const Planned& planned, const package::GpuGemmConfig& config, bool strict);
  Result<runtime::cuda::ModuleRef> load(const emit::CudaSource& source);
  // With the blocks on the device; nothing of it is enqueued any more.
  Result<Prepared> prepare(const Planned& planned, const Compiled& compiled, std::span<const HostBlock> blocks);
  // Copies the blocks to the device, runs the package `times` times and copies them back; what no output lies in must
  // come back unchanged. Errors: everything that prepares and runs.
  Result<void> run(const Planned& planned, const Compiled& compiled, std::span<const HostBlock> blocks, int times = 1);

 private:
  Result<toolchain::CudaOutput> compile_source(const std::string& source, const std::string& label,
                                               const std::vector<std::string>& flags);
  runtime::cuda::DeviceRef device_;
  std::string arch_;
  toolchain::NvrtcRef nvrtc_;
  CompileSource compile_source_;
  std::vector<std::string> paths_;
  std::vector<toolchain::CudaHeader> headers_;
  std::mutex mutex_, running_;
  std::atomic<bool> lost_{false};
  int64_t compiles_ = 0;
  double compile_seconds_ = 0;
  std::map<std::string, Compiled> modules_;  // by source
};

// The tensors of `planned` against the oracle, with the bounds of the device's functions and of the configuration's
// accumulation. `before`: what operands held that an output has overwritten.
struct Judgement {
  oracle::CheckReport report;
  std::string text;  // a line an output that is wrong; all where `all_lines`
};
Result<Judgement> judge(const Planned& planned, const package::GpuGemmConfig& config, bool strict,
                        const std::vector<std::pair<std::string, TensorView>>& before = {}, bool all_lines = false);

// Every SIMT configuration that the tests use for a program, in a fixed order.
std::vector<package::GpuGemmConfig> simt_configs(const package::EpilogueProgram& program, DType a, DType b);
// Every configuration of a family that is legal for the problem, however few tiles it has; none where it is refused.
std::vector<package::GpuGemmConfig> family_configs(const Planned& planned, package::GpuFamily family,
                                                   const std::string& arch);
std::string name_of(const package::GpuGemmConfig& config);

}  // namespace codetta::gpu
