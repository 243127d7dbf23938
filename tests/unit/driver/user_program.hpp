// SPDX-License-Identifier: Apache-2.0
// Programs that call kernels of the user's, for tests that compile and run them on this machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unit/driver/program_check.hpp"

namespace codetta::test {

class UserProgram : public ::testing::Test {
 protected:
  static Program parse(const std::string& text, std::vector<UserKernel> kernels) {
    const auto program = Program::parse(text, "p.py");
    EXPECT_TRUE(program) << program.error().render();
    const auto with = program->with_kernels(std::move(kernels));
    EXPECT_TRUE(with) << with.error().render();
    return *with;
  }
  Error compile_error(const Program& program, const Target& target = Target::host()) {
    const auto compiled = compile(program, target, {}, context_);
    EXPECT_FALSE(compiled);
    return compiled ? Error(Diagnostic{}) : compiled.error();
  }

  Context context_ = Context::make({.cache_enabled = false, .threads = 2}).value();
};

}  // namespace codetta::test
