// SPDX-License-Identifier: Apache-2.0
// Ahead of time: programs as a shared library with a C header, which needs neither Codetta nor a compiler where it
// runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codetta/program.hpp"

namespace codetta {

// Asked with all files that a call will write, each with what it is ("the header"): where there is work in front of
// that, before it (`next` is false), and right before they are written (`next`). Its error ends the call. For callers
// who must not lose files of the same names, or who should not end while some of the files are there.
using WriteGuard =
    std::function<Result<void>(const std::vector<std::pair<std::string, std::string>>& files, bool next)>;

// What build() makes: a shared library; or, for CUDA, its sources in a folder, which nvcc makes a library of; or a
// library that carries its kernels as sources, which NVRTC compiles where it runs.
enum class BuildForm : uint8_t { Library, Nvcc, Nvrtc };

struct BuildOptions {
  std::string output{};    // path of the library, with any suffix: "out/libdigits.so"
  std::string name{};      // prefix of everything public; "" = the file's name without "lib" and what follows a dot
  std::string header{};    // path; "" = beside the library, <name>.h
  std::string manifest{};  // path; "" = beside the library, <name>.json
  // Path of a program in Python that times the library's functions; "" = none. It looks for library and manifest where
  // they lie as seen from it.
  std::string benchmark{};
  // Parameters that get their value now; they are no arguments of the functions any more. Read during the call only.
  std::vector<NamedArgument> constants{};
  // A safetensors file: parameters of its names are constants, too. The library maps it when it is first used (from its
  // own folder, under the same name, or from where NAME_load_weights says), or carries its tensors with embed_weights.
  std::string weights{};
  bool embed_weights = false;
  // Symbol -> value, for the choice of kernels; each of a symbol that the types of one of the programs have. Several of
  // one symbol (batch -> 1, batch -> 512): the library has kernels for each, and a call takes those of the size that is
  // nearest as a ratio; up to 16 combinations.
  std::vector<std::pair<std::string, int64_t>> size_hints{};
  // Where size_hints name none of the sizes that are rows of products, and no size twice, a function has kernels for
  // several numbers of rows: at most so many of 512, 16, 1, 4096, 128, in this order, and only those whose kernels
  // differ. 1: for 512 alone, as sizes without a hint are taken. 0: up to 3, as long as compiling takes about twice as
  // long as for one at most, and constants take no more than a quarter more. With tune_seconds it is 1.
  int programs_by_size = 0;
  bool checks = true;  // guards and overlaps are looked at in every call; null, misaligned and sizes always are
  // Times the configurations of the caller's kernels, then the candidates of every product, so many seconds each and
  // for each combination of hinted sizes, on random data of these, and takes the fastest; 0: the cost model.
  double tune_seconds = 0;
  // For each run while tuning that may not end; above 0: of programs with loops or with kernels of the caller's, and on
  // a GPU the first one of every candidate.
  double trial_seconds = 60;
  BuildForm form = BuildForm::Library;
  std::string engine_dir{};                          // folder of libcodetta_engine.a; "" = "codetta" beside libcodetta
  std::function<void(std::string_view)> progress{};  // one line at a time, from the calling thread
  WriteGuard before_writing{};
};

struct BuildReport {
  std::string library, header, manifest;  // paths
  std::string benchmark;                  // likewise; empty: none was asked for
  int64_t bytes = 0;                      // of the library
  double seconds = 0;                     // all of it
  double compile_seconds = 0;             // in compilers and linker, summed over processes
  std::vector<std::string> functions;     // exported, one a program
  std::vector<std::string> kernels;
  std::vector<std::string> sizes;  // by function with kernels for several: "mlp: n = 1, 16 (to 90), 512 (and more)"
};

// One library with a function for each program. It links the C++ runtime, pthread and dl; it exports its own functions
// only. Library, header and manifest appear whole or not at all, each by a rename; they are three files (four with a
// benchmark), none of them the weights. The target is a CPU, and the library refuses to start on one that lacks its
// instruction set; or CUDA or HIP with an architecture: the library carries the compiled kernels, and loads the driver
// when it is first called. Neither a GPU nor a toolkit is needed here, only NVRTC, or Clang and lld. With
// BuildForm::Nvrtc it carries the kernels as sources, and needs NVRTC where it runs: for the device's architecture,
// which is the target's or a later one; the target's alone where its name ends with a letter. For Metal the output is a
// folder of sources, constants and a script that makes the library on a Mac (docs/metal.md); with BuildForm::Nvcc one
// with kernels as .cu, host text, header, manifest, build.sh, which calls nvcc, and all that these include, made where
// it is missing: the report's `library` is what build.sh makes there. Errors: E0208 to E0210, E0221 (constants), E0230
// (a name that cannot be public), E0440 (no form as host text), E0501 to E0507, E0510 (compiler), E0541 (engine
// archive), E0542 (linker), E0543 (paths), E06xx (files), those of compile(); of tuning E0403, E0640 to E0643, E0654
// (there is no such processor here), E0616 (the program calls functions of the caller's), E0617, E0644, E0651 (a run
// crashed, or took longer than trial_seconds), E0703 (trial_seconds).
CODETTA_API Result<BuildReport> build(const std::vector<Program>& programs, const Target& target,
                                      const BuildOptions& options, Context& context = Context::process_default());

// The C++ host text of a library of these programs and its header, as build() compiles them: for reading.
CODETTA_API Result<std::string> host_text(const std::vector<Program>& programs, const Target& target,
                                          const BuildOptions& options, Context& context = Context::process_default());

}  // namespace codetta
