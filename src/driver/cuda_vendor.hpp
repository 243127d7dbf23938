// SPDX-License-Identifier: Apache-2.0
// cuBLASLt of a context: loaded when its proposals are asked for, and known by file and version without being loaded
// before that.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "codetta/target.hpp"
#include "plan/vendor.hpp"
#include "runtime/cuda/cublaslt.hpp"

namespace codetta::driver {

struct ContextState;

// Thread safe.
class CudaVendor {
 public:
  explicit CudaVendor(ContextState& context) : context_(context) {}

  // What discovery is told of the library; never null. It is asked only where the target is the device's own.
  std::shared_ptr<const plan::VendorMenu> menu(const Target& target, bool strict);
  // For cache keys: "cublaslt 13.0.0", or "none". From the memo in the cache where its file is unchanged; else the
  // library is loaded, which takes some 50 ms.
  std::string identity(const Target& target);
  // The library on `on`, or on the context's first device. Only success is kept. Errors: E0652, those of the device.
  Result<runtime::cuda::CublasLtHandleRef> handle(runtime::cuda::DeviceRef on = {});

 private:
  struct Known {
    std::string path, version;
  };
  Result<runtime::cuda::CublasLtRef> library();
  [[nodiscard]] std::optional<Known> recall() const;
  Result<Known> known();
  // Why there is nothing to ask; empty where there is.
  std::string obstacle(const Target& target, bool strict);

  ContextState& context_;
  std::mutex mutex_;
  runtime::cuda::CublasLtRef library_;
  std::map<int, runtime::cuda::CublasLtHandleRef> handles_;  // by device
  std::optional<Known> known_;
};

}  // namespace codetta::driver
