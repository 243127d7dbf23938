// SPDX-License-Identifier: Apache-2.0
// Private to the room: lld behind Clang. It takes longer to start than to link, and Clang takes as long to end as it
// does to link: it is started ahead, and given the objects when Clang has written them.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/process.hpp"
#include "toolchain/hip_clang.hpp"
#include "toolchain/work_folder.hpp"

namespace codetta::toolchain {

inline constexpr size_t largest_hip_object = size_t{256} << 20;

// Clang or lld, in the job's folder. `request`: what it reads, and what it writes besides its output. Errors: those of
// compile_hip.
Result<base::ProcessResult> run_hip_tool(const std::string& program, std::vector<std::string> arguments,
                                         const HostCompiler& clang, const HipJob& job, const CompileOptions& options,
                                         const WorkFolder& folder, base::ProcessRequest request = {});

// Makes the code object of a kernel's parts in a folder. What is given has to outlive it.
class HipLinker {
 public:
  HipLinker(const HostCompiler& clang, std::span<const HipJob> parts, const CompileOptions& options,
            const WorkFolder& folder);
  HipLinker(const HipLinker&) = delete;
  HipLinker& operator=(const HipLinker&) = delete;
  ~HipLinker();  // ends lld, where it waits

  // The object of a part; only its first one counts. From any thread.
  void add(size_t part, std::string object);
  // When all compilers have succeeded: the code object, and what lld said. Errors: E0506 parts that can not be joined,
  // lld's failures, nothing made; E0507 no room for the objects.
  Result<HipOutput> link();

 private:
  [[nodiscard]] std::string object_of(size_t part) const;
  Result<void> write_objects();
  void start();

  const HostCompiler& clang_;
  std::span<const HipJob> parts_;
  const CompileOptions& options_;
  const WorkFolder& folder_;
  std::vector<std::string> arguments_;

  std::mutex mutex_;
  std::vector<std::string> objects_;
  size_t missing_;
  Result<void> written_;
  std::optional<base::Gate> gate_;  // the linker waits behind it
  std::optional<Result<base::ProcessResult>> ran_;
  std::jthread waiting_;
};

}  // namespace codetta::toolchain
