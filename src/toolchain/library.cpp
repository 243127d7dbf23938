// SPDX-License-Identifier: Apache-2.0
#include "toolchain/library.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/compile.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/probe.hpp"
#include "toolchain/run_jobs.hpp"
#include "toolchain/undefined.hpp"
#include "toolchain/work_folder.hpp"

namespace codetta::toolchain {

namespace {

constexpr size_t max_linked_bytes = size_t{4} << 30;

// One library being built.
class LibraryBuild {
 public:
  LibraryBuild(const HostCompiler& compiler, const LibraryJob& job, const CompileOptions& options, std::string folder)
      : compiler_(compiler), job_(job), options_(options), folder_(std::move(folder)), results_(job.units.size()) {}

  Result<void> write_files() {
    for (const LibraryFile& file : job_.files) {
      for (size_t slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1))
        (void)::mkdir((folder_ + "/" + file.path.substr(0, slash)).c_str(), 0700);  // a failure shows below
      base::WriteOptions how;
      how.mode = 0600;
      how.sync = false;
      const auto written = base::write_file_atomically(folder_ + "/" + file.path, file.bytes, how);
      if (!written) return folder_failed(job_.name, written.error(), {folder_});
    }
    return {};
  }

  Result<void> compile(int parallel, const std::function<void(size_t, size_t)>& progress) {
    for (const CompileJob& unit : job_.units) CODETTA_CHECK_OK(check_flags(unit));
    std::atomic<size_t> done = 0;
    std::atomic<bool> failed = false;
    size_t told = 0;
    const auto unit = [&](size_t i) {
      if (failed) return;  // units are taken in order: those in front of what failed are compiled
      results_[i] = compile_unit(i);
      if (!*results_[i]) failed = true;
      ++done;
    };
    const auto tell = [&] {
      const size_t now = done;
      if (now != std::exchange(told, now)) progress(now, job_.units.size());
    };
    run_jobs(job_.units.size(), parallel, unit, progress ? std::function<void()>(tell) : std::function<void()>());
    for (auto& result : results_) {
      if (result && !*result) return std::move(*result).error();
    }
    return {};
  }

  Result<LibraryOutput> link() {
    base::ProcessRequest request = process(compiler_.path);
    request.arguments = {"-shared", "-o", "library.so"};
    for (size_t i = 0; i < job_.units.size(); ++i) request.arguments.push_back(object_of(i));
    request.arguments.emplace_back("-Wl,--start-group");
    request.arguments.insert(request.arguments.end(), job_.archives.begin(), job_.archives.end());
    for (const char* option :
         {"-Wl,--end-group", "-Wl,--version-script=exports.map", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL",
          "-Wl,-z,defs,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none", "-Wl,--hash-style=gnu", "-Wl,-s",
          "-Wl,--as-needed", "-pthread", "-ldl"})
      request.arguments.emplace_back(option);
    request.arguments.push_back("-Wl,-soname," + job_.name);
    const auto ran = base::run_process(request);
    if (ran && ran->end == base::ProcessEnd::Cancelled) {
      return diag::error(diag::Code::compile_cancelled, fmt::format("the link of {} was cancelled", job_.name))
          .reason(fmt::format("after {:.1f} s", ran->seconds))
          .help("start it again when you want it");
    }
    if (ran && ran->end == base::ProcessEnd::TimedOut) {
      return diag::error(diag::Code::compile_timeout, fmt::format("the linker did not finish {} in time", job_.name))
          .reason(fmt::format("{} {}; it and what it had started were ended", compiler_.path, ran->summary()))
          .help("raise the timeout, or free the machine");
    }
    if (!ran || !ran->success()) {
      if (const std::optional<Error> users = undefined_in_unit(ran)) return *users;
      auto error = diag::error(diag::Code::link_failed, fmt::format("the library {} could not be linked", job_.name));
      std::string why = ran ? std::string(base::trim(ran->errors)) : ran.error().message();
      if (why.size() > 1500) why = why.substr(0, 1500) + "...";
      return error.reason(ran ? fmt::format("{} ended with {}", compiler_.path, ran->summary()) : why)
          .note(why)
          .help(
              "look whether libcodetta_engine.a is of the build of this libcodetta, and which linker the compiler "
              "calls");
    }
    LibraryOutput output;
    auto bytes = base::read_file(folder_ + "/library.so", max_linked_bytes);
    if (!bytes) return folder_failed(job_.name, bytes.error(), {folder_});
    output.bytes = std::move(*bytes);
    output.seconds = ran->seconds;
    for (size_t i = 0; i < results_.size(); ++i) {
      output.unit_seconds.emplace_back(job_.units[i].label, **results_[i]);
      output.seconds += **results_[i];
    }
    return output;
  }

