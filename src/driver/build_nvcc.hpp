// SPDX-License-Identifier: Apache-2.0
// build() for nvcc: a folder with kernels, host text, header, manifest and script, and all that these include.
#pragma once

#include <map>
#include <span>

#include "codetta/build.hpp"
#include "device/embedded.hpp"
#include "driver/build_plan.hpp"
#include "driver/context.hpp"

namespace codetta::device {

// Files of src/ that host text for a GPU needs where no engine is linked: runtime/cpu/values.cpp, types/overlap.cpp and
// their headers.
std::span<const EmbeddedFile> engine_values();

}  // namespace codetta::device

namespace codetta::driver {

// A candidate whose registers spill is passed over where NVRTC can say so; for forms without compiled kernels inside.
// Errors: those of plan_library().
Result<LibraryPlan> judged_plan(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                                Context& context);

// Errors: E0440, a form that the target does not have.
Result<void> check_form(const Target& target, const BuildOptions& options);

struct NvccFolder {
  std::map<std::string, std::string> files;  // by their path in the folder
  std::string library;                       // that build.sh makes
  std::string name;                          // prefix of everything public
  std::vector<std::string> functions, kernels;
};
// `planned` as of plan_library() with options of BuildForm::Nvcc.
NvccFolder nvcc_folder(LibraryPlan planned);

// options.output is a folder, made where it is missing. Errors: E0440 (header or manifest elsewhere), E0543, those of
// planning.
Result<BuildReport> build_nvcc(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                               Context& context);

}  // namespace codetta::driver
