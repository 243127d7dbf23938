// SPDX-License-Identifier: Apache-2.0
// NVRTC, the CUDA compiler as a library: loaded when first needed, without a toolkit at build time and without a GPU.
// Headers are given in memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "toolchain/ptxas_remarks.hpp"

namespace codetta::toolchain {

struct NvrtcOptions {
  std::string file{};       // exactly this file; "" = looked for
  std::string cuda_home{};  // folder of a toolkit (with lib64 or lib); looked through before the usual places
};

// A file that sources include by exactly this path; nested includes spell whole paths, too.
struct CudaHeader {
  std::string_view path, text, digest;
};

struct CudaJob {
  std::string source{};              // complete but for the headers
  std::string label{};               // for messages: the kernel's name
  std::vector<std::string> flags{};  // all of them but -v of the assembler, the architecture included
  std::span<const CudaHeader> headers{};
  bool want_ptx = false;
  // Kernel functions of the source share nothing but what headers and constants say, so that those of one part may be
  // compiled beside those of another: not so of a user's, which may have variables.
  bool divisible = false;
};
struct CudaOutput {
  std::string cubin;                  // of parts: their image (package/image.hpp)
  std::string ptx;                    // when wanted
  std::string log;                    // what compiler and assembler said
  std::vector<PtxasRemarks> remarks;  // by kernel, in the assembler's order
  double seconds = 0;                 // of parts: of the one that took longest
};
struct CudaCompileOptions {
  double timeout_seconds = 60;  // kept by NVRTC 12.8 and later; older ones run to their end
  std::string keep_dir{};       // where the source of a failed compile is kept; the error names the file
};

// The loaded library. Immutable; compile() may be called from several threads.
class Nvrtc {
 public:
  // Errors: E0530 none found (what was looked for and where), E0531 found but unusable (too old, damaged).
  static Result<std::shared_ptr<const Nvrtc>> find(const NvrtcOptions& options);
  [[nodiscard]] const std::string& path() const { return path_; }  // of the library, links resolved
  [[nodiscard]] int version() const { return version_; }           // 13000 = 13.0
  [[nodiscard]] const std::vector<int>& architectures() const { return architectures_; }  // 90: sm_90 and sm_90a
  // Content digest of the library and its builtins; about 50 ms, so callers keep it. "" when they cannot be read.
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] std::vector<std::string> identity_files() const;
  // Of a divisible job that takes long and no PTX two parts at the same time, by the source's text alone, so that the
  // same source has the same bytes on any machine.
  // Errors: E0504 rejected (messages parsed, pointing into the kept source), E0313 for the user's source, E0505
  // timeout, E0506 it failed itself, E0531 its builtins are missing, E0532 the architecture is not known to it.
  [[nodiscard]] Result<CudaOutput> compile(const CudaJob& job, const CudaCompileOptions& options) const;

 private:
  friend std::vector<Result<CudaOutput>> compile_all(const Nvrtc& nvrtc, const std::vector<CudaJob>& jobs,
                                                     const CudaCompileOptions& options, int parallel);
  [[nodiscard]] Result<CudaOutput> compile_whole(const CudaJob& job, const CudaCompileOptions& options) const;
  struct Functions;
  Nvrtc() = default;
  std::shared_ptr<const Functions> functions_;
  std::string path_;
  int version_ = 0;
  std::vector<int> architectures_;
};
using NvrtcRef = std::shared_ptr<const Nvrtc>;

// Those of `headers` that the source includes, directly or through others, in the order of `headers`. Their digests are
// part of a cache key.
std::vector<CudaHeader> included_headers(std::string_view source, std::span<const CudaHeader> headers);

// The source of a divisible job as two, or nothing where one is as good.
std::vector<std::string> cuda_parts_of(std::string_view source);

// Several jobs, or parts of them, in up to `parallel` threads; results in job order.
std::vector<Result<CudaOutput>> compile_all(const Nvrtc& nvrtc, const std::vector<CudaJob>& jobs,
                                            const CudaCompileOptions& options, int parallel);

}  // namespace codetta::toolchain
