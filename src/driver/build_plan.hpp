// SPDX-License-Identifier: Apache-2.0
// What build() plans before it compiles: libraries, and reproducers of one of their kernels (reproduce.cpp).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codetta/build.hpp"
#include "driver/build_constants.hpp"
#include "driver/context.hpp"
#include "emit/host/cpp.hpp"
#include "toolchain/library.hpp"

namespace codetta::driver {

// A kernel's translation unit in the library; several launches and programs may share it.
struct KernelUnit {
  std::string source;
  std::vector<std::string> gcc_flags, clang_flags;
  std::string entry;     // what the source calls its function
  std::string function;  // what the library calls it
};

// Adds it, unless there is one of that function, whose name it returns.
std::string add_unit(std::vector<KernelUnit>& units, KernelUnit unit);

struct LibraryPlan {
  emit::host::Library host;
  std::vector<KernelUnit> kernels;
  EmbeddedBytes bytes;
  ConstantValues values;
  std::vector<std::pair<std::string, std::string>> tuning;  // by function, as JSON
  std::vector<std::string> sizes;                           // BuildReport::sizes
  double compile_seconds = 0;                               // of kernels for a GPU
};

// `compiled`: kernels for a GPU are; without it the text has names in place of their code. `whole`: the
// programs have a form as host text, which is E0440 otherwise. `tunes`: the same context, in which kernels of the
// user's are timed where options.tune_seconds asks for it; null: they are not. Errors: those of build().
Result<LibraryPlan> plan_library(const std::vector<Program>& programs, const Target& wanted,
                                 const BuildOptions& options, ContextState& context, bool compiled, bool whole = true,
                                 Context* tunes = nullptr);
// Compiles the kernels of a plan for a GPU: one whose registers or spills rule it out (E0533) is passed over for the
// candidate that ranks next, as in process. Of other targets nothing is done. Errors: E05xx, E0533 of a last candidate.
Result<void> pass_over(plan::Plan& plan, const std::string& name, ContextState& context, const BuildOptions& options);
// Its translation units and what they include; without archives. `file_name` of the library.
toolchain::LibraryJob job_of(const LibraryPlan& planned, const toolchain::HostCompiler& compiler,
                             const std::string& file_name);
// Where the engine's archives and its shared library lie: `given`, or "codetta" beside libcodetta; absolute.
std::string engine_folder(std::string given);
// The engine's archives for a CPU's level, or for a GPU. Errors: E0541.
Result<std::vector<std::string>> engine_archives(const Target& target, const BuildOptions& options);

// E0543: why an output cannot be where it was to go.
Error unwritable(const std::string& path, const std::string& why);

// Before minutes of work: library, header and manifest can be made where they shall go, as a file each, and the library
// is no device; none is one of `read`. Errors: E0543.
Result<void> check_writable(const std::string& library, const std::vector<std::string>& beside,
                            const std::vector<std::string>& read = {});

}  // namespace codetta::driver
