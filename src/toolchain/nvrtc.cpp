// SPDX-License-Identifier: Apache-2.0
// Finding and loading NVRTC, and compiling with it.
#include "toolchain/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "base/shared_library.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/nvrtc_failure.hpp"
#include "toolchain/rtc.hpp"

namespace codetta::toolchain {

namespace {

constexpr int oldest_version = 12000;
constexpr int first_with_a_cache = 12090;  // of the driver, which keeps what NVRTC makes
constexpr size_t max_library_bytes = size_t{1} << 30;
constexpr std::array<const char*, 3> library_names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* library_folder = "/usr/local/cuda/lib64";
constexpr const char* install_nvrtc =
    "install the CUDA toolkit 12 or 13, or its NVRTC alone (pip install nvidia-cuda-nvrtc), and name its folder in "
    "cuda_home";

using Clock = std::chrono::steady_clock;

// nvrtcResult, as far as it is told apart here.
constexpr int success = 0, invalid_option = 5, compilation_failed = 6, builtin_failure = 7, was_cancelled = 16;

struct Deadline {
  Clock::time_point at;
  std::atomic<bool> passed = false;
  // Called by NVRTC from time to time; once it has said stop it goes on saying so.
  static int ask(void* self, void*) {
    auto& deadline = *static_cast<Deadline*>(self);
    if (Clock::now() >= deadline.at) deadline.passed = true;
    return deadline.passed ? 1 : 0;
  }
};

}  // namespace

struct Nvrtc::Functions {
  using Program = struct OpaqueNvrtcProgram*;
  int (*version)(int*, int*) = nullptr;
  int (*arch_count)(int*) = nullptr;
  int (*archs)(int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*flow)(Program, int (*)(void*, void*), void*) = nullptr;  // since 12.8

  // The first symbol that is missing, or nullptr.
  const char* look_up(void* handle) {
    TakenFunctions take(handle);
    take(version, "nvrtcVersion");
    take(arch_count, "nvrtcGetNumSupportedArchs");
    take(archs, "nvrtcGetSupportedArchs");
    take(error_string, "nvrtcGetErrorString");
    take(create, "nvrtcCreateProgram");
    take(destroy, "nvrtcDestroyProgram");
    take(compile, "nvrtcCompileProgram");
    take(cubin_size, "nvrtcGetCUBINSize");
    take(cubin, "nvrtcGetCUBIN");
    take(ptx_size, "nvrtcGetPTXSize");
    take(ptx, "nvrtcGetPTX");
    take(log_size, "nvrtcGetProgramLogSize");
    take(log, "nvrtcGetProgramLog");
    const char* needed = take.missing();
    take(flow, "nvrtcSetFlowCallback");
    return needed;
  }
};

Result<std::shared_ptr<const Nvrtc>> Nvrtc::find(const NvrtcOptions& options) {
  const base::FoundLibrary found = base::find_library(
      {.file = options.file, .toolkit = options.cuda_home, .names = library_names, .folder = library_folder});
  if (found.handle == nullptr) {
    if (!found.refused.empty()) return nvrtc_unusable(found.refused);
    return diag::error(diag::Code::cuda_compiler_missing, "no CUDA compiler was found")
        .reason(found.looked)
        .help(install_nvrtc);
  }
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);  // never unloaded: it keeps thread-local data
  auto functions = std::make_shared<Functions>();
  const char* missing = functions->look_up(found.handle);
  nvrtc->path_ = base::library_file_of(reinterpret_cast<void*>(functions->version));
  if (missing != nullptr) {
    return nvrtc_unusable(fmt::format("{} lacks {}", nvrtc->path_.empty() ? options.file : nvrtc->path_, missing));
  }
  int major = 0, minor = 0, count = 0;
  functions->version(&major, &minor);
  nvrtc->version_ = major * 1000 + minor * 10;
  if (nvrtc->version_ < oldest_version) {
    return nvrtc_unusable(
        fmt::format("{} is NVRTC {}.{}, and 12.0 is the oldest that is supported", nvrtc->path_, major, minor));
  }
  if (functions->arch_count(&count) == success && count > 0) {
    nvrtc->architectures_.resize(static_cast<size_t>(count));
    if (functions->archs(nvrtc->architectures_.data()) != success) nvrtc->architectures_.clear();
  }
  nvrtc->functions_ = std::move(functions);
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
}

