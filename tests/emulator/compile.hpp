// SPDX-License-Identifier: Apache-2.0
// Sources of kernels to objects of the host, which the emulated driver loads as the real one loads cubins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::emulator {

// Thread safe.
class Compiler {
 public:
  // The host compiler of the PATH. Errors: E0501, E0502.
  static Result<Compiler> find();
  // A source of any GPU dialect as a package carries it, with the flags that go with it: the architecture and whether
  // a * b + c may be contracted are taken from them. Errors: E0504 to E0507.
  [[nodiscard]] Result<std::string> compile(const std::string& source, const std::vector<std::string>& flags) const;

 private:
  toolchain::HostCompiler compiler_;
};

// The names of the entry points of a source, in order.
std::vector<std::string> entries_of(std::string_view source);

}  // namespace codetta::emulator
