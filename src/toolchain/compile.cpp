// SPDX-License-Identifier: Apache-2.0
// Compiling one source: the source on stdin, the object in a private temporary folder.
#include "toolchain/compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/process.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/probe.hpp"
#include "toolchain/work_folder.hpp"

namespace codetta::toolchain {

namespace {

constexpr size_t max_object_bytes = size_t{256} << 20;
constexpr size_t max_assembly_bytes = size_t{64} << 20;

using Arguments = std::vector<std::string>;

// Whatever may change the floating point mode of the thread that loads the object, or the meaning of NaN and infinity.
constexpr std::array<std::string_view, 4> forbidden_flags = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations",
                                                             "-ffinite-math-only"};

// What is undefined (memcpy, expf) is found in the process that loads the object; jobs say so by -nostdlib. libgcc's
// own helpers (conversions of 16-bit floats) are not there and are linked in.
Arguments link_arguments(const HostCompiler& compiler) {
#if defined(__linux__)
  if (compiler.kind == CompilerKind::Clang && !compiler.linker.empty()) {
    return {"-shared", "--build-id=none", "--hash-style=gnu", "-O0", "-Bsymbolic", "-z", "noexecstack"};
  }
  return {"-shared", "-Wl,--build-id=none,--hash-style=gnu,-O0,-Bsymbolic,-z,noexecstack"};
#else
  (void)compiler;
  return {"-shared"};
#endif
}

Result<WorkFolder> make_folder(const std::string& label, const CompileOptions& options) {
  // Memory first: nothing of this needs to survive.
  WorkFolderWish wish{label, "codetta-cc-", {"/dev/shm", "/tmp", "/var/tmp"}, options.sweep};
  if (!options.work_dir.empty()) wish.parents = {options.work_dir};
  return make_work_folder(wish);
}

Result<base::ProcessResult> run(const std::string& program, Arguments arguments, const HostCompiler& compiler,
                                const CompileJob& job, const CompileOptions& options, const std::string& folder,
                                bool with_source, const std::atomic<bool>* cancel) {
  base::ProcessRequest request;
  request.program = program;
  request.arguments = std::move(arguments);
  request.environment = child_environment(compiler.search_path, folder);
  if (with_source) request.input = job.source;
  request.max_output_bytes = max_assembly_bytes;
  request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.001) * 1000));
  request.cancel = cancel;
  auto ran = base::run_process(request);
  const FailedRun failed{compiler, job, options, program, request.arguments, folder};
  if (!ran) return start_failed(failed, ran.error());
  if (!ran->success()) return run_failed(failed, *ran);
  return std::move(*ran);
}

}  // namespace

// Unique symbols would keep an object from being unloaded.
std::vector<std::string> code_arguments(const HostCompiler& compiler, const std::vector<std::string>& flags) {
  Arguments all{"-fPIC", "-fno-lto"};
  if (compiler.kind == CompilerKind::Gcc) {
    all.insert(all.end(), {"-pipe", "-fno-gnu-unique", "-fdiagnostics-color=never", "-fno-diagnostics-show-caret"});
  } else {
    all.insert(all.end(), {"-fno-color-diagnostics", "-fno-caret-diagnostics"});
  }
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

Result<void> check_flags(const CompileJob& job) {
  for (const std::string& flag : job.flags) {
    if (std::find(forbidden_flags.begin(), forbidden_flags.end(), flag) == forbidden_flags.end()) continue;
    return diag::error(diag::Code::internal, fmt::format("{} is among the flags of '{}'", flag, job.label))
        .reason("it changes what NaN, infinity and subnormal numbers do, for the whole thread that loads the kernel")
        .help("name the single permissions instead, such as -fno-math-errno");
  }
  return {};
}

std::vector<std::string> compile_arguments(const HostCompiler& compiler, const std::vector<std::string>& flags) {
  Arguments all = code_arguments(compiler, flags);
  const Arguments link = link_arguments(compiler);
  all.insert(all.end(), link.begin(), link.end());
  return all;
}

Result<CompileOutput> compile_cancellable(const HostCompiler& compiler, const CompileJob& job,
                                          const CompileOptions& options, const std::atomic<bool>* cancel) {
  CODETTA_CHECK_OK(check_flags(job));
  CODETTA_TRY(const WorkFolder folder, make_folder(job.label, options));
  const std::string object = folder.path() + "/kernel.so";
  const std::string unlinked = folder.path() + "/kernel.o";
  // A driver that also links runs the compiler proper as a process of its own, which costs Clang a second start.
  const bool link_apart = !compiler.linker.empty();

  Arguments arguments = code_arguments(compiler, job.flags);
  Arguments link = link_arguments(compiler);
  if (link_apart) {
    arguments.insert(arguments.end(), {"-c", "-o", unlinked, "-x", "c++", "-"});
    link.insert(link.end(), {"-o", object, unlinked});
    if (!compiler.runtime.empty()) link.push_back(compiler.runtime);
  } else {
    arguments.insert(arguments.end(), link.begin(), link.end());
    arguments.insert(arguments.end(), {"-o", object, "-x", "c++", "-"});
#if defined(__linux__)
    arguments.insert(arguments.end(), {"-x", "none", "-lgcc"});
#endif
  }
  CODETTA_TRY(base::ProcessResult ran,
              run(compiler.path, arguments, compiler, job, options, folder.path(), true, cancel));
  CompileOutput output;
  output.log = std::move(ran.errors);
  output.seconds = ran.seconds;
  if (link_apart) {
    CODETTA_TRY(const base::ProcessResult linked,
                run(compiler.linker, link, compiler, job, options, folder.path(), false, cancel));
    output.log += linked.errors;
    output.seconds += linked.seconds;
  }
  auto bytes = base::read_file(object, max_object_bytes);
  if (!bytes || bytes->empty()) {
    const FailedRun failed{compiler, job, options, compiler.path, arguments, folder.path()};
    return no_object(failed, bytes ? "the file is empty" : bytes.error().message());
  }
  output.object = std::move(*bytes);
  return output;
}

Result<CompileOutput> compile(const HostCompiler& compiler, const CompileJob& job, const CompileOptions& options) {
  return compile_cancellable(compiler, job, options, options.cancel);
}

Result<std::string> assembly(const HostCompiler& compiler, const CompileJob& job, const CompileOptions& options) {
  CODETTA_CHECK_OK(check_flags(job));
  CODETTA_TRY(const WorkFolder folder, make_folder(job.label, options));
  Arguments arguments = code_arguments(compiler, job.flags);
  arguments.insert(arguments.end(), {"-S", "-o", "-", "-x", "c++", "-"});
  CODETTA_TRY(base::ProcessResult ran,
              run(compiler.path, arguments, compiler, job, options, folder.path(), true, options.cancel));
  return std::move(ran.output);
}

}  // namespace codetta::toolchain
