// SPDX-License-Identifier: Apache-2.0
// nvcc as the compiler of CUDA kernels, for machines that have a toolkit and no NVRTC: the same sources, flags,
// messages and remarks, in a process of its own with the headers as files. It takes twice as long.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "toolchain/nvrtc.hpp"

namespace codetta::toolchain {

struct CudaNvccOptions {
  std::string file{};       // exactly this program; "" = nvcc, looked for
  std::string cuda_home{};  // folder of a toolkit; its bin is looked through before the search path
  std::string path{};       // of the caller: folders of nvcc, and of the C++ compiler that it preprocesses with
  std::string library_path{};
  const std::atomic<bool>* cancel = nullptr;  // when it becomes true, compilers end within about 20 ms
};

// A program that is there and answers. Immutable; compile() may be called from several threads.
class CudaNvcc {
 public:
  // Errors: E0530 none found (where it was looked for), E0531 found but unusable (it does not run, is no nvcc, is older
  // than 12.0), E0510 cancelled.
  static Result<std::shared_ptr<const CudaNvcc>> find(const CudaNvccOptions& options);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int version() const { return version_; }  // 13000 = 13.0
  // Content digest of its parts and what it says of its version. "" when a part cannot be read.
  [[nodiscard]] std::string identity() const;
  // nvcc as it was found, nvcc itself where that is a script, cicc and ptxas, as far as they are known.
  [[nodiscard]] const std::vector<std::string>& identity_files() const { return parts_; }
  // All arguments but files and folders.
  static std::vector<std::string> arguments(const CudaJob& job);
  // One process, with PTX wanted two. Errors: E0504 rejected (messages parsed, pointing into the kept source), E0313
  // for the user's source, E0501 without a host compiler, E0505 timeout, E0506 it failed itself, E0507 no room for
  // files, E0510 cancelled, E0532 the architecture is not known to it.
  [[nodiscard]] Result<CudaOutput> compile(const CudaJob& job, const CudaCompileOptions& options) const;

 private:
  explicit CudaNvcc(CudaNvccOptions options) : options_(std::move(options)) {}
  CudaNvccOptions options_;
  std::string path_, said_;
  int version_ = 0;
  std::vector<std::string> parts_;
};
using CudaNvccRef = std::shared_ptr<const CudaNvcc>;

// Several jobs in up to `parallel` processes; results in job order.
std::vector<Result<CudaOutput>> compile_all(const CudaNvcc& nvcc, const std::vector<CudaJob>& jobs,
                                            const CudaCompileOptions& options, int parallel);

}  // namespace codetta::toolchain
