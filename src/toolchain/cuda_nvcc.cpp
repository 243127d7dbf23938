// SPDX-License-Identifier: Apache-2.0
#include "toolchain/cuda_nvcc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/digest.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/nvrtc_failure.hpp"
#include "toolchain/run_jobs.hpp"
#include "toolchain/work_folder.hpp"

namespace codetta::toolchain {
namespace {

constexpr int oldest_nvcc = 12000;
constexpr size_t largest_part = size_t{1} << 30, largest_cubin = size_t{256} << 20;
constexpr const char* usual_folder = "/usr/local/cuda/bin";
constexpr const char* install_nvcc = "install a CUDA toolkit of 12.0 or later, or name its folder with cuda_home";
constexpr auto answer_time = std::chrono::seconds(20);

base::ProcessRequest request_for(const CudaNvccOptions& options, const std::string& program,
                                 std::vector<std::string> arguments, const std::string& folder) {
  base::ProcessRequest request;
  request.program = program;
  request.arguments = std::move(arguments);
  request.environment = {"PATH=" + (options.path.empty() ? std::string("/usr/local/bin:/usr/bin:/bin") : options.path),
                         "LC_ALL=C", "TMPDIR=" + folder};
  if (!options.library_path.empty()) request.environment.push_back("LD_LIBRARY_PATH=" + options.library_path);
  request.working_directory = folder;
  request.cancel = options.cancel;
  return request;
}

// 13000 of "..., release 13.0, V13.0.88"; 0 where nothing says so.
int version_in(std::string_view text) {
  constexpr std::string_view before = "release ";
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(at + before.size());
  int major = 0, minor = 0;
  const auto [point, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), major);
  if (wrong != std::errc{} || point == rest.data() + rest.size() || *point != '.' || major > 1000) return 0;
  std::from_chars(point + 1, rest.data() + rest.size(), minor);
  return major * 1000 + std::clamp(minor, 0, 99) * 10;
}

// What `nvcc --dryrun` says of a variable: a line "#$ NAME=value".
std::string variable_in(std::string_view log, std::string_view name) {
  const std::string start = fmt::format("#$ {}=", name);
  for (const std::string_view line : base::split(log, '\n')) {
    if (line.starts_with(start)) return std::string(base::trim(line.substr(start.size())));
  }
  return {};
}

Error unusable(const std::string& path, const std::string& why) {
  return diag::error(diag::Code::cuda_compiler_unusable, "the CUDA compiler can not be used")
      .reason(fmt::format("{} {}", path, why))
      .help(install_nvcc);
}

Error cancelled() {
  return diag::error(diag::Code::compile_cancelled, "the search for a CUDA compiler was cancelled")
      .reason("the context's cancel flag was set")
      .help("start it again when you want it");
}

// nvcc starts one; without it nothing has been read of the source.
bool lacks_host_compiler(std::string_view log) {
  return log.find("host compiler") != std::string_view::npos ||
         log.find("annot find compiler") != std::string_view::npos ||
         log.find("sh: 1: gcc: not found") != std::string_view::npos ||
         log.find("gcc: command not found") != std::string_view::npos;
}

bool refuses_architecture(std::string_view log) {
  return log.find("nvcc fatal") != std::string_view::npos && (log.find("gpu architecture") != std::string_view::npos ||
                                                              log.find("gpu-architecture") != std::string_view::npos);
}

std::string without(std::string text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

Result<WorkFolder> folder_for(const std::string& label, bool sweep = false) {
  return make_work_folder({label, "codetta-nvcc-", {"/dev/shm", "/tmp", "/var/tmp"}, sweep});
}

}  // namespace

Result<CudaNvccRef> CudaNvcc::find(const CudaNvccOptions& options) {
  const std::string folders =
      (options.cuda_home.empty() ? "" : options.cuda_home + "/bin:") + options.path + ":" + usual_folder;
  const auto path = base::find_executable(options.file.empty() ? "nvcc" : options.file, folders);
  if (!path) {
    return diag::error(diag::Code::cuda_compiler_missing, "no nvcc was found")
        .reason(options.file.empty() ? "looked in " + folders : "there is no program " + options.file)
        .help(install_nvcc);
  }
  std::shared_ptr<CudaNvcc> nvcc(new CudaNvcc(options));
  nvcc->path_ = *path;
  CODETTA_TRY(const WorkFolder folder, folder_for({}, true));
  const auto ask = [&](std::vector<std::string> arguments) {
    base::ProcessRequest request = request_for(options, *path, std::move(arguments), folder.path());
    request.timeout = answer_time;
    return base::run_process(request);
  };
  // A process may end before it is looked whether it is to be ended.
  const auto is_cancelled = [&](const base::ProcessResult& ran) {
    return ran.end == base::ProcessEnd::Cancelled ||
           (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed));
  };
  const auto said = ask({"--version"});
  if (!said) return unusable(*path, "does not run: " + said.error().message());
  if (is_cancelled(*said)) return cancelled();
  nvcc->said_ = said->output;
  nvcc->version_ = version_in(said->output);
  if (!said->success() || nvcc->version_ == 0)
    return unusable(*path, fmt::format("is no nvcc: asked for its version it ended with {}", said->summary()));
  if (nvcc->version_ < oldest_nvcc)
    return unusable(
        *path, fmt::format("is {}, and 12.0 is the oldest that is supported", version_text_of("nvcc", nvcc->version_)));
  // The one that is found may be a script that starts another; what it would run tells where that is.
  nvcc->parts_ = {*path};
  const auto plan = ask({"--dryrun", "-cubin", "-o", "none.cubin", "-x", "cu", "/dev/null"});
  if (plan && is_cancelled(*plan)) return cancelled();
  const std::string log = plan ? plan->errors + plan->output : std::string();
  std::string here = variable_in(log, "_HERE_"), cicc = variable_in(log, "CICC_PATH");
  if (here.empty()) here = path->substr(0, path->rfind('/'));
  if (cicc.empty()) cicc = here + "/../nvvm/bin";
  for (const std::string& part : {here + "/nvcc", here + "/ptxas", cicc + "/cicc"}) {
    if (part != *path && base::find_executable(part, {})) nvcc->parts_.push_back(part);
  }
  return CudaNvccRef(std::move(nvcc));
}

