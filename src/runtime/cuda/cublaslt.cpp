// SPDX-License-Identifier: Apache-2.0
// Loading libcublasLt and turning its status codes into diagnostics.
#include "runtime/cuda/cublaslt.hpp"

#include <dlfcn.h>

#include <array>

#include <fmt/format.h>

#include "base/shared_library.hpp"

namespace codetta::runtime::cuda {
namespace {

constexpr std::array<const char*, 2> library_names = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char* toolkit_folder = "/usr/local/cuda/lib64";
constexpr int64_t first_version = 120000, end_version = 140000;  // the latter not included

constexpr const char* help_library =
    "install cuBLASLt of CUDA 12 or 13 where the loader finds it, pass the folder of a toolkit (--cuda-home), or "
    "switch "
    "the vendor's kernels off (--no-vendor)";

Error unusable(const std::string& reason) {
  return diag::error(diag::Code::vendor_library, "cuBLASLt can not be used").reason(reason).help(help_library);
}

}  // namespace

Result<std::shared_ptr<const CublasLt>> CublasLt::load(const CublasLtOptions& options) {
  const base::FoundLibrary found = base::find_library(
      {.file = options.file, .toolkit = options.cuda_home, .names = library_names, .folder = toolkit_folder});
  if (found.handle == nullptr) return unusable(found.refused.empty() ? found.looked : found.refused);
  std::shared_ptr<CublasLt> library(new CublasLt);
  std::string missing;
  const auto look_up = [&](const char* symbol) {
    void* const address = ::dlsym(found.handle, symbol);
    if (address == nullptr && missing.empty()) missing = symbol;
    return address;
  };
#define CODETTA_LT(member, symbol, parameters) \
  library->table_.member = reinterpret_cast<decltype(library->table_.member)>(look_up(symbol));
#include "runtime/cuda/cublaslt_functions.def"
#undef CODETTA_LT
  auto* const version = reinterpret_cast<size_t (*)()>(look_up("cublasLtGetVersion"));
  library->status_name_ = reinterpret_cast<const char* (*)(lt::Status)>(::dlsym(found.handle, "cublasLtGetStatusName"));
  library->path_ = base::library_file_of(::dlsym(found.handle, "cublasLtGetVersion"));
  if (library->path_.empty()) library->path_ = options.file;
  if (!missing.empty()) return unusable(fmt::format("{} lacks {}", library->path_, missing));
  library->version_ = static_cast<int64_t>(version());
  if (library->version_ < first_version || library->version_ >= end_version) {
    return unusable(fmt::format("{} is cuBLASLt {}; 12 and 13 are known", library->path_, library->version_text()));
  }
  return std::shared_ptr<const CublasLt>(std::move(library));
}

std::string CublasLt::version_text() const {
  return fmt::format("{}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
}

Error CublasLt::failure(lt::Status status, std::string_view call, const std::string& argument) const {
  const char* name = status_name_ != nullptr ? status_name_(status) : nullptr;
  return diag::error(diag::Code::vendor_library, "a call of cuBLASLt failed")
      .reason(fmt::format("{}({}) gave {} (status {}), cuBLASLt {}", call, argument,
                          name != nullptr ? name : "an unknown status", static_cast<int>(status), version_text()))
      .help("choose another kernel of the list, or switch the vendor's kernels off (--no-vendor)");
}

Result<std::shared_ptr<const CublasLtHandle>> CublasLtHandle::make(CublasLtRef library, DeviceRef device) {
  std::shared_ptr<CublasLtHandle> made(new CublasLtHandle);
  made->library_ = std::move(library);
  made->device_ = std::move(device);
  CODETTA_TRY(const ContextGuard guard, made->device_->enter());
  const RelaxedCapture relaxed(made->device_->driver());
  const lt::Status status = made->library_->call().create(&made->handle_);
  if (status != lt::Status::Success)
    return made->library_->failure(status, "cublasLtCreate",
                                   fmt::format("device = {}", made->device_->facts().ordinal));
  return std::shared_ptr<const CublasLtHandle>(std::move(made));
}

CublasLtHandle::~CublasLtHandle() {
  if (handle_ == nullptr) return;
  const auto guard = device_->enter();
  if (guard) (void)library_->call().destroy(handle_);
}

Result<std::vector<package::VendorProposal>> CublasLtHandle::propose(const package::VendorProblem& problem) const {
  // A reference of its own would keep the handle from going: the caller holds it meanwhile.
  const CublasLtHandleRef self(CublasLtHandleRef(), this);
  CODETTA_TRY(const VendorProduct product, VendorProduct::make(self, problem));
  std::vector<package::VendorProposal> result;
  for (const lt::Proposal& proposal : product.proposals())
    result.push_back({static_cast<int64_t>(proposal.workspace), static_cast<double>(proposal.waves)});
  return result;
}

}  // namespace codetta::runtime::cuda
