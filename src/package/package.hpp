// SPDX-License-Identifier: Apache-2.0
// Package: everything that execution needs and nothing of the IR. The compiler fills it, the executor reads it; the
// cache and ahead-of-time builds store it. Immutable once made; shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"
#include "package/epilogue_program.hpp"
#include "package/kernel_config.hpp"
#include "types/dim.hpp"

namespace codetta::package {

inline constexpr uint32_t package_format = 2;

// A tensor or scalar that lives during a run. Sizes are expressions over the package's symbols.
struct Buffer {
  enum class Role : uint8_t { Argument, Output, Temporary, Constant };
  std::string name;
  Role role = Role::Argument;
  DType dtype = DType::f32;
  bool is_scalar = false;
  std::vector<Dim> shape;
  std::string constant;  // bytes of a Constant, row-major
  bool operator==(const Buffer&) const = default;
};

// Facts that the code relies on; checked at every run before anything is written. A failing guard is E0610 with the
// offending value.
struct EqualGuard {  // left == right
  Dim left, right;
  std::string why;
  bool operator==(const EqualGuard&) const = default;
};
struct UnitStrideGuard {  // the buffer's last dim has stride 1 (or size <= 1)
  uint32_t buffer = 0;
  bool operator==(const UnitStrideGuard&) const = default;
};
struct NoOverlapGuard {  // the output shares no byte with the other buffer, unless they are the identical view and
                         // in_place_ok
  uint32_t output = 0, other = 0;
  bool in_place_ok = false;  // other is read only at the element written
  bool operator==(const NoOverlapGuard&) const = default;
};
using Guard = std::variant<EqualGuard, UnitStrideGuard, NoOverlapGuard>;

// One kernel: a GEMM configuration, its epilogue as tape and as source, and the compiled binary if there is one.
struct Kernel {
  std::string name;  // codetta_<ops>_<8 hex>, stable
  KernelConfig config;
  EpilogueProgram epilogue;
  std::string source;  // complete emitted source; empty for an epilogue that the engine stores itself (plain D = accum)
  std::vector<std::string> gcc_flags, clang_flags;  // CPU: for the source, by compiler
  std::string symbol;                               // CPU: entry point in the binary
  std::vector<std::string> nvrtc_flags;             // CUDA: for the source, the architecture included
  std::vector<CudaEntry> entries;                   // CUDA: in launch order, the product first
  std::vector<CudaTensorMap> maps;                  // CUDA: in the order of Params::map
  std::string binary;                               // CPU: shared object, empty: the tape is interpreted. CUDA: cubin
  bool operator==(const Kernel&) const = default;
};

// Host steps: a closed set, executed in order; every consumer handles every kind.
struct DefineSymbol {  // symbol = size of dim `dim` of buffer `buffer`; checked against later definitions of the same
                       // symbol
  std::string symbol;
  uint32_t buffer = 0;
  int32_t dim = 0;
  bool operator==(const DefineSymbol&) const = default;
};
struct Check {
  Guard guard;
  bool operator==(const Check&) const = default;
};
struct Allocate {  // a Temporary at `offset` bytes in the workspace (planned by lifetime)
  uint32_t buffer = 0;
  Dim offset = Dim::constant(0);
  bool operator==(const Allocate&) const = default;
};
struct Free {
  uint32_t buffer = 0;
  bool operator==(const Free&) const = default;
};
struct LaunchKernel {
  uint32_t kernel = 0;
  uint32_t a = 0, b = 0;  // buffers
  bool a_transposed = false, b_transposed = false;
  Dim batch = Dim::constant(1), m = Dim::constant(0), n = Dim::constant(0), k = Dim::constant(0);
  std::vector<uint32_t> arguments;  // buffer of each EpilogueProgram argument
  bool operator==(const LaunchKernel&) const = default;
};
struct Comment {
  std::string text;
  bool operator==(const Comment&) const = default;
};
struct Return {
  bool operator==(const Return&) const = default;
};
using Step = std::variant<DefineSymbol, Check, Allocate, Free, LaunchKernel, Comment, Return>;

struct Package {
  std::string name;
  Target target;
  std::vector<Buffer> buffers;  // arguments in declared order, then outputs, then temporaries and constants
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  std::string build_id;  // of the libcodetta that made it
  bool operator==(const Package&) const = default;

  // Versioned file form; decode() treats the bytes as untrusted: sizes are checked before anything is allocated
  // (E0520).
  [[nodiscard]] std::string encode() const;
  static Result<Package> decode(std::string_view bytes);
  // JSON for people and tools: buffers, kernels, steps; without binaries.
  [[nodiscard]] std::string manifest_json() const;
};
using PackageRef = std::shared_ptr<const Package>;

}  // namespace codetta::package
