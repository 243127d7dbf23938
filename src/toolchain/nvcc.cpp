// SPDX-License-Identifier: Apache-2.0
#include "toolchain/nvcc.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::toolchain {
namespace {

// The number behind "#define NAME " in a header; -1 where there is none.
int defined(const std::string& text, const std::string& name) {
  const size_t at = text.find("#define " + name + " ");
  if (at == std::string::npos) return -1;
  size_t digit = text.find_first_not_of(' ', at + 9 + name.size());
  int value = -1;
  for (; digit < text.size() && text[digit] >= '0' && text[digit] <= '9' && value < 1000; ++digit)
    value = (value < 0 ? 0 : value * 10) + (text[digit] - '0');
  return value;
}

std::string versions_text(int least, int most) {
  return fmt::format("{}.{} to {}.{}", least / 100, least % 100, most / 100, most % 100);
}

// Lines of the log that say what is wrong, at most five: a template's history may have hundreds.
std::string errors_of(const std::string& log) {
  std::string result;
  int shown = 0;
  for (size_t begin = 0; begin < log.size() && shown < 5;) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    begin = end + 1;
    if (line.find("error") == std::string::npos && line.find("fatal") == std::string::npos) continue;
    result += (shown++ > 0 ? "\n" : "") + line.substr(0, 300);
  }
  return result.empty() ? log.substr(0, 300) : result;
}

}  // namespace

Result<CutlassHeaders> find_cutlass(const std::string& path, int least, int most) {
  const std::string help =
      "get CUTLASS (pip install nvidia-cutlass, or a checkout of NVIDIA/cutlass) and name its folder with "
      "--cutlass-dir or CODETTA_CUTLASS_DIR";
  if (path.empty())
    return diag::error(diag::Code::cuda_compiler_unusable, "no folder of CUTLASS is configured")
        .reason("emitted sources include its headers")
        .help(help);
  std::string looked;
  for (const char* below : {"/include", "", "/cutlass_library/source/include", "/source/include"}) {
    const std::string folder = path + below;
    const std::string file = folder + "/cutlass/version.h";
    const auto text = base::read_file(file, size_t{1} << 20);
    looked += (looked.empty() ? "" : ", ") + file;
    if (!text) continue;
    const int major = defined(*text, "CUTLASS_MAJOR"), minor = defined(*text, "CUTLASS_MINOR"),
              patch = defined(*text, "CUTLASS_PATCH");
    if (major < 0 || minor < 0) {
      return diag::error(diag::Code::cuda_compiler_unusable, "the version of CUTLASS cannot be read")
          .in_file(file)
          .reason("it defines neither CUTLASS_MAJOR nor CUTLASS_MINOR")
          .help("use a release of CUTLASS from " + versions_text(least, most));
    }
    const int version = major * 100 + minor;
    if (version < least || version > most) {
      return diag::error(diag::Code::cuda_compiler_unusable,
                         fmt::format("CUTLASS {}.{} is there, and emitted trees are for {}", major, minor,
                                     versions_text(least, most)))
          .in_file(file)
          .reason("template parameters and argument structs differ between versions")
          .help("use a release of CUTLASS from " + versions_text(least, most));
    }
    return CutlassHeaders{folder, fmt::format("{}.{}.{}", major, minor, std::max(patch, 0))};
  }
  return diag::error(diag::Code::cuda_compiler_unusable, fmt::format("there is no CUTLASS in {}", path))
      .reason("looked for " + looked)
      .help(help);
}

Result<std::string> find_nvcc(const NvccOptions& options) {
  std::string folders = options.cuda_home.empty() ? "" : options.cuda_home + "/bin:";
  folders += options.path + ":/usr/local/cuda/bin";
  if (auto found = base::find_executable("nvcc", folders)) return *std::move(found);
  return diag::error(diag::Code::cuda_compiler_missing, "no nvcc was found")
      .reason("CUTLASS's headers need a CUDA toolkit's compiler; looked in " + folders)
      .help("install a CUDA toolkit of 12.4 or later, or name its folder with --cuda-home");
}

Result<std::string> compile_cutlass(const std::string& nvcc, const CutlassHeaders& headers, const std::string& source,
                                    const std::vector<std::string>& flags, const NvccOptions& options) {
  const auto folder = base::TemporaryDirectory::make("/tmp");
  if (!folder)
    return diag::error(diag::Code::compile_folder, "no folder for temporary files")
        .reason(folder.error().message())
        .help("make room in /tmp");
  const std::string file = folder->path() + "/kernel.cu", library = folder->path() + "/library.so";
  if (auto written = base::write_file_atomically(file, source); !written)
    return diag::error(diag::Code::compile_folder, "the source cannot be written")
        .reason(written.error().message())
        .help("make room in /tmp");
  base::ProcessRequest request;
  request.program = nvcc;
  request.arguments = flags;
  for (const std::string& flag : {std::string("-shared"), std::string("-Xcompiler=-fPIC"), "-I" + headers.folder,
                                  std::string("-o"), library, file})
    request.arguments.push_back(flag);
  request.environment = {"PATH=" + (options.path.empty() ? std::string("/usr/local/bin:/usr/bin:/bin") : options.path),
                         "LC_ALL=C", "TMPDIR=" + folder->path()};
  if (!options.library_path.empty()) request.environment.push_back("LD_LIBRARY_PATH=" + options.library_path);
  request.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1000));
  request.cancel = options.cancel;
  const auto run = base::run_process(request);
  if (!run)
    return diag::error(diag::Code::compiler_failed, "nvcc could not be started")
        .in_file(nvcc)
        .reason(run.error().message())
        .help("check the CUDA toolkit");
  if (run->end == base::ProcessEnd::Cancelled)
    return diag::error(diag::Code::compile_cancelled, "compiling with CUTLASS was cancelled")
        .reason("the context's cancel flag was set")
        .help("start it again");
  if (run->end == base::ProcessEnd::TimedOut) {
    return diag::error(diag::Code::compile_timeout,
                       fmt::format("nvcc took longer than {:.0f} s", options.timeout_seconds))
        .reason("CUTLASS's templates take half a minute and more to compile")
        .help("allow more with --compile-timeout");
  }
  if (!run->success()) {
    const std::string log = run->errors + run->output;
    // nvcc starts one; without it nothing has been read of the source.
    if (log.find("host compiler") != std::string::npos || log.find("cannot find compiler") != std::string::npos) {
      return diag::error(diag::Code::compiler_missing, "nvcc has no host compiler that it can use")
          .in_file(nvcc)
          .reason(fmt::format("{}: {}", run->summary(), errors_of(log)))
          .help("install a C++ compiler that this CUDA toolkit takes (g++), where the search path leads");
    }
    return diag::error(diag::Code::compile_rejected, "nvcc rejected the emitted source")
        .in_file(headers.folder)
        .reason(fmt::format("{}: {}", run->summary(), errors_of(log)))
        .help("look at it with `codetta emit --what=source`; with a supported version of CUTLASS (here " +
              headers.version + ") this is our mistake, please report it");
  }
  auto bytes = base::read_file(library, size_t{1} << 30);
  if (!bytes)
    return diag::error(diag::Code::compiler_failed, "nvcc left no library")
        .reason(bytes.error().message())
        .help("check the CUDA toolkit");
  return *std::move(bytes);
}

}  // namespace codetta::toolchain
