// SPDX-License-Identifier: Apache-2.0
#include "driver/compiler_help.hpp"

#include <string>
#include <utility>
#include <vector>

#include "diag/diagnostic.hpp"

namespace codetta::driver {

Error without_compiler(const Error& error, std::string_view instead) {
  const auto code = static_cast<diag::Code>(error.code());
  if (code != diag::Code::compiler_missing && code != diag::Code::compiler_unusable) return error;
  std::vector<Diagnostic> told = error.diagnostics();
  told.front().help += "; " + std::string(instead);
  return Error(std::move(told));
}

}  // namespace codetta::driver
