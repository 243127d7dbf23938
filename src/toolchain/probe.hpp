// SPDX-License-Identifier: Apache-2.0
// Private to the room: asking a compiler what it is, and remembering the answer by the stat data of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

// Facts of a file that change when its content does.
struct FileStamp {
  std::string path;
  int64_t size = 0;
  int64_t modified_ns = 0;
  uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};
std::optional<FileStamp> stamp_of(const std::string& path);  // follows links; nullopt when it isn't a regular file

// What probing learns: the compiler, the architecture it compiles for, and the files that its identity was taken from.
struct Probe {
  HostCompiler compiler;
  std::string architecture;  // "x86_64", "aarch64", "" = another one
  std::vector<FileStamp> files;
};

// What is wrong with a compiler.
struct Refusal {
  std::string reason;
  bool timed_out = false;  // it was ended before it had said what it is
};

// Runs the compiler with some arguments, bounded by the options' timeout and cancel flag; nullopt when it fails.
std::optional<base::ProcessResult> ask(const std::string& path, std::vector<std::string> arguments,
                                       const std::string& search_path, const FindOptions& options, Refusal& refusal);
// Asks the compiler what it is (three or four short processes).
std::optional<Probe> probe(const std::string& path, const std::string& search_path, const FindOptions& options,
                           Refusal& refusal);
// Whether the options' cancel flag is set: then not all was asked.
bool is_cancelled(const FindOptions& options);
// E0510 of a search that was; `what` was looked for.
Error search_cancelled(const std::string& what);
// E0505 of a compiler that was ended so.
diag::ErrorBuilder said_too_late(const std::string& headline, const Refusal& refusal);

// The memo of an earlier probe; nullopt when there is none, it is damaged, or any of its files has changed.
std::optional<Probe> recall_probe(const std::string& memo_dir, const std::string& path);
// Failing to is no failure.
void remember_probe(const std::string& memo_dir, const Probe& probe);

// The scrubbed environment of every child: the folders it may find tools in, English messages, where temporaries go.
std::vector<std::string> child_environment(const std::string& search_path, const std::string& temporary_dir);

}  // namespace codetta::toolchain
