// SPDX-License-Identifier: Apache-2.0
// HIP kernels in less time: from precompiled headers, since kernels of one family begin with the same macros and
// includes, their prelude, which it takes Clang a seventh of a compile to read; and in parts, where a source has
// several kernel functions and processors are free.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/cache.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {

// The lines of a source up to its last #include, if all of them are #define, #include of one of these headers, comments
// or empty; "" where others are among them.
std::string_view prelude_of(std::string_view source, std::span<const CudaHeader> headers);

// The source twice: with the first of its kernel functions alone (the product), and with the others (what follows it),
// each of as many lines. Empty where it has less than three, whose second part would not be worth the start of Clang.
std::vector<std::string> parts_of(std::string_view source);

// Compiles kernels, each with the precompiled prelude where there is one, in memory or in the cache, which changes no
// bit of them; divisible ones in two parts while fewer than `processors` compilers run, which changes no instruction.
// Thread safe.
class HipBuilder {
 public:
  HipBuilder(std::shared_ptr<Cache> cache, int processors) : cache_(std::move(cache)), processors_(processors) {}

  // compile_hip(). The first job of a prelude precompiles it for others, at the same time and by another process.
  // Errors: as compile_hip; what becomes of the prelude fails no job.
  Result<HipOutput> compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
  // Precompiles the job's prelude unless that has been done or tried. Whether it is there now.
  bool prepare(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
  // Compilers of kernels, precompiled headers apart.
  [[nodiscard]] int running();

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Wanted;
  Text find(const Wanted& wanted, bool& first);
  Text make(const HostCompiler& clang, const Wanted& wanted, const CompileOptions& options);

  class Running;
  std::shared_ptr<Cache> cache_;
  int processors_;
  std::mutex mutex_;
  int running_ = 0;                   // compilers
  std::map<std::string, Text> made_;  // by digest of the key; empty: being made, or can not be
};

}  // namespace codetta::toolchain
