// SPDX-License-Identifier: Apache-2.0
// A package for a CPU or for CUDA as a Python module that needs numpy and the engine's shared library, and nothing else
// of Codetta's: the text of device/host/program.py, then the program. For CUDA it needs the package cuda.bindings,
// takes tensors in device memory, and enqueues on `stream`. Identifiers are made by the generator; names of the user's
// appear in string literals only.
//
// The module has init(), call(...) and get_last_error(). call takes an array for each tensor and a number for each
// scalar in declared order (outputs are written), then shape symbols, stride symbols and a stream, which may be left
// out: what is given is checked. It returns 0, or -1 with the text in get_last_error(). `externs` maps names to Python
// functions f(inputs, outputs) -> code, or f(inputs) -> arrays for the alloc-form; `weights` maps names of external
// constants to arrays.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

struct PythonOptions {
  std::string engine = "libcodetta_host.so";  // path or name of the engine's shared library
  // By kernel of the first program: its compiled code as a file; empty: the package's bytes, inside.
  std::vector<std::string> kernel_paths{};
  bool checked = true;  // Check steps are printed
  // The same program with kernels that rely on less of how tensors lie, the first to be tried first. A call takes the
  // first of all whose kernels take its tensors, which is known before anything is enqueued, or runs.
  std::vector<const package::Package*> takes_over{};
  std::vector<std::map<uint32_t, std::string>> told{};  // as Program::told of cpp.hpp, by program
};

// Errors: E0614 for what this backend does not have, E0520 for a package with a defect.
Result<std::string> emit_python(const package::Package& package, const PythonOptions& options);

}  // namespace codetta::emit::host
