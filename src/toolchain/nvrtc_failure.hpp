// SPDX-License-Identifier: Apache-2.0
// Private to the room: the errors of NVRTC and nvcc, and their messages taken apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toolchain/messages.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::toolchain {

inline constexpr std::string_view nvrtc_source_name = "kernel.cu";  // the same in all, so that binaries do not differ

struct FailedCuda {
  std::string compiler;  // "NVRTC 13.0"
  std::string path;
  const CudaJob& job;
  const CudaCompileOptions& options;
};
std::string version_text_of(std::string_view compiler, int version);  // "NVRTC", 13000: "NVRTC 13.0"

Error nvrtc_unusable(const std::string& why);
Error cuda_rejected(const FailedCuda& run, const std::string& log);
Error cuda_timed_out(const FailedCuda& run, double seconds);
Error cuda_failed(const FailedCuda& run, const std::string& why, const std::string& log);
std::string architecture_of(const CudaJob& job);  // "sm_90a"; "" where no flag says it
// E0532. `known`: what the compiler says that it compiles for.
Error cuda_architecture_unknown(const FailedCuda& run, const std::string& known);
// Errors: E0532.
Result<void> check_architecture(const FailedCuda& run, const std::vector<int>& known);

// Lines of the forms file(line): severity: text, with a number such as #20-D after the severity, and those of the
// assembler.
std::vector<CompilerMessage> parse_cuda_messages(std::string_view log);

}  // namespace codetta::toolchain
