// SPDX-License-Identifier: Apache-2.0
// HIP kernels in less time: from precompiled headers, since kernels of one family begin with the same macros and
// includes, their prelude, which it takes Clang a seventh of a compile to read; and in parts, where a source has
// several kernel functions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "toolchain/cache.hpp"
#include "toolchain/hip_clang.hpp"

namespace codetta::toolchain {

// The lines of a source up to its last #include, if all of them are #define, #include of one of these headers, comments
// or empty; "" where others are among them.
std::string_view prelude_of(std::string_view source, std::span<const CudaHeader> headers);

// The source twice, with the first of its kernel functions (the product) and with others that take Clang about as long,
// each of as many lines. Empty where it has less than three and the second part would not be worth the start of Clang.
std::vector<std::string> hip_parts_of(std::string_view source);

// Compiles kernels, each with the precompiled prelude where there is one, in memory or in the cache, which changes no
// bit of them; divisible ones in two parts, which changes no instruction. Nothing else that runs decides either, so
// that libraries that are built twice have the same bytes. Keeps at most `most_bytes` of preludes in memory, the last
// used, each of some 0.8 MB; those that are being made or compiled with come on top. Thread safe.
class HipBuilder {
 public:
  static constexpr size_t default_most_bytes = size_t{32} << 20;
  HipBuilder(std::shared_ptr<Cache> cache, int processors, size_t most_bytes = default_most_bytes)
      : cache_(std::move(cache)), processors_(processors), most_bytes_(most_bytes) {}

  // compile_hip(). The first job of a prelude precompiles it for others by another process: at the same time, or, where
  // its own parts take all processors, behind it, one at a time: only the next prelude of that kind and the end of this
  // wait for it. Errors: as compile_hip; what becomes of the prelude fails no job, and one that Clang refuses is not
  // used again.
  Result<HipOutput> compile(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
  // Precompiles the job's prelude unless that has been done or tried. Whether it is there now.
  bool prepare(const HostCompiler& clang, const HipJob& job, const CompileOptions& options);
  // Compilers of kernels, precompiled headers apart.
  [[nodiscard]] int running();
  // Of preludes in memory; never above `most_bytes`.
  [[nodiscard]] size_t kept_bytes();

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Wanted;
  struct Prelude {
    Text text;             // empty: being made, or can not be
    bool is_made = false;  // or was tried
    uint64_t used = 0;     // when, in uses of all
  };
  static size_t bytes_of(const Prelude& prelude);
  void drop_least_used();  // with mutex_ held
  Text find(const Wanted& wanted, bool& first);
  Text make(const HostCompiler& clang, const Wanted& wanted, const CompileOptions& options);
  void refuse(const Wanted& wanted, const Text& found);
  void forget(const Wanted& wanted);
  void make_behind(const HostCompiler& clang, const Wanted& wanted, CompileOptions options);

  class Running;
  std::shared_ptr<Cache> cache_;
  int processors_;
  size_t most_bytes_;
  std::mutex mutex_;
  int running_ = 0;  // compilers
  uint64_t uses_ = 0;
  std::map<std::string, Prelude> preludes_;  // by digest of the key
  std::mutex behind_mutex_;
  std::jthread behind_;  // the last, so that it ends first
};

}  // namespace codetta::toolchain
