// SPDX-License-Identifier: Apache-2.0
// Package: everything that execution needs and nothing of the IR. The compiler fills it, the executor reads it; the
// cache and ahead-of-time builds store it. Immutable once made; shared between threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"
#include "package/step.hpp"
#include "types/dim.hpp"

namespace codetta::package {

inline constexpr uint32_t package_format = 11;

// A tensor or scalar that lives during a run. Sizes are expressions over the package's symbols.
struct Buffer {
  enum class Role : uint8_t { Argument, Output, Temporary, Constant };
  std::string name;
  Role role = Role::Argument;
  DType dtype = DType::f32;
  bool is_scalar = false;
  std::vector<Dim> shape;
  std::string constant;  // bytes of a Constant, row-major; empty for an external one
  // Strides in elements, one a dim; empty: row-major. Temporaries only. Every element lies at or behind the first.
  std::vector<Dim> strides{};
  Dim offset{};  // of a view made by Reinterpret, in bytes from the source's first element
  // Of such a view that is a slice: where it begins in each dim of its source, which has as many. It lies as that does,
  // whatever its strides are, so that strides and offset say nothing. Empty: it is none.
  std::vector<Dim> begin{};
  uint32_t device = 0;     // of the package's devices
  int64_t alignment = 64;  // of a Temporary's memory, in bytes: a power of two
  std::string external{};  // Constant: its name in the weights file
  bool donated = false;    // Argument: the caller gives its memory up, so that it may be written and reused
  // Output: the part that a run fills, from the first element on, where the shape is the room that the caller gives for
  // it; its sizes are known when the run ends, and told then. Empty: all of it.
  std::vector<Dim> filled{};
  bool operator==(const Buffer&) const = default;
};

// One kernel: a GEMM configuration, its epilogue as tape and as source, and the compiled binary if there is one.
struct Kernel {
  std::string name;  // codetta_<ops>_<8 hex>, stable
  KernelConfig config;
  EpilogueProgram epilogue;
  std::string source;  // complete emitted source; empty for an epilogue that the engine stores itself (plain D = accum)
  std::vector<std::string> gcc_flags, clang_flags;  // CPU: for the source, by compiler
  std::string symbol;                               // CPU: entry point in the binary
  std::vector<std::string> nvrtc_flags;             // GPUs: for the source, the architecture included
  std::vector<GpuEntry> entries;                    // CUDA: in launch order
  std::vector<CudaTensorMap> maps;                  // CUDA: in the order of Params::map
  std::string binary;                               // CPU: shared object, empty: the tape is interpreted. CUDA: cubin
  bool operator==(const Kernel&) const = default;
};

// Memory that the planner places Temporaries in. `bytes` depends on symbols that are defined before the first
// AllocateFromPool of this pool.
struct Pool {
  uint32_t device = 0;
  Dim bytes;
  int64_t alignment = 64;  // a power of two, no less than that of any buffer within
  bool operator==(const Pool&) const = default;
};

struct Package {
  std::string name;
  Target target;
  std::vector<Buffer> buffers;  // arguments in declared order, then outputs, then temporaries and constants
  std::vector<Kernel> kernels;
  StepList steps;
  std::vector<StepList> step_lists;  // children of If and While; each has exactly one parent
  std::vector<Pool> pools;
  uint32_t device_count = 1;  // of the target's kind
  uint32_t stream_count = 1;  // stream 0 is the caller's
  uint32_t event_count = 0;
  uint32_t result_count = 0;  // results of alloc-form CallExtern
  std::string build_id;       // of the libcodetta that made it
  bool operator==(const Package&) const = default;

  // Versioned file form; decode() treats the bytes as untrusted: sizes are checked before anything is allocated, and
  // what is read has no defect (E0520).
  [[nodiscard]] std::string encode() const;
  static Result<Package> decode(std::string_view bytes);
  // JSON for people and tools: buffers, kernels, steps; without binaries.
  [[nodiscard]] std::string manifest_json() const;
};
using PackageRef = std::shared_ptr<const Package>;

// What is wrong with a package, if anything: "step 3 (free): t ...", "list 0, step 2 (copy): ...". Indices, dtypes and
// ranks that steps need; buffers allocated before use and not used behind their end; scopes balanced; symbols, events
// and results defined before use on every path; child lists in a tree; kernels for the target. Not: whether pool
// offsets overlap (plan's checker), and what depends on the values of symbols. Every consumer may rely on it. Linear in
// the package but for nesting, which max_step_depth bounds.
std::optional<std::string> find_defect(const Package& package);
inline constexpr int max_step_depth = 64;
// The same as a result: E0520.
Result<void> check(const Package& package);

// The steps for people, a line a step, children indented: deterministic, names as the package has them.
struct StepNames {
  std::function<std::string(uint32_t buffer)> buffer;
  std::function<std::string(uint32_t kernel)> kernel;
};
std::string line_of(const Step& step, const StepNames& names);
std::string list_steps(const StepList& steps, const std::vector<StepList>& children, const StepNames& names,
                       std::string_view indent = {});
std::string list_steps(const Package& package);

}  // namespace codetta::package
