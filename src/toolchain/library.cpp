// SPDX-License-Identifier: Apache-2.0
#include "toolchain/library.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/probe.hpp"

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
      if (!written) return folder_failed(job_.name, written.error().message(), {folder_});
    }
    return {};
  }

  Result<void> compile(int parallel, const std::function<void(size_t, size_t)>& progress) {
    const size_t wanted = std::min(static_cast<size_t>(std::max(parallel, 1)), job_.units.size());
    std::vector<std::thread> threads;
    running_ = wanted;
    for (size_t i = 0; i < wanted; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error&) {  // no more threads; the others do the work
        const std::lock_guard lock(mutex_);
        running_ -= wanted - i;
        break;
      }
    }
    if (threads.empty()) {
      running_ = 1;
      work();
    }
    {
      std::unique_lock lock(mutex_);
      for (size_t told = 0; running_ != 0 || told != done_;) {
        if (running_ != 0 && told == done_) changed_.wait(lock);
        if (told == done_) continue;
        told = done_;
        lock.unlock();
        if (progress) progress(told, job_.units.size());
        lock.lock();
      }
    }
    for (std::thread& thread : threads) thread.join();
    for (auto& result : results_) {
      if (!*result) return std::move(*result).error();
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
    if (!ran || !ran->success()) {
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
    if (!bytes) return folder_failed(job_.name, bytes.error().message(), {folder_});
    output.bytes = std::move(*bytes);
    output.seconds = ran->seconds;
    for (size_t i = 0; i < results_.size(); ++i) {
      output.unit_seconds.emplace_back(job_.units[i].label, **results_[i]);
      output.seconds += **results_[i];
    }
    return output;
  }

 private:
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
    request.arguments = {"-fPIC", "-fno-lto"};
    if (compiler_.kind == CompilerKind::Gcc) {
      request.arguments.insert(request.arguments.end(), {"-pipe", "-fno-gnu-unique", "-fdiagnostics-color=never",
                                                         "-fno-diagnostics-show-caret"});
    } else {
      request.arguments.insert(request.arguments.end(), {"-fno-color-diagnostics", "-fno-caret-diagnostics"});
    }
    request.arguments.insert(request.arguments.end(), unit.flags.begin(), unit.flags.end());
    request.arguments.insert(request.arguments.end(), {"-I.", "-c", "-o", object_of(index), "-x", "c++", "-"});
    const auto ran = base::run_process(request);
    const FailedRun failed{compiler_, unit, options_, request.program, request.arguments, folder_};
    if (!ran) return start_failed(failed, ran.error().message());
    if (!ran->success()) return run_failed(failed, *ran);
    return ran->seconds;
  }

  void work() {
    for (size_t i = next_++; i < job_.units.size(); i = next_++) {
      results_[i] = failed_ ? Result<double>(cancelled_before_start(job_.units[i])) : compile_unit(i);
      if (!*results_[i]) failed_ = true;
      const std::lock_guard lock(mutex_);
      ++done_;
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  const HostCompiler& compiler_;
  const LibraryJob& job_;
  const CompileOptions& options_;
  std::string folder_;
  std::vector<std::optional<Result<double>>> results_;  // seconds
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t running_ = 0, done_ = 0;
};

}  // namespace

Result<LibraryOutput> build_library(const HostCompiler& compiler, const LibraryJob& job, const CompileOptions& options,
                                    int parallel, const std::function<void(size_t done, size_t all)>& progress) {
  // On disk first: what the library carries may be large.
  std::vector<std::string> parents{options.work_dir};
  if (options.work_dir.empty()) parents = {"/tmp", "/var/tmp", "/dev/shm"};
  std::optional<base::TemporaryDirectory> folder;
  std::string why;
  for (const std::string& parent : parents) {
    auto made = base::TemporaryDirectory::make(parent, "codetta-build-");
    if (!made) {
      why = made.error().message();
      continue;
    }
    folder.emplace(std::move(*made));
    break;
  }
  if (!folder) return folder_failed(job.name, why, parents);
  LibraryJob all = job;
  all.files.push_back({"exports.map", job.exports});
  LibraryBuild build(compiler, all, options, folder->path());
  CODETTA_CHECK_OK(build.write_files());
  CODETTA_CHECK_OK(build.compile(parallel, progress));
  return build.link();
}

}  // namespace codetta::toolchain
