// SPDX-License-Identifier: Apache-2.0
// The memo of NVRTC: which library the search gives, and its content digest, valid while its files are unchanged.
#include "driver/cuda_compiler.hpp"

#include <sys/stat.h>

#include <charconv>

#include <fmt/format.h>

#include "base/kept.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "driver/gpu_headers.hpp"

namespace codetta::driver {

toolchain::CacheKey library_memo_key(const ContextState& context, std::string_view library, const std::string& file) {
  toolchain::CacheKey key(toolchain::EntryKind::Memo, library);
  key.add("file", file);
  key.add("home", context.options.cuda_home);
  key.add("path", context.library_path);
  return key;
}

std::string file_stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return fmt::format("{} {}.{:09} {}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino);
}

std::optional<CudaCompiler::Known> CudaCompiler::recall() const {
  const auto entry = context_.cache->lookup(library_memo_key(context_, "nvrtc", context_.options.nvrtc));
  if (!entry) return std::nullopt;
  const auto lines = base::split(entry->payload, '\n');
  if (lines.size() < 5) return std::nullopt;
  Known known;
  known.path = lines[0];
  known.identity.digest = lines[1];
  const std::string_view version = lines[2];
  const auto [end, failed] = std::from_chars(version.data(), version.data() + version.size(), known.identity.version);
  if (failed != std::errc{} || end != version.data() + version.size()) return std::nullopt;
  for (size_t i = 3; i + 1 < lines.size(); i += 2) {
    if (file_stamp(std::string(lines[i])) != lines[i + 1]) return std::nullopt;
  }
  return known;
}

void CudaCompiler::remember(const Known& known, const std::vector<std::string>& files) const {
  std::string text = fmt::format("{}\n{}\n{}\n", known.path, known.identity.digest, known.identity.version);
  for (const std::string& file : files) {
    const std::string stamp = file_stamp(file);
    if (stamp.empty() || file.find('\n') != std::string::npos) return;
    text += fmt::format("{}\n{}\n", file, stamp);
  }
  context_.cache->replace(library_memo_key(context_, "nvrtc", context_.options.nvrtc), {"nvrtc", text});
}

Result<CudaCompiler::Known> CudaCompiler::read(const toolchain::Nvrtc& nvrtc) const {
  Known known{{nvrtc.identity(), nvrtc.version()}, nvrtc.path()};
  if (known.identity.digest.empty()) {
    return diag::error(diag::Code::cuda_compiler_unusable, "the CUDA compiler can not be used")
        .reason(fmt::format("{} are not both there and readable", base::join(nvrtc.identity_files(), " and ")))
        .help("install the whole of NVRTC: the library and its builtins, in one folder");
  }
  remember(known, nvrtc.identity_files());
  return known;
}

Result<toolchain::NvrtcRef> CudaCompiler::library() {
  const std::lock_guard lock(mutex_);
  if (nvrtc_) return nvrtc_;
  CODETTA_TRY(toolchain::NvrtcRef found,
              toolchain::Nvrtc::find({.file = context_.options.nvrtc, .cuda_home = context_.options.cuda_home}));
  if (!known_ || known_->path != found->path()) {
    CODETTA_TRY(known_, read(*found));
  }
  nvrtc_ = std::move(found);
  return nvrtc_;
}

Result<CudaCompiler::Identity> CudaCompiler::identity() {
  {
    const std::lock_guard lock(mutex_);
    if (!known_) known_ = recall();
    if (known_) return known_->identity;
  }
  CODETTA_CHECK_OK([&]() -> Result<void> {
    CODETTA_TRY(const toolchain::NvrtcRef loaded, library());
    return {};
  }());
  const std::lock_guard lock(mutex_);
  return known_->identity;
}

std::span<const toolchain::CudaHeader> CudaCompiler::headers() {
  static const GpuHeaders& table = base::kept(GpuHeaders("cuda/"));
  return table.headers;
}

}  // namespace codetta::driver
