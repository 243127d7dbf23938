// SPDX-License-Identifier: Apache-2.0
// The memo of the CUDA compiler: what the search gives, and its content digest, valid while its files are unchanged.
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

bool CudaCompiler::wants_nvrtc() const {
  return context_.options.cuda_compiler.empty() || context_.options.cuda_compiler == "nvrtc";
}

bool CudaCompiler::falls_back() const {
  return context_.options.cuda_compiler.empty() && context_.options.nvrtc.empty();
}

toolchain::CudaNvccOptions CudaCompiler::nvcc_options() const {
  const ContextOptions& options = context_.options;
  return {.file = options.cuda_compiler.starts_with('/') ? options.cuda_compiler : std::string(),
          .cuda_home = options.cuda_home,
          .path = context_.path,
          .library_path = context_.library_path,
          .cancel = options.cancel};
}

toolchain::CacheKey CudaCompiler::memo_key(bool nvcc) const {
  toolchain::CacheKey key =
      library_memo_key(context_, nvcc ? "nvcc" : "nvrtc", nvcc ? nvcc_options().file : context_.options.nvrtc);
  if (nvcc) key.add("search", context_.path);
  return key;
}

std::optional<CudaCompiler::Known> CudaCompiler::recall(bool nvcc) const {
  const auto entry = context_.cache->lookup(memo_key(nvcc));
  if (!entry) return std::nullopt;
  const auto lines = base::split(entry->payload, '\n');
  if (lines.size() < 5) return std::nullopt;
  Known known;
  known.path = lines[0];
  known.identity.digest = lines[1];
  known.identity.nvcc = nvcc;
  const std::string_view version = lines[2];
  const auto [end, failed] = std::from_chars(version.data(), version.data() + version.size(), known.identity.version);
  if (failed != std::errc{} || end != version.data() + version.size()) return std::nullopt;
  for (size_t i = 3; i + 1 < lines.size(); i += 2) {
    if (file_stamp(std::string(lines[i])) != lines[i + 1]) return std::nullopt;
  }
  return known;
}

std::optional<CudaCompiler::Known> CudaCompiler::recall() const {
  if (!wants_nvrtc()) return recall(true);
  if (auto known = recall(false)) return known;
  // Where there is no NVRTC the loader knows that soon.
  const ContextOptions& options = context_.options;
  if (!falls_back() || toolchain::Nvrtc::find({.file = options.nvrtc, .cuda_home = options.cuda_home}))
    return std::nullopt;
  return recall(true);
}

void CudaCompiler::remember(const Known& known, const std::vector<std::string>& files) const {
  std::string text = fmt::format("{}\n{}\n{}\n", known.path, known.identity.digest, known.identity.version);
  for (const std::string& file : files) {
    const std::string stamp = file_stamp(file);
    if (stamp.empty() || file.find('\n') != std::string::npos) return;
    text += fmt::format("{}\n{}\n", file, stamp);
  }
  context_.cache->replace(memo_key(known.identity.nvcc), {known.identity.nvcc ? "nvcc" : "nvrtc", text});
}

Result<CudaCompiler::Known> CudaCompiler::read(Known known, const std::vector<std::string>& files) const {
  if (known.identity.digest.empty()) {
    const bool nvcc = known.identity.nvcc;
    return diag::error(diag::Code::cuda_compiler_unusable, "the CUDA compiler can not be used")
        .reason(fmt::format("{} are not {} there and readable", base::join(files, " and "), nvcc ? "all" : "both"))
        .help(nvcc ? "install the whole of the CUDA toolkit's compiler"
                   : "install the whole of NVRTC: the library and its builtins, in one folder");
  }
  remember(known, files);
  return known;
}

Result<void> CudaCompiler::find() {
  if (nvrtc_ || nvcc_) return {};
  const ContextOptions& options = context_.options;
  std::optional<Error> without;
  if (wants_nvrtc()) {
    auto found = toolchain::Nvrtc::find({.file = options.nvrtc, .cuda_home = options.cuda_home});
    if (found) {
      const toolchain::Nvrtc& nvrtc = **found;
      if (!known_ || known_->path != nvrtc.path()) {
        CODETTA_TRY(known_, read({{nvrtc.identity(), nvrtc.version()}, nvrtc.path()}, nvrtc.identity_files()));
      }
      nvrtc_ = *std::move(found);
      return {};
    }
    const bool missing = found.error().code() == static_cast<uint16_t>(diag::Code::cuda_compiler_missing);
    if (!missing || !falls_back()) return std::move(found).error();
    without = std::move(found).error();
  }
  auto found = toolchain::CudaNvcc::find(nvcc_options());
  if (!found && without) {  // what was looked for first says how to get it
    if (found.error().code() == static_cast<uint16_t>(diag::Code::compile_cancelled)) return std::move(found).error();
    std::vector<Diagnostic> diagnostics = without->diagnostics();
    diagnostics.front().reason += "; nor is there an nvcc: " + found.error().diagnostics().front().reason;
    return Error(std::move(diagnostics));
  }
  if (!found) return std::move(found).error();
  const toolchain::CudaNvcc& nvcc = **found;
  if (!known_ || known_->path != nvcc.path()) {
    CODETTA_TRY(known_, read({{nvcc.identity(), nvcc.version(), true}, nvcc.path()}, nvcc.identity_files()));
  }
  nvcc_ = *std::move(found);
  return {};
}

Result<void> CudaCompiler::load() {
  const std::lock_guard lock(mutex_);
  return find();
}

Result<CudaCompiler::Identity> CudaCompiler::identity() {
  const std::lock_guard lock(mutex_);
  if (!known_) known_ = recall();
  if (!known_) CODETTA_CHECK_OK(find());
  return known_->identity;
}

Result<toolchain::CudaOutput> CudaCompiler::compile(const toolchain::CudaJob& job,
                                                    const toolchain::CudaCompileOptions& options) {
  CODETTA_CHECK_OK(load());
  return nvrtc_ ? nvrtc_->compile(job, options) : nvcc_->compile(job, options);
}

std::vector<Result<toolchain::CudaOutput>> CudaCompiler::compile_all(const std::vector<toolchain::CudaJob>& jobs,
                                                                     const toolchain::CudaCompileOptions& options,
                                                                     int parallel) {
  return nvrtc_ ? toolchain::compile_all(*nvrtc_, jobs, options, parallel)
                : toolchain::compile_all(*nvcc_, jobs, options, parallel);
}

std::span<const toolchain::CudaHeader> CudaCompiler::headers() {
  static const GpuHeaders& table = base::kept(GpuHeaders("cuda/"));
  return table.headers;
}

}  // namespace codetta::driver
