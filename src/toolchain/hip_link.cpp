// SPDX-License-Identifier: Apache-2.0
#include "toolchain/hip_link.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/probe.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {
namespace {

// LLVM's heap in few large pages, where the C library is glibc: 3 to 7 % of a compile are faults and calls otherwise.
constexpr std::string_view large_pages =
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432:glibc.malloc.mmap_threshold=1073741824";

std::string code_object_in(const WorkFolder& folder) { return folder.path() + "/kernel.hsaco"; }

}  // namespace

Result<base::ProcessResult> run_hip_tool(const std::string& program, std::vector<std::string> arguments,
                                         const HostCompiler& clang, const HipJob& job, const CompileOptions& options,
                                         const WorkFolder& folder, base::ProcessRequest request) {
  request.program = program;
  request.arguments = std::move(arguments);
  // Headers are looked for beside the source first, which for one on stdin is the working directory.
  request.working_directory = folder.path();
  request.environment = child_environment(clang.search_path, folder.path());
  request.environment.emplace_back(large_pages);
  request.max_output_bytes = size_t{64} << 20;
  request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.001) * 1000));
  request.cancel = options.cancel;
  auto ran = base::run_process(request);
  const CompileJob described{job.source, job.flags, job.label};
  const FailedRun failed{clang, described, options, program, request.arguments, folder.path()};
  if (!ran) return start_failed(failed, ran.error());
  if (!ran->success()) return run_failed(failed, *ran);
  return std::move(*ran);
}

HipLinker::HipLinker(const HostCompiler& clang, std::span<const HipJob> parts, const CompileOptions& options,
                     const WorkFolder& folder)
    : clang_(clang),
      parts_(parts),
      options_(options),
      folder_(folder),
      arguments_{"-flavor",        "gnu",     "-m", "elf64_amdgpu",        "--threads=1",
                 "--no-undefined", "-shared", "-o", code_object_in(folder)},
      objects_(parts.size()),
      missing_(parts.size()) {
  for (size_t i = 0; i < parts.size(); ++i) arguments_.push_back(object_of(i));
  // What several parts have alike (constants, Clang's own symbol) is taken once.
  if (parts.size() > 1) arguments_.insert(arguments_.end(), {"-z", "muldefs"});
  // Beside one compiler there is a processor for its start; beside two, when one of them has done its part.
  if (parts.size() == 1) start();
}

HipLinker::~HipLinker() {
  if (gate_) gate_->open();
}

std::string HipLinker::object_of(size_t part) const { return fmt::format("{}/kernel{}.o", folder_.path(), part); }

// At most once.
void HipLinker::start() {
  auto gate = base::Gate::make();
  if (!gate) return;
  gate_.emplace(*std::move(gate));
  waiting_ = start_job([this, caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == caller) return;  // there are no more threads
    base::ProcessRequest request;
    request.gate = &*gate_;
    auto arguments = arguments_;
    arguments.emplace_back("@/dev/stdin");  // more arguments, which are none when the gate opens
    CompileOptions how = options_;
    how.timeout_seconds *= 2;  // it waits as long as compilers may take
    how.keep_dir.clear();
    ran_ = run_hip_tool(clang_.linker, std::move(arguments), clang_, parts_.front(), how, folder_, std::move(request));
  });
}

Result<void> HipLinker::write_objects() {
  for (size_t i = 1; i < objects_.size(); ++i) {
    if (!join_metadata(objects_[0], objects_[i])) {
      return diag::error(diag::Code::compiler_failed, "the parts of '" + parts_[i].label + "' can not be joined")
          .reason("they are no objects with metadata of kernels")
          .help("check that the compiler is Clang 19 or later");
    }
  }
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (auto written = write_work_file(object_of(i), objects_[i]); !written)
      return folder_failed(parts_[i].label, written.error(), {folder_.path()});
  }
  return {};
}

void HipLinker::add(size_t part, std::string object) {
  const std::lock_guard lock(mutex_);
  if (!objects_[part].empty() || object.empty()) return;
  objects_[part] = std::move(object);
  if (parts_.size() > 1 && missing_ == parts_.size()) start();
  if (--missing_ > 0) return;
  written_ = write_objects();
  if (gate_) gate_->open();
}

Result<HipOutput> HipLinker::link() {
  if (gate_) gate_->open();
  if (waiting_.joinable()) waiting_.join();
  CODETTA_CHECK_OK(std::move(written_));
  const HipJob& job = parts_.front();
  // What fails is run once more, the ordinary way, for it may be the waiting that failed.
  if (!ran_ || !*ran_) ran_ = run_hip_tool(clang_.linker, arguments_, clang_, job, options_, folder_);
  CODETTA_TRY(const base::ProcessResult linked, *std::move(ran_));
  auto bytes = base::read_file(code_object_in(folder_), largest_hip_object);
  if (!bytes || bytes->empty()) {
    const CompileJob described{job.source, job.flags, job.label};
    return no_object({clang_, described, options_, clang_.linker, arguments_, folder_.path()},
                     bytes ? "the file is empty" : bytes.error().message());
  }
  HipOutput output;
  output.object = std::move(*bytes);
  output.log = linked.errors;
  return output;
}

}  // namespace codetta::toolchain
