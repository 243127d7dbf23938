// SPDX-License-Identifier: Apache-2.0
// Precompiled headers of HIP kernels. Kernels of one family begin with the same macros and includes, their prelude, and
// to read it takes Clang a seventh of a compile.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "toolchain/cache.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {

// The lines of a source up to its last #include, if all of them are #define, #include of one of these headers, comments
// or empty; "" where others are among them.
std::string_view prelude_of(std::string_view source, std::span<const CudaHeader> headers);

// Compiles kernels, each with the precompiled prelude where there is one, in memory or in the cache. What is made has
// the same bits without. Thread safe.
class HipBuilder {
 public:
  explicit HipBuilder(std::shared_ptr<Cache> cache) : cache_(std::move(cache)) {}

  // compile_hip(). The first job of a prelude precompiles it for others, at the same time and by another process.
  // Errors: as compile_hip; what becomes of the prelude fails no job.
  Result<HipOutput> compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
  // Precompiles the job's prelude unless that has been done or tried. Whether it is there now.
  bool prepare(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Wanted;
  Text find(const Wanted& wanted, bool& first);
  Text make(const HostCompiler& clang, const Wanted& wanted, const CompileOptions& options);

  std::shared_ptr<Cache> cache_;
  std::mutex mutex_;
  std::map<std::string, Text> made_;  // by digest of the key; empty: being made, or can not be
};

}  // namespace codetta::toolchain