 private:
  // Where the linker looked for what a kernel of the user's calls.
  [[nodiscard]] std::optional<Error> undefined_in_unit(const base::Expected<base::ProcessResult>& ran) const {
    for (size_t i = 0; ran && i < job_.units.size(); ++i) {
      const CompileJob& unit = job_.units[i];
      if (ran->errors.find(object_of(i)) == std::string::npos) continue;
      std::vector<std::string_view> others;
      for (const CompileJob& other : job_.units) {
        if (&other != &unit) others.push_back(other.source);
      }
      const std::string said = fmt::format("{} ended with {}:\n{}", compiler_.path, ran->summary(),
                                           base::trim(std::string_view(ran->errors).substr(0, 1500)));
      if (auto undefined = undefined_in_users(unit.label, unit.source, ran->errors, said, others)) return undefined;
    }
    return std::nullopt;
  }

  [[nodiscard]] static std::string object_of(size_t unit) { return fmt::format("unit_{}.o", unit); }

  [[nodiscard]] base::ProcessRequest process(const std::string& program) const {
    base::ProcessRequest request;
    request.program = program;
    request.environment = child_environment(compiler_.search_path, folder_);
    request.working_directory = folder_;
    request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options_.timeout_seconds, 0.001) * 1000));
    request.cancel = options_.cancel;
    return request;
  }

  Result<double> compile_unit(size_t index) const {
    const CompileJob& unit = job_.units[index];
    base::ProcessRequest request = process(compiler_.path);
    request.input = unit.source;
    request.arguments = code_arguments(compiler_, unit.flags);
    request.arguments.insert(request.arguments.end(), {"-I.", "-c", "-o", object_of(index), "-x", "c++", "-"});
    const auto ran = base::run_process(request);
    const FailedRun failed{compiler_, unit, options_, request.program, request.arguments, folder_};
    if (!ran) return start_failed(failed, ran.error());
    if (!ran->success()) return run_failed(failed, *ran);
    return ran->seconds;
  }

  const HostCompiler& compiler_;
  const LibraryJob& job_;
  const CompileOptions& options_;
  std::string folder_;
  std::vector<std::optional<Result<double>>> results_;  // seconds; none: another unit had failed before
};

}  // namespace

Result<LibraryOutput> build_library(const HostCompiler& compiler, const LibraryJob& job, const CompileOptions& options,
                                    int parallel, const std::function<void(size_t done, size_t all)>& progress) {
  // On disk first: what the library carries may be large.
  WorkFolderWish wish{job.name, "codetta-build-", {"/tmp", "/var/tmp", "/dev/shm"}, true};
  if (!options.work_dir.empty()) wish.parents = {options.work_dir};
  CODETTA_TRY(const WorkFolder folder, make_work_folder(wish));
  LibraryJob all = job;
  all.files.push_back({"exports.map", job.exports});
  LibraryBuild build(compiler, all, options, folder.path());
  CODETTA_CHECK_OK(build.write_files());
  CODETTA_CHECK_OK(build.compile(parallel, progress));
  return build.link();
}

}  // namespace codetta::toolchain
