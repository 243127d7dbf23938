// SPDX-License-Identifier: Apache-2.0
// One kernel of a program as a folder of its own: sources, the data of its constants, a program that calls it, and the
// command that builds it. For reports of wrong or slow kernels, profilers, and compilers' bug trackers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codetta/build.hpp"
#include "codetta/program.hpp"

namespace codetta {

struct ReproducerOptions {
  std::string folder{};  // made where it is missing; files of the same names in it are replaced
  std::string kernel{};  // its name, or a part that no other kernel of the program has
  // Values of the program's sizes, which its tensors have: 16 where one is missing, or, of a kernel that a library has
  // for other numbers of rows, such a number.
  std::vector<std::pair<std::string, int64_t>> sizes{};
  // As of compile(): the kernels are those that a program compiled with them takes for `sizes`. None: planned for
  // `sizes`. A name that is not among them is looked for among all that build() has for a program with these hints.
  std::vector<std::pair<std::string, int64_t>> size_hints{};
  std::string engine_dir{};  // as of BuildOptions
  WriteGuard before_writing{};
};

struct ReproducerReport {
  std::string kernel;
  std::vector<std::string> files;  // in the folder, in the order of their names
  std::string command;             // that builds and runs it, in the folder
};

// Products with their epilogues, kernels without a product, and kernels of the user's, for CPUs, CUDA and HIP. What the
// folder holds needs a C++ compiler, and for a GPU its driver; neither Codetta nor a toolkit. The program that is built
// fills its inputs from files NAME.bin where they are (raw elements, row-major), else with random numbers of a seed;
// poisons what is only written, calls the kernel, writes the results to NAME.out, and says what they are and how long
// the kernel takes. Errors: E0209 (no such kernel or size, or several kernels), E0210 (a size twice), E0602 (a negative
// one), E0703 (hints of too many sizes), E0440 (no form as host text), E0536 and E0537 (the compiler for HIP), E0541,
// E0543 (looked for before anything is compiled), those of compile().
CODETTA_API Result<ReproducerReport> reproduce(const Program& program, const Target& target,
                                               const ReproducerOptions& options,
                                               Context& context = Context::process_default());

}  // namespace codetta
