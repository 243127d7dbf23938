// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded when first needed; what it proposes for a product, and the product itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "package/vendor_gemm.hpp"
#include "runtime/cuda/cublaslt_abi.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::runtime::cuda {

namespace lt {
// The functions by name; see cublaslt_functions.def.
struct Table {
#define CODETTA_LT(member, symbol, parameters) Status(*member) parameters = nullptr;
#include "runtime/cuda/cublaslt_functions.def"
#undef CODETTA_LT
};
}  // namespace lt

struct CublasLtOptions {
  std::string file{};       // exactly this one; "" = looked for
  std::string cuda_home{};  // folder of a toolkit, searched before the usual places
};

// The loaded library. Immutable, thread safe, never unloaded.
class CublasLt {
 public:
  // Looks in cuda_home, by the loader's search, and in /usr/local/cuda, for version 13, then 12. Errors: E0652 where
  // there is none, where it lacks a function (names it), or where its version is not 12 or 13.
  static Result<std::shared_ptr<const CublasLt>> load(const CublasLtOptions& options);
  [[nodiscard]] const lt::Table& call() const { return table_; }
  [[nodiscard]] int64_t version() const { return version_; }       // 130000 = 13.0.0
  [[nodiscard]] const std::string& path() const { return path_; }  // of the file
  [[nodiscard]] std::string version_text() const;                  // "13.0.0"
  // Errors: E0652 with the call and what the library calls the status.
  [[nodiscard]] Error failure(lt::Status status, std::string_view call, const std::string& argument) const;

 private:
  CublasLt() = default;
  lt::Table table_{};
  const char* (*status_name_)(lt::Status) = nullptr;
  int64_t version_ = 0;
  std::string path_;
};
using CublasLtRef = std::shared_ptr<const CublasLt>;

// The library on one device. Thread safe.
class CublasLtHandle {
 public:
  // Errors: E0652, E0645.
  static Result<std::shared_ptr<const CublasLtHandle>> make(CublasLtRef library, DeviceRef device);
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;
  [[nodiscard]] const CublasLt& library() const { return *library_; }
  [[nodiscard]] const DeviceRef& device() const { return device_; }
  [[nodiscard]] lt::Handle get() const { return handle_; }
  // What the library offers for a problem, best first; empty where it has nothing. Errors: E0652, E0645.
  [[nodiscard]] Result<std::vector<package::VendorProposal>> propose(const package::VendorProblem& problem) const;

 private:
  CublasLtHandle() = default;
  CublasLtRef library_;
  DeviceRef device_;
  lt::Handle handle_ = nullptr;
};
using CublasLtHandleRef = std::shared_ptr<const CublasLtHandle>;

// Why the library cannot be asked for this problem: strides that are no leading dimension, types that it lacks. Empty
// where it can.
std::string vendor_obstacle(const package::VendorProblem& problem);

// Descriptors of one problem, and the algorithms that the library proposes for it. Move-only.
class VendorProduct {
 public:
  struct Addresses {
    const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr, *scale_a = nullptr, *scale_b = nullptr;
    void *d = nullptr, *aux = nullptr;  // aux: also of what is read
  };
  // Errors: E0610 (vendor_obstacle), E0652.
  static Result<VendorProduct> make(CublasLtHandleRef handle, const package::VendorProblem& problem);
  VendorProduct(VendorProduct&& other) noexcept;
  VendorProduct& operator=(VendorProduct&& other) noexcept;
  ~VendorProduct();
  [[nodiscard]] const std::vector<lt::Proposal>& proposals() const { return proposals_; }
  // Which proposal run() takes, in what memory. Errors: E0652.
  Result<void> bind(size_t proposal, const Addresses& addresses, double alpha, double beta);
  // Enqueues; allocates nothing. The device's context is current.
  [[nodiscard]] lt::Status run(void* workspace, StreamHandle stream) const;
  [[nodiscard]] const CublasLtHandle& handle() const { return *handle_; }

 private:
  VendorProduct() = default;
  Result<void> describe(const package::VendorProblem& problem);
  Result<void> ask(const package::VendorProblem& problem);
  Result<void> set(int attribute, const void* value, size_t bytes, const char* name);
  void swap(VendorProduct& other) noexcept;

  CublasLtHandleRef handle_;
  lt::Descriptor descriptor_ = nullptr;
  lt::Layout layouts_[4] = {};  // of the library's A, B, C and D
  std::vector<lt::Proposal> proposals_;
  size_t chosen_ = 0;
  Addresses at_;
  union Scale {
    float f;
    double d;
    int32_t i;
  } alpha_{}, beta_{};
  package::VendorProblem problem_;
};

}  // namespace codetta::runtime::cuda
