// SPDX-License-Identifier: Apache-2.0
#include "toolchain/hip_clang.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/hip_link.hpp"
#include "toolchain/probe.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {
namespace {

constexpr int oldest_hip_clang = 19;  // knows gfx1201
// Options of LLVM's own, for sources that Codetta has written. One that a Clang does not know is an error.
constexpr int newest_with_options = 21;
// How many instructions of a block it looks back for what wrote the memory that a load reads. With 100, its own limit,
// a tenth of a large kernel's time goes into that; inner loops have the same instructions with 10.
constexpr std::string_view looks_back = "-memdep-block-scan-limit=10";
// No second scheduling, of what has its registers: where arrays of them have an index, it asks for all registers that
// overlap with any part of each (a tenth of the time), and moves some instructions, none of them far.
constexpr std::string_view scheduled_once = "-enable-post-misched=false";

// Whether an instruction names all parts of an array of registers that has an index (the mode of gfx9). gfx942 would
// have to wait where it is not scheduled.
bool names_all_parts(const HipJob& job) {
  return std::find(job.flags.begin(), job.flags.end(), "--offload-arch=gfx90a") != job.flags.end() &&
         job.source.find("RegisterArray<") != std::string::npos;
}

constexpr std::array<std::string_view, 7> hip_names = {"clang++-19", "clang++-20", "clang++-21", "clang++-22",
                                                       "clang++",    "amdclang++", "clang++-23"};
constexpr std::string_view rocm_folder = "/opt/rocm/llvm/bin";
constexpr std::string_view install_hip =
    "install clang-19 and lld-19 (or later ones, or ROCm's) where the search path leads, or name a Clang with "
    "--compiler; emitting sources needs neither";

std::string folders_for(const std::string& path) {
  std::string kept;
  for (const std::string_view folder : base::split(path, ':')) {
    if (!folder.starts_with('/')) continue;
    kept += (kept.empty() ? "" : ":") + std::string(folder);
  }
  return kept + (kept.empty() ? "" : ":") + std::string(rocm_folder);
}

Error missing(std::string headline, std::string reason) {
  return diag::error(diag::Code::hip_compiler_missing, std::move(headline))
      .reason(std::move(reason))
      .help(std::string(install_hip));
}

std::optional<HostCompiler> examine_hip(const std::string& path, const FindOptions& options,
                                        const std::string& search_path, Refusal& refusal) {
  auto found = recall_probe(options.memo_dir, path);
  if (!found) {
    found = probe(path, search_path, options, refusal);
    if (!found || is_cancelled(options)) return std::nullopt;
    remember_probe(options.memo_dir, *found);
  }
  HostCompiler clang = std::move(found->compiler);
  clang.search_path = search_path;
  if (clang.kind != CompilerKind::Clang) {
    refusal.reason = path + " is not Clang, which alone compiles HIP";
    return std::nullopt;
  }
  if (clang.major < oldest_hip_clang) {
    refusal.reason = fmt::format("{} is Clang {}, and {} is the oldest that knows all of these GPUs", path, clang.major,
                                 oldest_hip_clang);
    return std::nullopt;
  }
  return clang;
}

Error said_nothing(const std::string& path, const Refusal& refusal) {
  return said_too_late(fmt::format("the HIP compiler '{}' did not finish in time", path), refusal);
}

// With the lld that this Clang calls: beside it, where it was installed, or on the path.
Result<HostCompiler> with_linker(HostCompiler clang, const FindOptions& options) {
  Refusal refusal;
  const auto said = ask(clang.path, {"-print-prog-name=lld"}, clang.search_path, options, refusal);
  if (is_cancelled(options)) return search_cancelled("a HIP compiler");
  if (refusal.timed_out) return said_nothing(clang.path, refusal);
  clang.linker = said ? base::find_executable(base::trim(said->output), clang.search_path).value_or("") : "";
  if (!clang.linker.empty()) return clang;
  return missing(fmt::format("{} has no linker for AMD GPUs", clang.path),
                 "looked for lld where it is installed and in " + clang.search_path);
}

// `output`: arguments that say what becomes of the source, which is read from stdin.
Result<base::ProcessResult> run_clang(const HostCompiler& clang, const HipJob& job, const CompileOptions& options,
                                      const WorkFolder& folder, const std::vector<std::string>& output,
                                      base::ProcessRequest request = {}) {
  const std::vector<CudaHeader> headers = included_headers(job.source, job.headers);
  if (auto written = write_headers(folder.path(), headers); !written)
    return folder_failed(job.label, written.error(), {folder.path()});
  std::vector<std::string> arguments = hip_arguments(job, clang.major <= newest_with_options);
  arguments.push_back("-I" + folder.path());
  if (!job.precompiled.empty()) {
    const std::string header = folder.path() + "/prelude.pch";
    if (auto written = write_work_file(header, job.precompiled); !written)
      return folder_failed(job.label, written.error(), {folder.path()});
    arguments.insert(arguments.end(), {"-Xclang", "-include-pch", "-Xclang", header});
  }
  arguments.insert(arguments.end(), output.begin(), output.end());
  request.input = job.source;
  return run_hip_tool(clang.path, std::move(arguments), clang, job, options, folder, std::move(request));
}

Result<WorkFolder> hip_folder(const std::string& label, const CompileOptions& options) {
  WorkFolderWish wish{label, "codetta-hip-", {"/dev/shm", "/tmp", "/var/tmp"}, options.sweep};
  if (!options.work_dir.empty()) wish.parents = {options.work_dir};
  return make_work_folder(wish);
}

// One of the parts, to the linker. Clang's driver, where it also links, runs the compiler proper as a process of its
// own: a start more of LLVM.
Result<base::ProcessResult> compile_part(const HostCompiler& clang, const HipJob& job, const CompileOptions& options,
                                         size_t part, HipLinker& linker) {
  CODETTA_TRY(const WorkFolder own, hip_folder(job.label, options));
  const std::string object = fmt::format("{}/kernel{}.o", own.path(), part);
  base::ProcessRequest request;
  request.on_file = [&](std::string bytes) { linker.add(part, std::move(bytes)); };
  if (::mkfifo(object.c_str(), 0600) == 0) request.fifo = object;
  CODETTA_TRY(base::ProcessResult ran,
              run_clang(clang, job, options, own, {"-fhip-emit-relocatable", "-c", "-o", object, "-"}, request));
  // Where there is no FIFO, or the compiler has put a file in its place.
  struct stat info {};
  if (::lstat(object.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    if (auto bytes = base::read_file(object, largest_hip_object)) linker.add(part, *std::move(bytes));
  }
  return ran;
}

// All of them at the same time: what the compilers said.
Result<std::string> compile_parts(const HostCompiler& clang, std::span<const HipJob> parts,
                                  const CompileOptions& options, HipLinker& linker) {
  std::vector<std::optional<Result<base::ProcessResult>>> ran(parts.size());
  const auto compile = [&](size_t i) { ran[i] = compile_part(clang, parts[i], options, i, linker); };
  if (parts.size() == 1)
    compile(0);
  else
    run_jobs(parts.size(), static_cast<int>(parts.size()), compile);
  std::string log;
  for (auto& one : ran) {
    CODETTA_TRY(const base::ProcessResult result, *std::move(one));
    log += result.errors;
  }
  return log;
}

}  // namespace

Result<HostCompiler> find_hip_clang(const FindOptions& options) {
  const std::string search_path = folders_for(options.path);
  const auto unusable = [](const std::string& path, const Refusal& refusal) -> Error {
    if (refusal.timed_out) return said_nothing(path, refusal);
    return diag::error(diag::Code::hip_compiler_unusable, fmt::format("the HIP compiler '{}' can not be used", path))
        .reason(refusal.reason)
        .help(std::string(install_hip));
  };
  Refusal refusal;
  if (!options.wanted.empty()) {
    const auto path = base::find_executable(options.wanted, search_path);
    if (!path) {
      return missing(
          fmt::format("the HIP compiler '{}' was not found", options.wanted),
          options.wanted.starts_with('/') ? "there is no executable file of that name" : "looked in " + search_path);
    }
    auto clang = examine_hip(*path, options, search_path, refusal);
    if (!clang && is_cancelled(options)) return search_cancelled("a HIP compiler");
    if (!clang) return unusable(*path, refusal);
    return with_linker(*std::move(clang), options);
  }
  std::optional<Error> without_linker;
  std::string last;
  for (const std::string_view name : hip_names) {
    const auto path = base::find_executable(name, search_path);
    if (!path) continue;
    refusal = {};
    auto clang = examine_hip(*path, options, search_path, refusal);
    if (!clang && is_cancelled(options)) return search_cancelled("a HIP compiler");
    if (!clang) {
      last = *path;
      continue;
    }
    auto linked = with_linker(*std::move(clang), options);
    if (linked || is_cancelled(options)) return linked;
    if (!without_linker) without_linker = std::move(linked).error();
  }
  if (without_linker) return *std::move(without_linker);
  if (!last.empty()) return unusable(last, refusal);
  return missing("no HIP compiler was found",
                 fmt::format("looked for {} in {}", fmt::join(hip_names, ", "), search_path));
}

std::vector<std::string> hip_arguments(const HipJob& job, bool knows_options) {
  std::vector<std::string> all{"-x",
                               "hip",
                               "--cuda-device-only",
                               "--no-gpu-bundle-output",
                               "-nogpuinc",
                               "-nogpulib",
                               "-fuse-cuid=none",
                               "-D__HIP_PLATFORM_AMD__=1",
                               "-Wno-pass-failed",
                               "-fno-color-diagnostics",
                               "-fno-caret-diagnostics"};
  all.insert(all.end(), job.flags.begin(), job.flags.end());
  if (!job.divisible || !knows_options) return all;
  const auto add = [&](std::string_view option) { all.insert(all.end(), {"-mllvm", std::string(option)}); };
  add(looks_back);
  if (names_all_parts(job)) add(scheduled_once);
  return all;
}

Result<HipOutput> compile_hip(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  return compile_hip(clang, {&job, 1}, options);
}

Result<HipOutput> compile_hip(const HostCompiler& clang, std::span<const HipJob> parts, const CompileOptions& options) {
  const HipJob& job = parts.front();
  const auto begin = std::chrono::steady_clock::now();
  CODETTA_TRY(const WorkFolder folder, hip_folder(job.label, options));
  HipLinker linker(clang, parts, options, folder);
  CODETTA_TRY(const std::string log, compile_parts(clang, parts, options, linker));
  CODETTA_TRY(HipOutput output, linker.link());
  output.log = log + output.log;
  CODETTA_TRY(output.remarks, read_code_object(output.object, job.label));
  output.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return output;
}

Result<std::string> precompile_hip(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  CODETTA_TRY(const WorkFolder folder, hip_folder(job.label, options));
  const std::string header = folder.path() + "/prelude.pch";
  // Embedded, since the folder of the headers goes, and Clang would look for them.
  CODETTA_CHECK_OK(run_clang(clang, job, options, folder,
                             {"-fhip-emit-relocatable", "-c", "-Xclang", "-emit-pch", "-Xclang",
                              "-fmodules-embed-all-files", "-o", header, "-"}));
  auto bytes = base::read_file(header, largest_hip_object);
  if (bytes && !bytes->empty()) return *std::move(bytes);
  const CompileJob described{job.source, job.flags, job.label};
  return no_object({clang, described, options, clang.path, {}, folder.path()},
                   bytes ? "the file is empty" : bytes.error().message());
}

Result<std::string> hip_assembly(const HostCompiler& clang, const HipJob& job, const CompileOptions& options) {
  CODETTA_TRY(const WorkFolder folder, hip_folder(job.label, options));
  CODETTA_TRY(base::ProcessResult ran, run_clang(clang, job, options, folder, {"-S", "-o", "-", "-"}));
  return std::move(ran.output);
}

}  // namespace codetta::toolchain