std::string CudaNvcc::identity() const {
  base::Hasher hasher;
  hasher.add(base::digest_of(said_));
  for (const std::string& file : parts_) {
    const auto bytes = base::read_file(file, largest_part);
    if (!bytes) return {};
    hasher.add(base::digest_of(*bytes));
  }
  return hasher.digest().hex();
}

std::vector<std::string> CudaNvcc::arguments(const CudaJob& job) {
  std::vector<std::string> all{"--expt-relaxed-constexpr", "--ptxas-options=-v"};
  for (const std::string& flag : job.flags) {
    if (flag != "--device-as-default-execution-space") all.push_back(flag);  // NVRTC's own; our sources say __device__
  }
  return all;
}

Result<CudaOutput> CudaNvcc::compile(const CudaJob& job, const CudaCompileOptions& options) const {
  const std::string name = version_text_of("nvcc", version_);
  const FailedCuda failed{name, path_, job, options};
  CODETTA_TRY(const WorkFolder folder, folder_for(job.label));
  const std::string source(nvrtc_source_name);
  auto written = write_headers(folder.path(), included_headers(job.source, job.headers));
  if (written) written = write_work_file(folder.path() + "/" + source, job.source);
  if (!written) return folder_failed(job.label, written.error(), {folder.path()});

  CudaOutput output;
  const auto run = [&](const char* what, const std::string& result) -> Result<std::string> {
    std::vector<std::string> given = arguments(job);
    for (const std::string& word : {std::string(what), "-I" + folder.path(), std::string("-o"), result, source})
      given.push_back(word);
    base::ProcessRequest request = request_for(options_, path_, std::move(given), folder.path());
    request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.001) * 1000));
    const auto ran = base::run_process(request);
    const HostCompiler none{};
    const CompileJob described{job.source, job.flags, job.label};
    CompileOptions how;
    how.keep_dir = options.keep_dir;
    const FailedRun process{none, described, how, path_, request.arguments, folder.path()};
    if (!ran) return start_failed(process, ran.error());
    output.seconds += ran->seconds;
    if (output.log.empty()) output.log = base::trim(without(ran->errors + ran->output, folder.path() + "/"));
    if (ran->success()) {
      auto bytes = base::read_file(folder.path() + "/" + result, largest_cubin);
      if (!bytes || bytes->empty()) return cuda_failed(failed, "it made no binary", output.log);
      return *std::move(bytes);
    }
    if (ran->end == base::ProcessEnd::TimedOut) return cuda_timed_out(failed, ran->seconds);
    if (ran->end != base::ProcessEnd::Exited || says_crashed(ran->errors) || says_no_room(ran->errors))
      return run_failed(process, *ran);
    if (refuses_architecture(output.log)) return cuda_architecture_unknown(failed, "others: " + output.log);
    if (lacks_host_compiler(output.log)) {
      return diag::error(diag::Code::compiler_missing, "nvcc has no host compiler that it can use")
          .in_file(path_)
          .reason(fmt::format("{}: {}", ran->summary(), output.log.substr(0, 300)))
          .help("install a C++ compiler that this CUDA toolkit takes (g++), where the search path leads");
    }
    return cuda_rejected(failed, output.log);
  };
  CODETTA_TRY(output.cubin, run("-cubin", "kernel.cubin"));
  if (job.want_ptx) {
    CODETTA_TRY(output.ptx, run("-ptx", "kernel.ptx"));
  }
  output.remarks = parse_ptxas_remarks(output.log);
  return output;
}

std::vector<Result<CudaOutput>> compile_all(const CudaNvcc& nvcc, const std::vector<CudaJob>& jobs,
                                            const CudaCompileOptions& options, int parallel) {
  std::vector<std::optional<Result<CudaOutput>>> made(jobs.size());
  run_jobs(jobs.size(), parallel, [&](size_t i) { made[i] = nvcc.compile(jobs[i], options); });
  std::vector<Result<CudaOutput>> results;
  results.reserve(jobs.size());
  for (auto& one : made) results.push_back(*std::move(one));
  return results;
}

}  // namespace codetta::toolchain
