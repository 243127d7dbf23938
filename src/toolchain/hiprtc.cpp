// SPDX-License-Identifier: Apache-2.0
#include "toolchain/hiprtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "base/shared_library.hpp"
#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/messages.hpp"
#include "toolchain/rtc.hpp"
#include "toolchain/undefined.hpp"

namespace codetta::toolchain {

namespace {

constexpr std::array<const char*, 3> hiprtc_names = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"};
constexpr std::array<const char*, 3> comgr_names = {"libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"};
constexpr const char* hiprtc_folder = "/opt/rocm/lib";
constexpr const char* hiprtc_source_name = "kernel.hip";  // the same in all, so that binaries do not differ
constexpr size_t most_library_bytes = size_t{1} << 30;
constexpr const char* install_hiprtc =
    "install clang-19 and lld-19 (or later ones), or ROCm 6 or later with its libhiprtc.so where the loader looks";

// hiprtcResult, as far as it is told apart here.
constexpr int hiprtc_success = 0, hiprtc_invalid_option = 5, hiprtc_compilation_failed = 6;

}  // namespace

// As hiprtc.h of ROCm 6 and 7 declares them.
struct Hiprtc::Functions {
  using Program = struct OpaqueHipProgram*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*code_size)(Program, size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;

  // The first symbol that is missing, or nullptr.
  const char* look_up(void* handle) {
    TakenFunctions take(handle);
    take(version, "hiprtcVersion");
    take(error_string, "hiprtcGetErrorString");
    take(create, "hiprtcCreateProgram");
    take(destroy, "hiprtcDestroyProgram");
    take(compile, "hiprtcCompileProgram");
    take(code_size, "hiprtcGetCodeSize");
    take(code, "hiprtcGetCode");
    take(log_size, "hiprtcGetProgramLogSize");
    take(log, "hiprtcGetProgramLog");
    return take.missing();
  }
};

Result<HiprtcRef> Hiprtc::find(const std::string& file) {
  const base::FoundLibrary found =
      base::find_library({.file = file, .toolkit = {}, .names = hiprtc_names, .folder = hiprtc_folder});
  const auto unusable = [](const std::string& why) -> Error {
    return diag::error(diag::Code::hip_compiler_unusable, "the HIP compiler can not be used")
        .reason(why)
        .help(install_hiprtc);
  };
  if (found.handle == nullptr) {
    if (!found.refused.empty()) return unusable(found.refused);
    return diag::error(diag::Code::hip_compiler_missing, "no HIP compiler was found")
        .reason(found.looked)
        .help(install_hiprtc);
  }
  std::shared_ptr<Hiprtc> hiprtc(new Hiprtc);  // never unloaded: a compiler does not support that
  auto functions = std::make_shared<Functions>();
  const char* missing = functions->look_up(found.handle);
  hiprtc->path_ = base::library_file_of(reinterpret_cast<void*>(functions->version));
  if (missing != nullptr)
    return unusable(fmt::format("{} lacks {}", hiprtc->path_.empty() ? file : hiprtc->path_, missing));
  if (const void* comgr = ::dlsym(found.handle, "amd_comgr_get_version"); comgr != nullptr) {
    hiprtc->comgr_ = base::library_file_of(comgr);
  } else {  // loaded when it is needed
    const std::filesystem::path folder = std::filesystem::path(hiprtc->path_).parent_path();
    for (const char* name : comgr_names) {
      std::error_code none;
      if (!hiprtc->comgr_.empty() || !std::filesystem::exists(folder / name, none)) continue;
      hiprtc->comgr_ = (folder / name).string();
    }
  }
  int major = 0, minor = 0;
  functions->version(&major, &minor);
  hiprtc->version_ = fmt::format("{}.{}", major, minor);
  hiprtc->functions_ = std::move(functions);
  return HiprtcRef(std::move(hiprtc));
}

// libhiprtc hands sources over to libamd_comgr, which has the compiler in it and may be updated alone.
std::string Hiprtc::identity() const {
  std::vector<std::string> files{path_};
  if (!comgr_.empty()) files.push_back(comgr_);
  base::Hasher hasher;
  hasher.add(std::string_view("hiprtc " + version_));
  for (const std::string& file : files) {
    const auto bytes = base::read_file(file, most_library_bytes);
    if (!bytes) return {};
    hasher.add(base::digest_of(*bytes));
  }
  return hasher.digest().hex();
}

Result<HipOutput> Hiprtc::compile(const HipJob& job, const std::string& keep_dir) const {
  const Functions& call = *functions_;
  const auto start = std::chrono::steady_clock::now();
  const HeaderTexts headers(included_headers(job.source, job.headers));
  std::vector<const char*> flags;
  for (const std::string& flag : job.flags) flags.push_back(flag.c_str());
  // What it includes of its own accord defines __device__ and its kin as macros, too.
  flags.insert(flags.end(), {"-Wno-macro-redefined", "-Wno-pass-failed"});

  const std::string label = job.label.empty() ? "a kernel" : "'" + job.label + "'";
  const std::string report_it = "report this; clang-19 with lld-19 may compile it (--compiler)";
  const auto failed = [&](diag::Code code, const std::string& headline, const std::string& why, const std::string& log,
                          const std::string& help) -> Error {
    auto error = diag::error(code, headline);
    const auto messages = parse_compiler_messages(log);
    error.reason(
        fmt::format("hiprtc {} ({}): {}", version_, path_, messages.empty() && !log.empty() ? why + "; " + log : why));
    const std::string kept = keep_refused(keep_dir, job.source, ".hip");
    show_errors(error, messages, job.source, [&](const CompilerMessage& message) {
      SourceLocation where;
      where.file = message.file == hiprtc_source_name && !kept.empty() ? kept : message.file;
      where.line = message.line;
      where.column = std::max(message.column, 1U);
      where.length = 1;
      where.line_text = line_at(job.source, hiprtc_source_name, message.file, message.line);
      diag::cut_line(where);
      return where;
    });
    error.note("the flags were: " + base::join(job.flags, " "));
    if (!kept.empty()) error.note("the source is kept as " + kept);
    return error.help(help);
  };
  Functions::Program program = nullptr;
  int status =
      call.create(&program, job.source.c_str(), hiprtc_source_name, headers.count(), headers.texts(), headers.names());
  if (status != hiprtc_success)
    return failed(diag::Code::compiler_failed, "the compiler failed on " + label, call.error_string(status), "",
                  report_it);
  struct Owner {
    const Functions& call;
    Functions::Program program;
    ~Owner() { call.destroy(&program); }
  } const owner{call, program};
  status = call.compile(program, static_cast<int>(flags.size()), flags.data());
  HipOutput output;
  output.log = bytes_of(program, call.log_size, call.log);
  while (!output.log.empty() && (output.log.back() == '\0' || output.log.back() == '\n')) output.log.pop_back();
  output.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (status == hiprtc_compilation_failed || status == hiprtc_invalid_option) {
    if (auto undefined = undefined_in_users(job.label, job.source, output.log,
                                            fmt::format("hiprtc {} ({}) said: {}", version_, path_, output.log)))
      return *std::move(undefined);
    const RefusedSource refused =
        refused_source(job.source, hiprtc_source_name, output.log, parse_compiler_messages(output.log),
                       "clang-19 with lld-19 (--compiler)");
    return failed(refused.code, "the compiler rejected the source of " + label, call.error_string(status), output.log,
                  refused.help);
  }
  if (status != hiprtc_success) {
    return failed(diag::Code::compiler_failed, "the compiler failed on " + label, call.error_string(status), output.log,
                  report_it);
  }
  output.object = bytes_of(program, call.code_size, call.code);
  CODETTA_TRY(output.remarks, read_code_object(output.object, job.label));
  return output;
}

}  // namespace codetta::toolchain
