// SPDX-License-Identifier: Apache-2.0
// An emitted Metal kernel on the CPU: compiled by clang++ against tests/metal_stub, dispatched as the host text does.
#pragma once

#include <string>
#include <vector>

#include "codetta/tensor.hpp"
#include "emit/metal.hpp"
#include "package/epilogue_program.hpp"
#include "plan/candidates.hpp"
#include "types/convert.hpp"

namespace codetta::metal_run {

// A product: row-major tensors, the program's arguments in order (scalars: `scalars`, tensors: `tensors`).
struct Call {
  const package::EpilogueProgram& program;
  const package::GpuGemmConfig& config;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  TensorView a{}, b{};
  std::vector<TensorView> tensors{};  // by argument; empty ones for scalars
  std::vector<double> scalars{};      // by argument
  uint64_t seed = 1;                  // of the order of threads
};

// An object that holds the kernels of a source. Errors as text.
class Library {
 public:
  ~Library();
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // "" or what the compiler or the loader said. 77: there is no clang++.
  std::string load(const std::string& source);
  // Runs the entries in order; workspace and threadgroup memory hold noise before. "" or what went wrong.
  std::string run(const std::vector<package::GpuEntry>& entries, const Call& call);
  // Dispatches a kernel of threads that do not meet, with these parameters.
  std::string run_alone(const std::string& symbol, const void* parameters, unsigned groups, unsigned threads);

 private:
  void* handle_ = nullptr;
};

// The same in pieces, for whoever dispatches by himself. A handle of dlopen(), or null and in `why` what the compiler
// or the loader said.
void* compile_kernels(const std::string& source, std::string& why);
// Every threadgroup of the grid, one after the other. "" or what went wrong.
std::string run_groups(void* function, const void* parameters, size_t shared_bytes, const unsigned (&grid)[3],
                       int threads, uint64_t seed);

bool has_compiler();

}  // namespace codetta::metal_run
