// SPDX-License-Identifier: Apache-2.0
// Loading cubins and code objects, and preparing their kernels for launching.
#include <fmt/format.h>

#include <algorithm>

#include "device/host/user_launch.h"
#include "package/image.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::runtime::cuda {

Result<std::shared_ptr<const Module>> Module::load(DeviceRef device, std::string_view image, const std::string& label) {
  std::shared_ptr<Module> module(new Module);
  module->device_ = std::move(device);
  module->label_ = label;
  const Driver& driver = module->device_->driver();
  // The driver reads as many bytes as the image's own headers say, so what is no ELF file must not reach it.
  const std::vector<std::string_view> files = package::files_of(image);
  const bool damaged = files.empty() || std::any_of(files.begin(), files.end(), [](std::string_view file) {
                         return file.size() < 64 || !file.starts_with(
                                                        "\x7f"
                                                        "ELF");
                       });
  if (damaged) {
    return diag::error(diag::Code::module_load, "a compiled kernel can not be loaded")
        .reason(fmt::format("{} is no binary of a GPU: its {} bytes are no ELF file", label, image.size()))
        .help("clear the cache with `codetta cache clear` and try again");
  }
  CODETTA_TRY(const ContextGuard guard, module->device_->enter());
  const RelaxedCapture relaxed(driver);
  for (const std::string_view file : files) {
    ModuleHandle handle = nullptr;
    CODETTA_CUDA(driver, "cuModuleLoadData",
                 fmt::format("{}, {} bytes, device {} of {}", label, file.size(), module->device_->facts().ordinal,
                             module->device_->facts().arch),
                 driver.call().module_load_data(&handle, file.data()));
    module->handles_.push_back(handle);
  }
  module->image_ = image;
  return std::shared_ptr<const Module>(std::move(module));
}

Module::~Module() {
  if (handles_.empty()) return;
  const auto guard = device_->enter();
  if (!guard) return;
  const RelaxedCapture relaxed(device_->driver());
  for (const ModuleHandle handle : handles_) (void)device_->driver().call().module_unload(handle);
}

Result<Function> Module::function(const std::string& name, int dynamic_shared, int cluster_size) const {
  const Driver& driver = device_->driver();
  const DriverTable& call = driver.call();
  CODETTA_TRY(const ContextGuard guard, device_->enter());
  const RelaxedCapture relaxed(driver);
  Function function;
  Status found = Status::NotFound;
  for (size_t i = 0; i < handles_.size() && found == Status::NotFound; ++i)
    found = call.module_get_function(&function.handle, handles_[i], name.c_str());
  if (found == Status::NotFound) {
    return diag::error(diag::Code::module_digest, "the compiled object lacks its entry point")
        .reason(fmt::format("no kernel {} in {}", name, label_))
        .help("clear the cache with `codetta cache clear` and report this");
  }
  CODETTA_CUDA(driver, "cuModuleGetFunction", name, found);
  const std::pair<int, int*> wanted[] = {{function_registers, &function.facts.registers},
                                         {function_local_bytes, &function.facts.local_bytes},
                                         {function_static_shared, &function.facts.static_shared},
                                         {function_max_threads, &function.facts.max_threads}};
  for (const auto& [attribute, value] : wanted) {
    CODETTA_CUDA(driver, "cuFuncGetAttribute", fmt::format("{}, attribute = {}", name, attribute),
                 call.function_get_attribute(value, attribute, function.handle));
  }
  const DeviceFacts& facts = device_->facts();
  const int available = facts.shared_per_block_optin - function.facts.static_shared;
  if (dynamic_shared > available) {
    return diag::error(diag::Code::launch_limits, "the launch exceeds a limit of the device")
        .reason(fmt::format("{} needs {} bytes of dynamic shared memory beside {} static ones; a block of {} has {}",
                            name, dynamic_shared, function.facts.static_shared, facts.name,
                            facts.shared_per_block_optin))
        .help("choose another kernel of the list; `codetta explain` says what each one uses");
  }
  const std::lock_guard lock(mutex_);
  int& allowed = allowed_shared_[name];
  if (dynamic_shared > allowed) {
    CODETTA_CUDA(driver, "cuFuncSetAttribute", fmt::format("{}, dynamic shared memory = {}", name, dynamic_shared),
                 call.function_set_attribute(function.handle, function_max_dynamic_shared, dynamic_shared));
    allowed = dynamic_shared;
  }
  if (cluster_size > gpu::host::portable_cluster) {
    CODETTA_CUDA(driver, "cuFuncSetAttribute", fmt::format("{}, cluster of {} blocks", name, cluster_size),
                 call.function_set_attribute(function.handle, function_non_portable_cluster, 1));
  }
  return function;
}

}  // namespace codetta::runtime::cuda
