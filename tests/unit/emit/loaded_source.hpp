// SPDX-License-Identifier: Apache-2.0
// Compiles emitted sources with the host compilers and loads them.
#pragma once

#include <string>
#include <vector>

#include "emit/emit.hpp"

namespace codetta::emit {

// g++ and, where there is one new enough, clang++; absolute paths.
struct TestCompiler {
  std::string path;
  bool clang = false;
};
const std::vector<TestCompiler>& test_compilers();

class LoadedSource {
 public:
  // On failure symbol() gives nullptr and log() says why.
  LoadedSource(const EmittedSource& source, const TestCompiler& compiler);
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;
  ~LoadedSource();
  [[nodiscard]] void* symbol(const std::string& name) const;
  [[nodiscard]] const std::string& log() const { return log_; }
  [[nodiscard]] double compile_seconds() const { return seconds_; }

 private:
  void* handle_ = nullptr;
  std::string log_;
  double seconds_ = 0;
};

// The ISA levels that this machine runs, generic first (bf16, vnni and amx emit what avx512 emits).
std::vector<CpuIsa> runnable_isas();

}  // namespace codetta::emit
