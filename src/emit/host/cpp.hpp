// SPDX-License-Identifier: Apache-2.0
// Packages as C++ host text and a C header: what `codetta build` compiles to a library without libcodetta. The text is
// for reading: the user's line before each launch, generator-made identifiers, the same bytes for the same input. For a
// CPU it is compiled against device/host/weights.h and linked with libcodetta_engine.a (device/host/engine.h); for a
// GPU against device/host/gpu.h and, for AMD's, hip.h, which load the driver.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"

namespace codetta::emit::host {

// A parameter that has its value when the library is built or loaded, and so is no argument of the function; or a
// constant of the program.
struct Constant {
  uint32_t buffer = 0;
  Dims shape;
  std::string symbol{};  // of its bytes in the library; empty: loaded
  std::string weight{};  // its name in the weights file, where it is loaded
  bool operator==(const Constant&) const = default;
};

// B of a launch in the form that its kernel reads best.
struct PackedFactor {
  size_t step = 0;       // of the LaunchKernel
  std::string symbol{};  // of its bytes in the library; empty: packed when the library starts
  int64_t bytes = 0;
  int64_t batch = 1;  // matrices
};

// The functions of a kernel, C linkage; all empty: the engine stores the accumulators itself.
struct KernelFunctions {
  std::string tiles{};  // an EpilogueFunction
  std::string fused{};  // a FusedFunction; `tiles` then serves products without elements
  std::string user{};   // of a kernel of the user's: a CodettaExtern
};

struct Program {
  std::string function;  // public; programs of one SizeTable have one
  package::PackageRef package;
  std::vector<std::string> origins{};        // by kernel: "classifier.py:4: hidden = relu(x @ w1 + b1)"
  std::map<uint32_t, std::string> told{};    // by buffer: what errors call it that look at its contents; else its name
  std::vector<KernelFunctions> functions{};  // by kernel
  // CPU, by kernel: those that take its place where elements of the last dim of a tensor of the caller's lie apart; all
  // empty: it takes them as it is. Without the list the program refuses such tensors.
  std::vector<KernelFunctions> apart{};
  std::vector<Constant> constants{};
  std::vector<PackedFactor> packed{};
  // GPU, by kernel: symbol of its compiled code in the library, or of its source (Library::headers).
  std::vector<std::string> images{};
  // Instead of images, where nvcc compiles the kernels beside the text: a function that asks the CUDA runtime for the
  // handle of an entry (nvcc.hpp).
  std::vector<std::string> registered{};
};

// One function as several programs, which differ in their kernels (and, from case to case, in what is fused): a call
// takes the program of the nearest sizes. Of two neighbours a size belongs to the nearer one as a ratio. Where that
// program's kernels rely on more alignment than the tensors of a call have, it takes another one.
struct SizeTable {
  struct Axis {
    std::string symbol;          // of the function's sizes
    std::vector<int64_t> sizes;  // ascending, each once
    std::vector<int64_t> up_to;  // of all but the last: the greatest size that belongs to it
  };
  size_t first = 0, count = 1;   // of Library::programs
  std::vector<Axis> axes;        // none: one program, whatever the sizes
  std::vector<size_t> chosen{};  // which of the `count`, by the places on the axes, the last axis fastest
  // By program of the `count`: the one that takes over, of which this holds likewise.
  std::vector<std::optional<size_t>> less_aligned{};
  // Of these: those for sizes of 0 alone, which the one before has to have refused; and those for tensors alone whose
  // leading dims are not evenly spaced.
  std::vector<size_t> when_empty{}, when_uneven{};
  [[nodiscard]] std::optional<size_t> takes_over(size_t program) const {
    return program < less_aligned.size() ? less_aligned[program] : std::nullopt;
  }
};

struct Library {
  std::string name;  // prefix of everything public
  std::vector<Program> programs;
  Target target;
  std::string version;         // of Codetta
  std::string weights_file{};  // name of the file beside the library that holds the weights; empty: there is none
  std::string carried_file{};  // Metal: of the one that holds what `Constant::symbol` names, as u8; likewise
  // CUDA, where images are sources that NVRTC compiles (device/host/gpu_nvrtc.h): symbol of the headers' bytes; else
  // empty.
  std::string headers{};
  bool checked = true;               // guards and overlaps are looked at in every call
  std::vector<SizeTable> by_size{};  // of functions with several programs
};

// Bumped when a function of the header changes its meaning; NAME_abi_version() returns it.
inline constexpr int library_abi = 1;

struct File {
  std::string name, text;
  [[nodiscard]] bool is_header() const { return name.ends_with(".h"); }  // included by others, by this name
};

// Names that cannot be public, steps that this backend lacks. Errors: E0230, E0420.
Result<void> check_library(const Library& library);
// Of the library's own name, which is known before anything is compiled. Errors: E0230.
Result<void> check_library_name(const std::string& name);
// One text for the library, one for each program, and one for each table of sizes. Of a large program the steps have
// files of their own, and what these include is one whose name ends with ".h". check_library() has passed.
std::vector<File> print_cpp(const Library& library);
std::string print_header(const Library& library);
// Which symbols the linker exports: a version script.
std::string print_exports(const Library& library);
// For tools: functions with their arguments, symbols, weights, kernels.
std::string print_manifest(const Library& library);

}  // namespace codetta::emit::host
