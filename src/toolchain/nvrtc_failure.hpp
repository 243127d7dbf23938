// SPDX-License-Identifier: Apache-2.0
// Private to the room: the errors of NVRTC, and its messages taken apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toolchain/messages.hpp"
#include "toolchain/nvrtc.hpp"

namespace codetta::toolchain {

inline constexpr std::string_view nvrtc_source_name = "kernel.cu";  // the same in all, so that binaries do not differ

struct FailedNvrtc {
  const Nvrtc& nvrtc;
  const CudaJob& job;
  const CudaCompileOptions& options;
};

Error nvrtc_unusable(const std::string& why);
Error nvrtc_rejected(const FailedNvrtc& run, const std::string& log);
Error nvrtc_timed_out(const FailedNvrtc& run, double seconds);
Error nvrtc_failed(const FailedNvrtc& run, const std::string& why, const std::string& log);
// Errors: E0532.
Result<void> check_architecture(const FailedNvrtc& run);

// Lines of the forms file(line): severity: text, with a number such as #20-D after the severity, and those of the
// assembler.
std::vector<CompilerMessage> parse_cuda_messages(std::string_view log);

}  // namespace codetta::toolchain
