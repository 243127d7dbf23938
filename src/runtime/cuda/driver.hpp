// SPDX-License-Identifier: Apache-2.0
// The NVIDIA driver, loaded when first needed: a table of function pointers, and its failures as diagnostics.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/cuda/abi.hpp"

namespace codetta::runtime::cuda {

// The functions by name; see functions.def. Tests fill one of their own.
struct DriverTable {
#define CODETTA_CU(member, symbol, since, parameters) Status(*member) parameters = nullptr;
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
};

// An initialized driver. Immutable; shared by everything that calls it; thread safe as the driver itself is.
class Driver {
 public:
  // Loads libcuda.so.1 by the loader's search path (or exactly `library`, a file), looks all functions up and
  // initializes it. Errors: E0640 no driver (says what was tried), E0641 it is too old (names the missing function and
  // the version that has it), E0642 it finds no device.
  static Result<std::shared_ptr<const Driver>> load(const std::string& library = {});
  // A driver from a table, initialized likewise. Errors: as load().
  static Result<std::shared_ptr<const Driver>> from_table(const DriverTable& table, std::string origin);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] const DriverTable& call() const { return table_; }
  [[nodiscard]] int version() const { return version_; }               // 13000 = CUDA 13.0
  [[nodiscard]] const std::string& origin() const { return origin_; }  // the library's name
  [[nodiscard]] std::string error_name(Status status) const;           // "CUDA_ERROR_OUT_OF_MEMORY"
  [[nodiscard]] std::string error_text(Status status) const;           // "out of memory"

  // A failed call as a diagnostic; `call` is the driver's name for it ("cuMemAlloc"), `argument` what it was given
  // ("bytes = 4096"). The code says what kind of failure it is: E0606-like resources E0643, E0430, E0508, E0641, E0642,
  // E0644 (sticky: the context is lost), E0645, E0646, E0650, else E0647.
  [[nodiscard]] Error failure(Status status, std::string_view call, const std::string& argument) const;

 private:
  Driver() = default;
  Result<void> initialize();
  DriverTable table_{};
  std::string origin_;
  int version_ = 0;
};
using DriverRef = std::shared_ptr<const Driver>;

// Whether the status says that the context is lost for good, whatever was called.
bool is_sticky(Status status);

// "CUDA 13.0" from 13000.
std::string version_text(int version);

// CODETTA_CUDA(driver, "cuMemAlloc", "bytes = 4", driver.call().mem_alloc(...)): returns the failure from the function.
#define CODETTA_CUDA(driver, name, argument, ...)                       \
  do {                                                                  \
    const ::codetta::runtime::cuda::Status cuda_status = (__VA_ARGS__); \
    if (cuda_status != ::codetta::runtime::cuda::Status::Success)       \
      return (driver).failure(cuda_status, name, argument);             \
  } while (false)

}  // namespace codetta::runtime::cuda
