// SPDX-License-Identifier: Apache-2.0
#include "driver/cuda_vendor.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"

namespace codetta::driver {
namespace {

std::string reason_of(const Error& error) { return diag::sentence(error.diagnostics().front()); }

}  // namespace

Result<runtime::cuda::CublasLtRef> CudaVendor::library() {
  if (library_) return library_;
  CODETTA_TRY(library_, runtime::cuda::CublasLt::load(
                            {.file = context_.options.cublaslt, .cuda_home = context_.options.cuda_home}));
  known_ = Known{library_->path(), library_->version_text()};
  const std::string stamp = file_stamp(known_->path);
  if (!stamp.empty() && known_->path.find('\n') == std::string::npos)
    context_.cache->replace(library_memo_key(context_, "cublaslt", context_.options.cublaslt),
                            {"cublaslt", fmt::format("{}\n{}\n{}\n", known_->path, known_->version, stamp)});
  return library_;
}

std::optional<CudaVendor::Known> CudaVendor::recall() const {
  const auto entry = context_.cache->lookup(library_memo_key(context_, "cublaslt", context_.options.cublaslt));
  if (!entry) return std::nullopt;
  const auto lines = base::split(entry->payload, '\n');
  if (lines.size() < 3 || file_stamp(std::string(lines[0])) != lines[2] || lines[2].empty()) return std::nullopt;
  return Known{std::string(lines[0]), std::string(lines[1])};
}

Result<CudaVendor::Known> CudaVendor::known() {
  const std::lock_guard lock(mutex_);
  if (!known_) known_ = recall();
  if (!known_) {
    CODETTA_TRY(const runtime::cuda::CublasLtRef loaded, library());
  }
  return *known_;
}

Result<runtime::cuda::CublasLtHandleRef> CudaVendor::handle(runtime::cuda::DeviceRef on) {
  if (on == nullptr) {
    CODETTA_TRY(on, context_.cuda.device());
  }
  const std::lock_guard lock(mutex_);
  runtime::cuda::CublasLtHandleRef& handle = handles_[on->facts().ordinal];
  if (handle) return handle;
  CODETTA_TRY(runtime::cuda::CublasLtRef loaded, library());
  CODETTA_TRY(handle, runtime::cuda::CublasLtHandle::make(std::move(loaded), std::move(on)));
  return handle;
}

std::string CudaVendor::obstacle(const Target& target, bool strict) {
  if (!context_.options.vendor) return "the vendor's kernels are switched off (ContextOptions::vendor, --no-vendor)";
  if (strict) return "the program forbids contraction, and what the library contracts is not known";
  const auto device = context_.cuda.device_for(target);
  if (!device)
    return fmt::format("cuBLASLt proposes kernels for a device that is there; {}", reason_of(device.error()));
  const auto found = known();
  return found ? std::string() : reason_of(found.error());
}

std::shared_ptr<const plan::VendorMenu> CudaVendor::menu(const Target& target, bool strict) {
  auto menu = std::make_shared<plan::VendorMenu>();
  menu->absent = obstacle(target, strict);
  if (!menu->absent.empty()) return menu;
  menu->version = known()->version;
  // 13.1 on an H100, all proposals for 15 products (their number is an estimate: 150 of 16-bit factors, 40 of f32):
  // relu of 16-bit factors keeps NaN in each, that of f32 loses it in 3.
  menu->traits.relu_keeps_nan = target.arch == "sm_90a" && menu->version.starts_with("13.");
  menu->propose = [this](const package::VendorProblem& problem) -> Result<std::vector<package::VendorProposal>> {
    if (std::string no = runtime::cuda::vendor_obstacle(problem); !no.empty()) {
      return diag::error(diag::Code::guard_failed, "the product does not fit what cuBLASLt computes")
          .reason(std::move(no))
          .help("find a kernel with these views");
    }
    CODETTA_TRY(const runtime::cuda::CublasLtHandleRef asked, handle());
    return asked->propose(problem);
  };
  return menu;
}

std::string CudaVendor::identity(const Target& target) {
  if (!obstacle(target, false).empty()) return "none";
  const auto found = known();
  return found ? "cublaslt " + found->version : "none";
}

}  // namespace codetta::driver
