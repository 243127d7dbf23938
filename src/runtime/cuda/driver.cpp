// SPDX-License-Identifier: Apache-2.0
// Loading libcuda and turning its status codes into diagnostics.
#include "runtime/cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

namespace codetta::runtime::cuda {

namespace {

// By the loader's own search first; the second is where the Windows subsystem for Linux puts it.
constexpr std::array<const char*, 2> usual_libraries = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};

constexpr std::string_view help_driver =
    "install the NVIDIA driver (its libcuda.so.1) on this machine, pass the GPU into the container, or choose the "
    "target 'cpu'; for emitting alone name an architecture, such as cuda:sm_90a";

Error driver_missing(const std::string& headline, const std::string& reason) {
  return diag::error(diag::Code::driver_missing, headline).reason(reason).help(std::string(help_driver));
}

}  // namespace

std::string version_text(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

bool is_sticky(Status status) {
  switch (status) {
    case Status::EccUncorrectable:
    case Status::IllegalAddress:
    case Status::LaunchTimeout:
    case Status::ContextIsDestroyed:
    case Status::Assert:
    case Status::HardwareStackError:
    case Status::IllegalInstruction:
    case Status::MisalignedAddress:
    case Status::InvalidAddressSpace:
    case Status::InvalidPc:
    case Status::LaunchFailed:
      return true;
    default:
      return false;
  }
}

Result<std::shared_ptr<const Driver>> Driver::load(const std::string& library) {
  std::vector<std::string> names(usual_libraries.begin(), usual_libraries.end());
  if (!library.empty()) names = {library};
  std::string tried;
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* said = ::dlerror();
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", said != nullptr ? said : name + " can not be loaded");
      continue;
    }
    std::shared_ptr<Driver> driver(new Driver);  // the library is never unloaded: a driver does not support that
    driver->origin_ = name;
#define CODETTA_CU(member, symbol, since, parameters) \
  driver->table_.member = reinterpret_cast<decltype(driver->table_.member)>(::dlsym(handle, symbol));
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
    CODETTA_CHECK_OK(driver->initialize());
    return std::shared_ptr<const Driver>(std::move(driver));
  }
  return driver_missing("no NVIDIA driver was found", "looked for " + names.front() + ": " + tried);
}

Result<std::shared_ptr<const Driver>> Driver::from_table(const DriverTable& table, std::string origin) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->table_ = table;
  driver->origin_ = std::move(origin);
  CODETTA_CHECK_OK(driver->initialize());
  return std::shared_ptr<const Driver>(std::move(driver));
}

Result<void> Driver::initialize() {
  if (table_.driver_get_version != nullptr) (void)table_.driver_get_version(&version_);
  std::string missing;
  int needed = 0;
#define CODETTA_CU(member, symbol, since, parameters) \
  if (table_.member == nullptr) {                     \
    if (missing.empty()) missing = symbol;            \
    if (since > needed) needed = since;               \
  }
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  if (!missing.empty()) {
    return diag::error(diag::Code::driver_old, "the NVIDIA driver is too old")
        .reason(fmt::format("{} lacks {}; it says that it is of {}, and {} is needed", origin_, missing,
                            version_ == 0 ? std::string("no version") : version_text(version_), version_text(needed)))
        .help("update the NVIDIA driver, or choose the target 'cpu'");
  }
  const Status status = table_.init(0);
  switch (status) {
    case Status::Success:
      return {};
    case Status::NoDevice:
      return diag::error(diag::Code::device_missing, "the NVIDIA driver finds no device")
          .reason(fmt::format("cuInit: {} ({})", error_name(status), error_text(status)))
          .help("check `nvidia-smi`, CUDA_VISIBLE_DEVICES and what the container may see, or choose the target 'cpu'");
    case Status::StubLibrary:
      return driver_missing("the library found is no driver",
                            fmt::format("{} is the stub of the CUDA toolkit, for linking only", origin_));
    case Status::SystemDriverMismatch:
    case Status::CompatNotSupported:
      return diag::error(diag::Code::driver_old, "the parts of the NVIDIA driver do not fit each other")
          .reason(fmt::format("cuInit: {} ({}); {} is of {}", error_name(status), error_text(status), origin_,
                              version_text(version_)))
          .help("restart the machine after an update of the driver, or remove the compatibility libraries");
    default:
      return driver_missing("the NVIDIA driver can not be started",
                            fmt::format("cuInit: {} ({}); {} is of {}", error_name(status), error_text(status), origin_,
                                        version_text(version_)));
  }
}

