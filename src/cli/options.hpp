// SPDX-License-Identifier: Apache-2.0
// What the verbs have in common: options as given, the problem they describe, and printing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::cli {

// Exit status of a process.
inline constexpr int exit_ok = 0, exit_program = 1, exit_usage = 2, exit_environment = 3, exit_internal = 70;

struct CommonOptions {
  bool json = false;
  std::string target;  // "" = this machine
  std::string cache_dir;
  bool no_cache = false;
  bool no_jit = false;
  bool no_compiler = false;
  std::string compiler;
  double compile_timeout = 60;
  std::string debug;
  int threads = 0;
  int device = 0;
  std::vector<int> devices;
  std::string cuda_home;
  std::string cuda_compiler;
  bool no_vendor = false;
};

// A GEMM as the command line describes it.
struct GemmOptions {
  int64_t m = -1, n = -1, k = -1, batch = -1;          // -1: not given
  std::string dtype, b_dtype, accumulator, out_dtype;  // dtype "": f32, or what the file of A holds
  std::string a_file, b_file;
  std::vector<std::string> tensors;  // NAME=FILE, or NAME=[M,N]:f32 for random data
  std::vector<std::string> scalars;  // NAME=NUMBER
  std::vector<std::string> outputs;  // NAME=FILE, or NAME=[M,N]:f32
  std::string epilogue;              // a file or a text
  std::string function;
  std::string kernel;        // name, or part of it
  bool all_kernels = false;  // `kernels`: not only those that discovery lists
  bool transpose_a = false, transpose_b = false;
  bool strict = false, as_unfused = false;
  bool force = false;  // outputs may overwrite files that the command reads
  std::string report;  // file of a page that the command writes, too
  std::string math = "strict";
  uint64_t seed = 1;
};

// The problem with memory for its data. Views in `arguments` point into `owned`.
struct GemmProblem {
  GemmArguments arguments;
  std::vector<Tensor> owned;
  std::vector<std::shared_ptr<void>> reserved;                    // addresses of tensors that nobody looks into
  std::vector<std::pair<std::string, std::string>> output_files;  // output name -> file to write
  std::vector<std::string> input_files;                           // that were read
  struct Fill {
    TensorView view;
    bool output = false;  // poisoned
    uint64_t seed = 0;
    Distribution distribution = Distribution::Normal;
  };
  std::vector<Fill> fills;
};

// What --strict and --math say. Errors: E0701.
Result<Numerics> numerics_of(const GemmOptions& options);
// Values of what no file holds. Apart, since numbers of a problem that is wrong or does not fit would take minutes.
void fill_data(const GemmProblem& problem);
// With `data` the memory of all is there, and what files hold; fill_data() gives the rest.
// Without `data` random operands and outputs are addresses that take no memory: enough for whoever only asks what would
// be done.
Result<GemmProblem> build_problem(const GemmOptions& options, bool data = true);
Result<Target> target_of(const CommonOptions& options);
Result<Context> context_of(const CommonOptions& options);
// target_of() for a command that emits: where neither an architecture is named nor a device is there, one is assumed,
// which a line on standard error tells.
Result<Target> emission_target_of(const CommonOptions& options, Context& context);
// What is told while a program compiles: one line that changes on a terminal, elsewhere a line every five seconds.
// Nothing for what is found.
std::function<void(const CompileProgress&)> compile_progress(const CommonOptions& options);
// Text of a file or a pipe, at most a little more than any text may have; or the text itself when it is no file but a
// def.
struct Source {
  std::string name, text;
};
enum class TextOf : uint8_t { Epilogue, Program, Kernel };  // what messages call it; a kernel's is always a file
Result<Source> read_source(const std::string& file_or_text, TextOf of);

// Diagnostics on stderr (text or JSON); returns the exit status of the error's family.
int report(const Error& error, bool json);
// The message of the last error of Codetta's own that report() has shown in this process, for the bundle.
std::string& internal_message();
// The compiler's remarks rule the kernel out (E0533): another one of the list does the work.
inline bool is_unfit(const Error& error) { return error.code() == 533; }
Error usage_error(std::string headline, std::string reason, std::string help);
// In the quotes of a shell where it needs them, so that a line can be pasted.
std::string shell_word(const std::string& argument);
// E0701 for a word that is none of `known`, given to `option` ("" where the text says so itself). `meant`: what was
// probably meant; where it is "", the nearest of them.
Error unknown_word(const std::string& kind, const std::string& word, const std::string& option,
                   const std::vector<std::string>& known, std::string meant = {});
Error all_kernels(const std::string& command);  // E0701 for a command that takes no --kernel
// E0701 where --out names a file, for a command that runs several kernels and keeps no result.
Result<void> writes_nothing(const std::string& command, const GemmProblem& problem);

}  // namespace codetta::cli
