// SPDX-License-Identifier: Apache-2.0
// Several kernels in one call of the compiler: a start of the compiler costs as much as an epilogue.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "package/package.hpp"
#include "runtime/execution.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::test {

class CompiledSources {
 public:
  // Of one kernel; nothing where the engine stores the accumulators itself.
  void want(const package::Kernel& kernel);
  // One call for each set of flags. Where one fails, its kernels are left to whoever compiles them alone.
  void compile(const toolchain::HostCompiler& compiler);
  // Null when it was not compiled here.
  [[nodiscard]] const runtime::KernelEntry* find(const package::Kernel& kernel) const;

 private:
  struct Wanted {
    std::string source, symbol;
    bool is_fused = false;
  };
  using Flags = std::vector<std::string>;
  std::map<Flags, std::vector<Wanted>> wanted_;
  std::map<std::pair<Flags, std::string>, runtime::KernelEntry> made_;  // by flags and source
};

}  // namespace codetta::test
