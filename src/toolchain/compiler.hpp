// SPDX-License-Identifier: Apache-2.0
// The host C++ compiler: finding it, identifying it by content, and driving it on self-contained sources.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"

namespace codetta::toolchain {

enum class CompilerKind : uint8_t { Gcc, Clang };

// A found compiler. Immutable; compile() may be called from several threads.
struct HostCompiler {
  std::string path;  // absolute
  CompilerKind kind = CompilerKind::Gcc;
  int major = 0;
  std::string version;   // first line of --version
  std::string identity;  // content digest of the driver and of cc1plus (GCC) or the driver's real binary (Clang)
  std::string
      linker;  // absolute; called directly after Clang, whose driver costs 20 ms more when it links; "" = by the driver
  std::string runtime;      // the compiler's own static library, for that linker; "" = none
  std::string search_path;  // where the compiler may look for its own tools (absolute folders of FindOptions::path)
};

struct FindOptions {
  std::string wanted;                         // "", a name, or an absolute path
  std::string path;                           // PATH to search (the library reads no environment)
  std::string memo_dir;                       // where the identity is memoised by path, size, mtime, inode; "" = not
  const std::atomic<bool>* cancel = nullptr;  // polled while a compiler is asked what it is
  double timeout_seconds = 60;                // of one such run
};
// Errors: E0501 none found (says what was looked for and where), E0502 too old or not working, E0505 timeout where none
// was usable, E0510 cancelled.
Result<HostCompiler> find_host_compiler(const FindOptions& options);

struct CompileJob {
  std::string source;              // complete; no includes
  std::vector<std::string> flags;  // language, target, optimization, libraries; -shared -fPIC -x c++ are added here
  std::string label;               // for messages: the kernel's name
};
struct CompileOutput {
  std::string object;  // bytes of the shared object
  std::string log;     // what the compiler said
  double seconds = 0;
};
struct CompileOptions {
  double timeout_seconds = 60;
  std::string work_dir;  // where temporaries go, in a private folder each; "" = /dev/shm, /tmp or /var/tmp
  std::string keep_dir;  // where the source of a failed compile is kept; the error names the file
  // When it becomes true a compile ends within about 20 ms, with E0510.
  const std::atomic<bool>* cancel = nullptr;
  bool sweep = false;  // first removes the folders beside its own that killed processes have left
};
// All arguments of a compile but the input and the output file: the job's flags with those added here. Part of a cache
// key.
std::vector<std::string> compile_arguments(const HostCompiler& compiler, const std::vector<std::string>& flags);
// Compiles one source. Errors: E0504 the compiler rejected it (its message parsed, mapped, with the path of the kept
// source), E0313 instead where the mistake is in a kernel of the user's, E0505 timeout, E0506 it crashed or could not
// be started, E0507 no room or no permission for temporaries.
Result<CompileOutput> compile(const HostCompiler& compiler, const CompileJob& job, const CompileOptions& options);
// Several sources in up to `parallel` processes; results in job order. `cancelled` and options.cancel are polled every
// 10 ms by the calling thread only; jobs that were running or waiting then end with E0510.
std::vector<Result<CompileOutput>> compile_all(const HostCompiler& compiler, const std::vector<CompileJob>& jobs,
                                               const CompileOptions& options, int parallel,
                                               bool (*cancelled)(void*) = nullptr, void* context = nullptr);
// Assembly text of a source (for emit --what=asm).
Result<std::string> assembly(const HostCompiler& compiler, const CompileJob& job, const CompileOptions& options);

}  // namespace codetta::toolchain