std::string Driver::error_name(Status status) const {
  const char* text = nullptr;
  if (table_.get_error_name != nullptr && table_.get_error_name(status, &text) == Status::Success && text != nullptr) {
    return text;
  }
  return fmt::format("error {}", static_cast<int>(status));
}

std::string Driver::error_text(Status status) const {
  const char* text = nullptr;
  if (table_.get_error_string != nullptr && table_.get_error_string(status, &text) == Status::Success &&
      text != nullptr) {
    return text;
  }
  return "the driver has no text for it";
}

Error Driver::failure(Status status, std::string_view call, const std::string& argument) const {
  using diag::Code;
  const std::string reason = fmt::format("{}({}) gave {}: {}", call, argument, error_name(status), error_text(status));
  const auto make = [&](Code code, const char* headline, const char* help) -> Error {
    return diag::error(code, headline).reason(reason).help(help);
  };
  if (is_sticky(status)) {
    return make(
        Code::device_failed, "a kernel that ran on the device has failed",
        "the device's context is lost: end this process; run it under compute-sanitizer to find the kernel, and "
        "check pointers, sizes and strides of the last tensors");
  }
  switch (status) {
    case Status::OutOfMemory:
      return make(Code::device_memory, "the device has not enough memory",
                  "free tensors, use smaller ones, or pass a workspace of your own");
    case Status::NoBinaryForGpu:
      return make(Code::architecture_mismatch, "the kernel is compiled for another architecture than the device's",
                  "compile for the target 'cuda', which takes the device's own architecture");
    case Status::InvalidImage:
      return make(Code::module_load, "a compiled kernel can not be loaded",
                  "clear the cache with `codetta cache clear` and try again");
    case Status::UnsupportedPtxVersion:
    case Status::CallRequiresNewerDriver:
      return diag::error(Code::driver_old, "the NVIDIA driver is too old for this")
          .reason(fmt::format("{}; the driver is of {}", reason, version_text(version_)))
          .help("update the NVIDIA driver, or compile with the CUDA toolkit of its version");
    case Status::NoDevice:
    case Status::InvalidDevice:
    case Status::DeviceUnavailable:
      return make(
          Code::device_missing, "there is no such CUDA device",
          "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, and that no other process holds the device exclusively");
    case Status::InvalidContext:
    case Status::InvalidHandle:
    case Status::NotInitialized:
    case Status::Deinitialized:
      return make(Code::context_wrong, "the stream or memory belongs to another context",
                  "pass streams and tensors of the device's primary context (what the CUDA runtime uses), alive and of "
                  "the same device");
    case Status::CaptureUnsupported:
    case Status::CaptureInvalidated:
    case Status::CaptureImplicit:
    case Status::CapturedEvent:
    case Status::CaptureWrongThread:
      return make(Code::capture_active, "this can not be done while a stream is being captured",
                  "call prepare() before the capture begins, and only run() within it");
    case Status::LaunchOutOfResources:
    case Status::InvalidClusterSize:
      return make(Code::launch_limits, "the launch exceeds a limit of the device",
                  "choose another kernel of the list; `codetta explain` says what each one uses");
    default:
      return make(Code::driver_call, "a call of the CUDA driver failed",
                  "check the value named above; report it with this text if it came from Codetta");
  }
}

}  // namespace codetta::runtime::cuda
