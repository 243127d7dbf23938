// SPDX-License-Identifier: Apache-2.0
// A GPU's driver as a table of function pointers, and its failures as diagnostics: NVIDIA's, loaded when first needed;
// runtime/hip fills the same table from AMD's HIP runtime.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/cuda/abi.hpp"

namespace codetta::runtime::cuda {

// Whose functions a table holds.
enum class Api : uint8_t { Cuda, Hip };

// The functions by name; see functions.def. Tests fill one of their own.
struct DriverTable {
#define CODETTA_CU(member, symbol, hip, since, parameters) Status(*member) parameters = nullptr;
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  // What the runtime calls the device's architecture ("gfx942:sramecc+:xnack-"), ending in '\0'. CUDA has none: compute
  // capabilities say it.
  Status (*device_architecture)(char* name, size_t bytes, DeviceId device) = nullptr;
};

// An initialized driver. Immutable; shared by everything that calls it; thread safe as the driver itself is.
class Driver {
 public:
  // Loads libcuda.so.1 by the loader's search path (or exactly `library`, a file), looks all functions up and
  // initializes it. Errors: E0640 no driver (says what was tried), E0641 it is too old (names the missing function and
  // the version that has it), E0642 it finds no device.
  static Result<std::shared_ptr<const Driver>> load(const std::string& library = {});
  // A driver from a table, initialized likewise. Errors: as load(); of HIP's E0654 and E0642.
  static Result<std::shared_ptr<const Driver>> from_table(const DriverTable& table, std::string origin,
                                                          Api api = Api::Cuda);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] const DriverTable& call() const { return table_; }
  [[nodiscard]] Api api() const { return api_; }
  [[nodiscard]] int version() const { return version_; }               // 13000 = CUDA 13.0, 60300000 = HIP 6.3
  [[nodiscard]] const std::string& origin() const { return origin_; }  // the library's name
  [[nodiscard]] std::string error_name(Status status) const;           // "CUDA_ERROR_OUT_OF_MEMORY"
  [[nodiscard]] std::string error_text(Status status) const;           // "out of memory"

  // A failed call as a diagnostic; `call` is CUDA's name for it ("cuMemAlloc"; HIP's stands in what HIP's runtime
  // gave), `argument` what it was given ("bytes = 4096"). The code says what kind of failure it is: E0606-like
  // resources E0643, E0430, E0508, E0641, E0642, E0644 (sticky: the context is lost), E0645, E0646, E0650, E0654 (HIP),
  // else E0647.
  [[nodiscard]] Error failure(Status status, std::string_view call, const std::string& argument) const;

 private:
  Driver() = default;
  Result<void> initialize();
  [[nodiscard]] Error cannot_start(Status status) const;
  DriverTable table_{};
  Api api_ = Api::Cuda;
  std::string origin_;
  int version_ = 0;
};
using DriverRef = std::shared_ptr<const Driver>;

// Whether the status says that the context is lost for good, whatever was called.
bool is_sticky(Status status);

// "CUDA 13.0" from 13000, "HIP 6.3" from 60300000.
std::string version_text(int version, Api api = Api::Cuda);

inline constexpr std::string_view help_hip_runtime =
    "install ROCm 6 or later (its libamdhip64.so and the kernel driver amdgpu) where the loader looks, such as with "
    "LD_LIBRARY_PATH=/opt/rocm/lib, pass /dev/kfd and /dev/dri into the container, or choose the target 'cpu'; for "
    "compiling alone name an architecture, such as hip:gfx942";

// CODETTA_CUDA(driver, "cuMemAlloc", "bytes = 4", driver.call().mem_alloc(...)): returns the failure from the function.
#define CODETTA_CUDA(driver, name, argument, ...)                       \
  do {                                                                  \
    const ::codetta::runtime::cuda::Status cuda_status = (__VA_ARGS__); \
    if (cuda_status != ::codetta::runtime::cuda::Status::Success)       \
      return (driver).failure(cuda_status, name, argument);             \
  } while (false)

}  // namespace codetta::runtime::cuda
