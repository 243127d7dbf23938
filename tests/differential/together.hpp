// SPDX-License-Identifier: Apache-2.0
// Compilers start seldom where texts that users compile one by one are compiled as one, and a kernel that several
// programs have is compiled once. The texts stay as they are emitted; only what stands around them differs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "driver/build_plan.hpp"
#include "package/package.hpp"
#include "runtime/cpu/module.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::test {

// Texts of a library's programs as one, each program in a namespace of its own, in which it sees the headers that it
// includes. Of `files`, those that are not the engine's are what the files of one program share.
std::string host_texts_together(std::span<const toolchain::CompileJob> units,
                                std::span<const toolchain::LibraryFile> files);

// Whether this account is of a compiler, linker or interpreter that the machine killed, stopped for its time or had no
// room for. It says nothing about the texts that were given to it.
bool is_unfinished(std::string_view account);
// The same of the end of a process that the tests have started themselves.
bool is_unfinished(const base::ProcessResult& result);

struct SharedKernel {
  std::string function;  // what its object calls it
  std::string path;      // of the object
  std::shared_ptr<const runtime::cpu::Module> module;
};

// The kernels that a process has compiled so far, for runs in process, libraries and Python modules alike.
class SharedKernels {
 public:
  // Compiles those that are new, all of the same flags together. Empty: done; else what the compiler or the loader has
  // against it.
  std::string compile(const std::vector<driver::KernelUnit>& units, const toolchain::HostCompiler& compiler);
  // The one of this very text and these flags; null: there was none among the units.
  [[nodiscard]] const SharedKernel* find(const std::string& source, const std::vector<std::string>& flags) const;
  // Paths of the objects that have these units, each once.
  [[nodiscard]] std::vector<std::string> objects(const std::vector<driver::KernelUnit>& units) const;

 private:
  using Unit = const driver::KernelUnit*;
  std::string compile_group(const std::vector<Unit>& group, const toolchain::HostCompiler& compiler);
  void forget();

  std::optional<base::TemporaryDirectory> folder_;
  size_t made_ = 0;
  std::map<base::Digest128, SharedKernel> known_;
  std::map<std::string, base::Digest128> functions_;  // what has each name
};

}  // namespace codetta::test
