// SPDX-License-Identifier: Apache-2.0
// Private to the room: the errors of a compile, E0504 to E0507 and E0510.
#pragma once

#include <string>
#include <vector>

#include "base/process.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

struct FailedRun {
  const HostCompiler& compiler;
  const CompileJob& job;
  const CompileOptions& options;
  const std::string& program;
  const std::vector<std::string>& arguments;
  const std::string& folder;  // of the temporaries
};

Error folder_failed(const std::string& label, const std::string& why, const std::vector<std::string>& parents);
Error start_failed(const FailedRun& run, const std::string& why);
Error run_failed(const FailedRun& run, const base::ProcessResult& result);
Error no_object(const FailedRun& run, const std::string& why);
Error cancelled_before_start(const CompileJob& job);

}  // namespace codetta::toolchain