std::vector<std::string> Nvrtc::identity_files() const {
  std::vector<std::string> files{path_};
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  const std::string builtins =
      fmt::format("{}libnvrtc-builtins.so.{}.{}", folder, version_ / 1000, version_ % 1000 / 10);
  files.push_back(builtins);
  return files;
}

std::string Nvrtc::identity() const {
  base::Hasher hasher;
  hasher.add(version_);
  for (const std::string& file : identity_files()) {
    const auto bytes = base::read_file(file, max_library_bytes);
    if (!bytes) return {};
    hasher.add(base::digest_of(*bytes));
  }
  return hasher.digest().hex();
}

Result<CudaOutput> Nvrtc::compile_whole(const CudaJob& job, const CudaCompileOptions& options) const {
  const Functions& call = *functions_;
  const FailedCuda failed{version_text_of("NVRTC", version_), path_, job, options};
  CODETTA_CHECK_OK(check_architecture(failed, architectures_));
  const auto start = Clock::now();
  const HeaderTexts headers(included_headers(job.source, job.headers));
  std::vector<const char*> flags;
  for (const std::string& flag : job.flags) flags.push_back(flag.c_str());
  flags.push_back("--ptxas-options=-v");  // changes the log only
  // What the driver's cache has comes without the assembler's remarks, so that a kernel that spills would pass for one
  // that does not.
  if (version_ >= first_with_a_cache) flags.push_back("--no-cache");

  Functions::Program program = nullptr;
  int status = call.create(&program, job.source.c_str(), std::string(nvrtc_source_name).c_str(), headers.count(),
                           headers.texts(), headers.names());
  if (status != success) return cuda_failed(failed, call.error_string(status), "");
  struct Owner {
    const Functions& call;
    Functions::Program program;
    ~Owner() { call.destroy(&program); }
  } const owner{call, program};
  Deadline deadline;
  deadline.at = start + std::chrono::microseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.0) * 1e6));
  if (call.flow != nullptr) (void)call.flow(program, &Deadline::ask, &deadline);
  status = call.compile(program, static_cast<int>(flags.size()), flags.data());

  CudaOutput output;
  output.log = bytes_of(program, call.log_size, call.log);
  while (!output.log.empty() && (output.log.back() == '\0' || output.log.back() == '\n')) output.log.pop_back();
  output.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (status == was_cancelled || (status != success && deadline.passed)) return cuda_timed_out(failed, output.seconds);
  if (status == compilation_failed || status == invalid_option) return cuda_rejected(failed, output.log);
  if (status == builtin_failure) return nvrtc_unusable(path_ + " finds its builtins not: " + output.log);
  if (status != success) return cuda_failed(failed, call.error_string(status), output.log);
  output.cubin = bytes_of(program, call.cubin_size, call.cubin);
  if (job.want_ptx) {
    output.ptx = bytes_of(program, call.ptx_size, call.ptx);
    while (!output.ptx.empty() && output.ptx.back() == '\0') output.ptx.pop_back();
  }
  if (output.cubin.empty()) return cuda_failed(failed, "it made no binary", output.log);
  output.remarks = parse_ptxas_remarks(output.log);
  return output;
}

std::vector<CudaHeader> included_headers(std::string_view source, std::span<const CudaHeader> headers) {
  std::vector<bool> wanted(headers.size(), false);
  std::vector<std::string_view> texts{source};
  while (!texts.empty()) {
    const std::string_view text = texts.back();
    texts.pop_back();
    for (std::string_view line : base::split(text, '\n')) {
      line = base::trim(line);
      if (!line.starts_with("#")) continue;
      line = base::trim(line.substr(1));
      if (!line.starts_with("include")) continue;
      const size_t from = line.find_first_of("\"<");
      if (from == std::string_view::npos) continue;
      const size_t end = line.find_first_of("\">", from + 1);
      const std::string_view path = line.substr(from + 1, end == std::string_view::npos ? end : end - from - 1);
      for (size_t i = 0; i < headers.size(); ++i) {
        if (wanted[i] || headers[i].path != path) continue;
        wanted[i] = true;
        texts.push_back(headers[i].text);
      }
    }
  }
  std::vector<CudaHeader> found;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (wanted[i]) found.push_back(headers[i]);
  }
  return found;
}

}  // namespace codetta::toolchain
