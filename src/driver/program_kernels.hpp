// SPDX-License-Identifier: Apache-2.0
// Which kernels of a package those of its plan became.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codetta/build.hpp"
#include "driver/context.hpp"
#include "package/package.hpp"
#include "plan/explain.hpp"

namespace codetta::driver {

// The kernels of all launches in order, behind each those that make its B: of the main list, then of the child lists.
std::vector<uint32_t> launched_kernels(const package::StepList& steps, const std::vector<package::StepList>& lists);

// By kernel of the plan. The package was emitted from it, or from one that differs in the choice of candidates only:
// their launches are the same in number and order.
std::vector<uint32_t> kernels_of(const plan::Plan& plan, const package::Package& package);

plan::EmittedKernels emitted_kernels(const package::Package& package, const std::vector<uint32_t>& kernel_of);

// Every kernel's source. In front of it, as comments: the lines of the text that each of its launches carries out, and
// which of their values are in no memory. These are not part of the source, so that equal kernels stay equal.
std::string source_listing(const plan::Plan& plan, const package::Package& package);

// The package as a Python module; those of `takes_over` serve tensors that it does not take (CUDA). `told`: of each,
// what errors call buffers (value_place.hpp). Errors: E0503, E0614 (no such text: a step that it lacks, AMD's and
// Apple's GPUs), those of compiling.
Result<std::string> python_text(ContextState& context, const package::Package& package,
                                const std::vector<package::PackageRef>& takes_over = {},
                                std::vector<std::map<uint32_t, std::string>> told = {});

// PTX, SASS or assembly (Stage::Ptx, Sass, Asm) of every kernel. Errors: E0415, those of compilers.
Result<std::string> code_listing(ContextState& context, const package::Package& package, Stage stage);

// The C++ host text of a library of these programs and its header; see codetta/build.hpp. `tunes`: times configurations
// of kernels of the user's, as build() does; null where options ask for none.
Result<std::string> library_text(const std::vector<Program>& programs, const Target& target,
                                 const BuildOptions& options, ContextState& context, Context* tunes = nullptr);

}  // namespace codetta::driver
