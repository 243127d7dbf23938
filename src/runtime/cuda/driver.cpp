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
    "target 'cpu'; to compile alone name an architecture, such as cuda:sm_90a";

Error driver_missing(const std::string& headline, const std::string& reason) {
  return diag::error(diag::Code::driver_missing, headline).reason(reason).help(std::string(help_driver));
}

}  // namespace

std::string version_text(int version, Api api) {
  return api == Api::Hip ? fmt::format("HIP {}.{}", version / 10000000, version / 100000 % 100)
                         : fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

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
#define CODETTA_CU(member, symbol, hip, since, parameters) \
  driver->table_.member = reinterpret_cast<decltype(driver->table_.member)>(::dlsym(handle, symbol));
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
    CODETTA_CHECK_OK(driver->initialize());
    return std::shared_ptr<const Driver>(std::move(driver));
  }
  return driver_missing("no NVIDIA driver was found", "looked for " + names.front() + ": " + tried);
}

Result<std::shared_ptr<const Driver>> Driver::from_table(const DriverTable& table, std::string origin, Api api) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->api_ = api;
  driver->table_ = table;
  driver->origin_ = std::move(origin);
  CODETTA_CHECK_OK(driver->initialize());
  return std::shared_ptr<const Driver>(std::move(driver));
}

Result<void> Driver::initialize() {
  if (table_.driver_get_version != nullptr) (void)table_.driver_get_version(&version_);
  std::string missing;
  int needed = 0;
#define CODETTA_CU(member, symbol, hip, since, parameters)                 \
  if (table_.member == nullptr && (api_ == Api::Cuda || hip[0] != '\0')) { \
    if (missing.empty()) missing = api_ == Api::Cuda ? symbol : hip;       \
    if (since > needed) needed = since;                                    \
  }
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  if (!missing.empty() && api_ == Api::Hip) {
    return diag::error(diag::Code::hip_runtime, "the HIP runtime is too old")
        .reason(fmt::format("{} lacks {}", origin_, missing))
        .help(std::string(help_hip_runtime));
  }
  if (!missing.empty()) {
    return diag::error(diag::Code::driver_old, "the NVIDIA driver is too old")
        .reason(fmt::format("{} lacks {}; it says that it is of {}, and {} is needed", origin_, missing,
                            version_ == 0 ? std::string("no version") : version_text(version_), version_text(needed)))
        .help("update the NVIDIA driver, or choose the target 'cpu'");
  }
  const Status status = table_.init(0);
  if (status == Status::Success) return {};
  return cannot_start(status);
}

