// SPDX-License-Identifier: Apache-2.0
// Private to the room: the errors of a compile, E0313, E0504 to E0507 and E0510.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/compiler.hpp"
#include "toolchain/messages.hpp"
#include "toolchain/users_text.hpp"

namespace codetta::toolchain {

struct FailedRun {
  const HostCompiler& compiler;
  const CompileJob& job;
  const CompileOptions& options;
  const std::string& program;
  const std::vector<std::string>& arguments;
  const std::string& folder;  // of the temporaries
};

// Keeps a refused source in `folder`, under a name made of its content; its path, or "" when it can't be kept or shall
// not be (folder "").
std::string keep_refused(const std::string& folder, std::string_view source, std::string_view extension);
// The first five errors among the messages, in the user's text where that asks for what is wrong: the first of all is
// where the error is, if it has a place.
void show_errors(diag::ErrorBuilder& error, const std::vector<CompilerMessage>& messages, std::string_view source,
                 const std::function<SourceLocation(const CompilerMessage&)>& locate);

// The way out of E0505.
inline constexpr std::string_view help_timeout =
    "raise `compile_timeout_seconds`, free the machine, or run the command by hand to see what it does";

Error folder_failed(const std::string& label, const base::SystemError& why, const std::vector<std::string>& parents);
Error start_failed(const FailedRun& run, const base::SystemError& why);
Error run_failed(const FailedRun& run, const base::ProcessResult& result);
Error no_object(const FailedRun& run, const std::string& why);
Error cancelled_before_start(const CompileJob& job);

}  // namespace codetta::toolchain
