// SPDX-License-Identifier: Apache-2.0
// Clang as the compiler of HIP kernels, with LLVM's linker: neither ROCm's headers nor its device libraries are needed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/compiler.hpp"
#include "toolchain/nvrtc.hpp"
#include "toolchain/ptxas_remarks.hpp"

namespace codetta::toolchain {

// `wanted`: "", a name or an absolute path. The result's `linker` is the lld that the driver calls.
// Errors: E0536 none found, or no lld beside it (what was looked for and where), E0537 too old or not working,
// E0505 timeout.
Result<HostCompiler> find_hip_clang(const FindOptions& options);

struct HipJob {
  std::string source{};              // complete but for the headers
  std::string label{};               // for messages: the kernel's name
  std::vector<std::string> flags{};  // the architecture included; what every job has in common is added
  std::span<const CudaHeader> headers{};
  std::string_view precompiled{};  // header that the source goes on from (precompile_hip)
  // Kernel functions are written by Codetta: each from `extern "C" __global__` at the start of a line to `}` at the
  // start of one, with nothing but calls of inline functions in common, so that any of them can be left out.
  bool divisible = false;
};
struct HipOutput {
  std::string object;                 // code object: ELF for amdgpu
  std::string log;                    // what the compiler said
  std::vector<PtxasRemarks> remarks;  // by kernel, from the object's metadata (read_code_object)
  double seconds = 0;
};
// All arguments of a compile but input, output and the folder of the headers. Part of a cache key, with the compiler,
// some of which are not given those of LLVM's own (`knows_options`).
std::vector<std::string> hip_arguments(const HipJob& job, bool knows_options = true);
// Errors: E0504 rejected (messages parsed), E0313 for the user's source, E0505 timeout, E0506 crashed or not started,
// E0507 no room, E0510 cancelled.
Result<HipOutput> compile_hip(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
// The same of several sources at the same time, each with other kernel functions, which become one code object.
Result<HipOutput> compile_hip(const HostCompiler& clang, std::span<const HipJob> parts, const CompileOptions& options);
// The source as a precompiled header for jobs of the same compiler and flags, whose bits it does not change. It holds
// the texts of all headers. Errors: as compile_hip.
Result<std::string> precompile_hip(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
// Text of what the compiler makes of it.
Result<std::string> hip_assembly(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);

// What the metadata of a code object (note of type 32, MessagePack, LLVM's "User Guide for AMDGPU Backend") says about
// its kernels, in their order: registers (vector and accumulation registers together), LDS as shared_bytes, scratch as
// stack_bytes, spilled vector registers in bytes. Errors: E0506 where it is no such object.
Result<std::vector<PtxasRemarks>> read_code_object(std::string_view object, const std::string& label);
// Gives what the metadata of the relocatable object `other` says about its kernels to `object`, so that the linker
// makes one note of them. Whether both are such objects; neither is changed otherwise.
bool join_metadata(std::string& object, std::string& other);

}  // namespace codetta::toolchain
