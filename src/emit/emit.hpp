// SPDX-License-Identifier: Apache-2.0
// From an EpilogueProgram to source text of one target.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "codetta/target.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"
#include "package/step.hpp"
#include "plan/fused.hpp"
#include "plan/plan.hpp"

namespace codetta::emit {

// A self-contained translation unit: no includes, generator-made identifiers only, the same bytes for the same input.
struct EmittedSource {
  std::string text;
  std::vector<std::string> gcc_flags;  // language, target, optimization, -nostdlib; not -shared, -fPIC, output or input
  std::vector<std::string> clang_flags;  // the same for Clang
  std::string entry;                     // the extern "C" function to look up
};

// Every emitted library exports `extern "C" const char codetta_entry_digest[33]`, which holds the placeholder until the
// cache puts the digest of the entry in its place (same length, so that nothing else moves).
inline constexpr std::string_view entry_digest_symbol = "codetta_entry_digest";
inline constexpr std::string_view entry_digest_placeholder = "codetta-entry-digest-placeholder";

struct CpuEmitOptions {
  CpuIsa isa = CpuIsa::generic;
  bool strict = false;   // no contraction of a * b + c
  bool comments = true;  // the program's line beside each value
};

// extern "C" void codetta_epilogue(const EpilogueArgs*, const Tile*) of device/cpu/abi.h.
// Errors: E0901 if the program contradicts itself (decode() accepts no such program).
Result<EmittedSource> emit_cpu_epilogue(const package::EpilogueProgram& program, const CpuEmitOptions& options);

// The fully fused form: multiplication and epilogue in one function that keeps the accumulators in registers.
struct FusedSource : EmittedSource {
  plan::FusedBlock block;
};
// extern "C" void codetta_fused(const FusedArgs*) of device/cpu/abi.h. Errors: E0901 where plan::fused_obstacle() has
// something to say.
Result<FusedSource> emit_cpu_fused(const package::EpilogueProgram& program, DType a, DType b,
                                   const CpuEmitOptions& options);

// A kernel of the user's with the entry `extern "C" int codetta_user(void*, const CodettaTensor*, int, CodettaTensor*,
// int)` (codetta/extern.h): device/cpu/user.h, the source under its own file name and lines, and a call of the function
// of that name. With a hook the program is what follows it, in front of the source. What is wrong with the source its
// compiler says. Errors: E0901 if the program contradicts itself.
Result<EmittedSource> emit_cpu_user(const plan::UserSource& user, const package::EpilogueProgram& program,
                                    const plan::UserHook* hook, const plan::UserConfiguration& chosen,
                                    const CpuEmitOptions& options);
// "void square(Tensor<const float, 2>, float, Tensor<float, 2>)": the function that the source has to have.
// `hook`: null, or the result that the function hands over.
std::string user_signature(const std::string& name, const std::vector<package::Argument>& arguments,
                           const plan::UserHook* hook = nullptr);
// What a compiler is told about an instruction set.
std::vector<std::string> cpu_flags(CpuIsa isa);

struct CudaEmitOptions {
  std::string arch = "sm_80";  // of NVRTC's --gpu-architecture, or of Clang's --offload-arch: "gfx942"
  bool strict = false;         // no contraction of a * b + c
  bool comments = true;        // the program's line beside each value
};

// What the compiler of a kernel's source is told: all flags, the architecture included.
std::vector<std::string> gpu_compiler_flags(const CudaEmitOptions& options);

// A kernel of the user's for a GPU of NVIDIA or AMD: device/cuda/user.h or device/hip/user.h, the meta-parameters as
// macros, the source under its own file name and lines, and a check of what the __global__ function `name` takes. The
// flags are those of NVRTC, or of Clang's HIP (gcc_flags).
Result<EmittedSource> emit_gpu_user(const plan::UserSource& user, const package::EpilogueProgram& program,
                                    const plan::UserHook* hook, const plan::UserConfiguration& chosen,
                                    const package::GpuUserConfig& config, const CudaEmitOptions& options);

// A translation unit for NVRTC, or for Clang's HIP. It includes embedded files as "device/" + their virtual path, and
// holds: the configuration as constants, the phases of the epilogue, and one extern "C" __global__ function an entry.
struct CudaSource {
  std::string text;
  std::vector<std::string> flags;            // all flags, the architecture included
  std::vector<package::GpuEntry> entries;    // in launch order
  std::vector<package::CudaTensorMap> maps;  // of Params::map
};
// Errors: E0901 if the program contradicts itself or the configuration is none of a family.
Result<CudaSource> emit_cuda_kernel(const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                                    const CudaEmitOptions& options);

// The same for a map: its phases over the root space, and the reductions between them.
Result<CudaSource> emit_cuda_map(const package::EpilogueProgram& program, const package::GpuMapConfig& config,
                                 const CudaEmitOptions& options);

}  // namespace codetta::emit
