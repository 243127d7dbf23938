// SPDX-License-Identifier: Apache-2.0
// Pieces of Python modules that do not depend on where they stand.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emit/host/python.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

std::string base64(std::string_view bytes);

// A string literal that reads back to these bytes as UTF-8 text.
std::string py_quoted(std::string_view text);

// One line of a comment, whatever the text holds.
std::string py_comment(std::string_view text);

// A dim as Python, in parentheses where it is more than one word; symbols become what `name_of` says.
std::string py_expression(const types::Dim& dim, const std::function<std::string(const std::string&)>& name_of);

// A compiled kernel for a GPU as the tables of device/host/gpu_plan.h, with its code: an item of KERNELS.
std::string gpu_kernel_row(const package::Kernel& kernel);

// And one for a CPU, of which the code may be a file.
std::string cpu_kernel_row(const package::Kernel& kernel, const std::string& path);

// What the programs of a module have in common, each once.
struct ModuleParts {
  std::vector<std::string> kernels;  // rows
  std::string constants, looked;     // items; names of what kernels look at
  std::map<std::string, size_t> constant_of;
  int64_t looks = 0;

  // Their numbers in the module.
  size_t kernel(std::string row);
  size_t constant(const std::string& bytes);
};

// What modules like this one begin with: the files of device/host that its package needs.
std::string module_head(const package::Package& package);
// init() and call() of a module, and the head of _run(), as parts of their text.
struct ModuleFunctions {
  std::string parameters, sizes, sizes_given;  // "a0, a1, ", "n0=None, ", "n0, "
  std::string notes;                           // what else there is to say of call()
  std::string with_call;                       // the line of a GPU's call; empty: of none
  size_t others = 0;                           // programs that rely on less
};
std::string module_functions(const ModuleFunctions& of);
// Of several devices: where the tensors of a call lie.
std::string device_note(const package::Package& package);
// Whether a step writes to memory of the caller's, runs code of the caller's, or decides what does.
bool is_work(const package::Step& step);
// Whether numpy combines elements of this type.
bool numpy_adds(DType dtype);
// `paths`: by kernel, its code as a file; empty: it is inside. Errors: E0614 for kernels that have no form in a module.
Result<void> check_kernels(const package::Package& package, const std::vector<std::string>& paths);
// What stands in front of a module's programs, of the first of which this is the package.
std::string module_constants(const package::Package& package, const PythonOptions& options, const ModuleParts& parts);

}  // namespace codetta::emit::host