Error Driver::cannot_start(Status status) const {
  const std::string said =
      fmt::format("{}: {} ({})", api_ == Api::Hip ? "hipInit" : "cuInit", error_name(status), error_text(status));
  const std::string said_of = fmt::format("{}; {} is of {}", said, origin_, version_text(version_, api_));
  if (api_ == Api::Hip && status == Status::NoDevice) {
    return diag::error(diag::Code::device_missing, "the HIP runtime finds no device")
        .reason(said)
        .help("check `rocminfo`, HIP_VISIBLE_DEVICES and what the container may see, or choose the target 'cpu'");
  }
  if (api_ == Api::Hip) {
    return diag::error(diag::Code::hip_runtime, "the HIP runtime can not be started")
        .reason(said_of)
        .help(std::string(help_hip_runtime));
  }
  switch (status) {
    case Status::NoDevice:
      return diag::error(diag::Code::device_missing, "the NVIDIA driver finds no device")
          .reason(said)
          .help("check `nvidia-smi`, CUDA_VISIBLE_DEVICES and what the container may see, or choose the target 'cpu'");
    case Status::StubLibrary:
      return driver_missing("the library found is no driver",
                            fmt::format("{} is the stub of the CUDA toolkit, for linking only", origin_));
    case Status::SystemDriverMismatch:
    case Status::CompatNotSupported:
      return diag::error(diag::Code::driver_old, "the parts of the NVIDIA driver do not fit each other")
          .reason(said_of)
          .help("restart the machine after an update of the driver, or remove the compatibility libraries");
    default:
      return driver_missing("the NVIDIA driver can not be started", said_of);
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

namespace {

// HIP's name of a function that CUDA calls `call`, with or without its version suffix.
std::string_view hip_name(std::string_view call) {
#define CODETTA_CU(member, symbol, hip, since, parameters)                                                         \
  if (hip[0] != '\0' && std::string_view(symbol).starts_with(call) &&                                              \
      (std::string_view(symbol).size() == call.size() || std::string_view(symbol).substr(call.size(), 2) == "_v")) \
    return hip;
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  return call;
}

}  // namespace

Error Driver::failure(Status status, std::string_view call, const std::string& argument) const {
  using diag::Code;
  const bool hip = api_ == Api::Hip;
  const size_t name_at = call.rfind(' ') + 1;  // behind what was to be done, where that is said
  const std::string_view name = call.substr(name_at);
  const std::string reason = fmt::format("{}{}({}) gave {}: {}", call.substr(0, name_at), hip ? hip_name(name) : name,
                                         argument, error_name(status), error_text(status));
  const auto make = [&](Code code, const char* headline, const char* help) -> Error {
    return diag::error(code, headline).reason(reason).help(help);
  };
  if (is_sticky(status)) {
    return make(Code::device_failed, "a kernel that ran on the device has failed",
                hip ? "the device's context is lost: end this process; run it with AMD_SERIALIZE_KERNEL=3 to find the "
                      "kernel, and check pointers, sizes and strides of the last tensors"
                    : "the device's context is lost: end this process; run it under compute-sanitizer to find the "
                      "kernel, and check pointers, sizes and strides of the last tensors");
  }
  switch (status) {
    case Status::OutOfMemory:
      return make(Code::device_memory, "the device has not enough memory",
                  "free tensors, use smaller ones, or pass a workspace of your own");
    case Status::NoBinaryForGpu:
      return make(Code::architecture_mismatch, "the kernel is compiled for another architecture than the device's",
                  hip ? "compile for the target 'hip', which takes the device's own architecture"
                      : "compile for the target 'cuda', which takes the device's own architecture");
    case Status::InvalidImage:
      return make(Code::module_load, "a compiled kernel can not be loaded",
                  "clear the cache with `codetta cache clear` and try again");
    case Status::UnsupportedPtxVersion:
    case Status::CallRequiresNewerDriver:
      return diag::error(hip ? Code::hip_runtime : Code::driver_old,
                         hip ? "the HIP runtime is too old for this" : "the NVIDIA driver is too old for this")
          .reason(fmt::format("{}; {} is of {}", reason, hip ? origin_ : std::string("the driver"),
                              version_text(version_, api_)))
          .help(hip ? "update ROCm" : "update the NVIDIA driver, or compile with the CUDA toolkit of its version");
    case Status::NoDevice:
    case Status::InvalidDevice:
    case Status::DeviceUnavailable:
      return hip ? make(Code::device_missing, "there is no such HIP device",
                        "check `rocminfo` and HIP_VISIBLE_DEVICES, which hides and renumbers devices")
                 : make(Code::device_missing, "there is no such CUDA device",
                        "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, and that no other process holds the device "
                        "exclusively");
    case Status::InvalidContext:
    case Status::InvalidHandle:
    case Status::NotInitialized:
    case Status::Deinitialized:
      return make(Code::context_wrong, "the stream or memory belongs to another context",
                  hip ? "pass streams and tensors that are alive and of the same device"
                      : "pass streams and tensors of the device's primary context (what the CUDA runtime uses), alive "
                        "and of the same device");
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
      return make(Code::driver_call, hip ? "a call of the HIP runtime failed" : "a call of the CUDA driver failed",
                  "check the value named above; report it with this text if it came from Codetta");
  }
}

}  // namespace codetta::runtime::cuda
