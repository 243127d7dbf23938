// SPDX-License-Identifier: Apache-2.0
// Compiles emitted sources with the host compilers and loads them.
#pragma once

#include <cstdint>
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
// Those that the current commit picks for a level: with two compilers each level is compiled by one of them, and for
// another half of the commits by the other; in the full suite by both.
std::vector<TestCompiler> test_compilers(CpuIsa isa);

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

// The ISA levels whose texts or flags differ and that this machine runs, generic first (avx512_vnni emits what avx512
// emits, amx what avx512_bf16 emits).
std::vector<CpuIsa> runnable_isas();
// Whether the level is to be compiled beside those below it: avx512_bf16 is avx512 with an instruction that rounds to
// bf16, which this source may have no use for.
bool emits_of_its_own(CpuIsa isa, const EmittedSource& source);

}  // namespace codetta::emit
