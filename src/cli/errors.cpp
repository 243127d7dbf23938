// SPDX-License-Identifier: Apache-2.0
// Errors of the command line, and how every error is shown and becomes an exit status.
#include <cstdio>

#include "cli/options.hpp"

namespace codetta::cli {

Error usage_error(std::string headline, std::string reason, std::string help) {
  Diagnostic diagnostic;
  diagnostic.code = 701;
  diagnostic.headline = std::move(headline);
  diagnostic.reason = std::move(reason);
  diagnostic.help = std::move(help);
  return Error(std::move(diagnostic));
}

Error all_kernels(const std::string& command) {
  return usage_error("--kernel is not for " + command, "it looks at all kernels",
                     "leave it out; gemm, bench, emit, compile, kernels and verify take it");
}

std::string& internal_message() {
  static std::string message;
  return message;
}

int report(const Error& error, bool json) {
  const std::string text = json ? error.to_json() + "\n" : error.render();
  std::fwrite(text.data(), 1, text.size(), stderr);
  switch (error.family()) {
    case ErrorFamily::Program:
      return exit_program;
    case ErrorFamily::Usage:
      return exit_usage;
    case ErrorFamily::Environment:
      return exit_environment;
    case ErrorFamily::Internal:
      break;
  }
  internal_message() = error.render();
  return exit_internal;
}

}  // namespace codetta::cli
