// SPDX-License-Identifier: Apache-2.0
// Whole programs: text with typed parameters, matrix products and all the language has between them. Work behind a
// product is fused into its kernel; the rest becomes kernels of its own, and steps for branches, loops, writes at
// indices and functions of the caller's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/extern.h"
#include "codetta/kernel.hpp"
#include "codetta/numerics.hpp"

namespace codetta {

namespace driver {
struct ProgramState;
struct CompiledProgramState;
}  // namespace driver

struct ProgramParameter {
  std::string name;
  std::string type;  // "bf16[batch, 4096]"; "f32" is a number
  // donated[...]: a run may write to the memory that is bound to it, whose contents are lost. Nothing else that the run
  // is given may lie there (E0613), it may be written (E0213), and lies in one piece where the plan reuses it (E0610).
  bool donated = false;
  int device = 0;  // which of the program's devices its memory belongs to; a number's is 0
};

// A parameter for known sizes.
struct ProgramInput {
  std::string name;
  DType dtype = DType::f32;
  bool is_number = false;   // declared without brackets
  Dims shape;               // of tensors
  int64_t index_limit = 0;  // it picks elements of a dim or is a size: what is in range is below this; else 0
  int64_t terms = 0;        // it is the right factor of a product that sums so many terms; 0: of none
  int64_t index_least = 0;  // what is in range of a size begins here
};

// What the symbols of a program are for given tensors, and what its outputs then must be.
struct ProgramShapes {
  struct Output {
    std::string name;
    DType dtype = DType::f32;
    // Of dims that a run computes the most that they can be, and 0 where nothing bounds them: then the caller says what
    // there is room for. What was filled is known behind the run (Execution::output_shape).
    Dims shape;
    // By dim: the name that the size of that room has ("y_capacity": in messages, headers and `--dim`), where a run
    // computes the dim; else empty.
    std::vector<std::string> rooms{};
    int device = 0;  // as ProgramParameter::device
    [[nodiscard]] bool computed(int dim) const { return !rooms[static_cast<size_t>(dim)].empty(); }
  };
  std::vector<std::pair<std::string, int64_t>> symbols;  // in the order of the parameters that name them
  std::vector<Output> outputs;                           // in the order of the return statement
};

// The source of what user_kernel("name", a, b, ..., out=...) calls. On a CPU: C++20 with a function of that name, which
// gets the operands in order, then the results: codetta::Tensor<const float, 2> for f32[m, n], float for numbers and
// for f32[()], codetta::Tensor<float, 2> for a result. Tensors are called with one index a dim, x(i, j), and have
// size(dim). It returns nothing, or an int that is 0 or a code of its own (E0617). Elements: bool, int8_t to uint64_t,
// float, double, float16, bfloat16 (as floats), float8_e4m3, float8_e5m2 (bits). It is compiled without exceptions,
// runs on one thread, and must depend on nothing but its operands; several executions may call it at the same time.
//
// On a GPU: CUDA C++, or HIP for AMD's, with an extern "C" __global__ function of that name, which gets addresses of
// elements and numbers by value. Lines `#pragma codetta ...` say what it takes and how it is launched
// (docs/language.md; E0231, where they do not). It must depend on nothing but its operands, and write nothing but its
// results.
struct UserKernel {
  enum class Language : uint8_t { cpp, cuda, hip, triton, cute_dsl };  // triton and cute_dsl are refused (E0311)
  std::string name;
  std::string source;
  Language language = Language::cpp;
  std::string file{};                   // as the compiler's messages name the source; "" = "<name>.cpp"
  std::vector<std::string> included{};  // files that with_includes() has put into the source
};

// The kernel with its helpers: in the place of each line `#include "name"` what that file has, which is looked for
// beside the one that names it, and what it includes in turn. Messages name its own lines. What is not there is left to
// the compiler, and all of it where `kernel.file` is empty. Errors: E0620 (a file cannot be read), E0102 (more than 16
// MiB).
CODETTA_API Result<UserKernel> with_includes(UserKernel kernel);

// A parsed and verified program. Immutable, shared.
class CODETTA_API Program {
 public:
  // `function`: which one of the text; "" = the last. Errors: E01xx, E02xx.
  static Result<Program> parse(std::string text, std::string name = "<program>", std::string_view function = {});
#if CODETTA_HAS_EXCEPTIONS
  // parse() that throws codetta::Exception.
  explicit Program(std::string text, std::string name = "<program>", std::string_view function = {})
      : Program(parse(std::move(text), std::move(name), function).value()) {}
#endif
  // The program with sources for kernels that it calls; those that it lacks are E0311 when it is compiled. Errors:
  // E0209 (it calls none of that name), E0210 (a second source for one).
  [[nodiscard]] Result<Program> with_kernels(std::vector<UserKernel> kernels) const;
  // The program with every result that its kernels hand over element by element (Hook) stored as well: what follows is
  // fused all the same, and a check of a run sees what it was given (keep_results, VerifyOptions::given).
  [[nodiscard]] Program with_hooked_results() const;
  // The program computed so by all that takes it: runs, libraries, checks. Kernels of CPUs multiply as they do in any
  // mode. Errors: E0703 (a mode that has no name).
  [[nodiscard]] Result<Program> with_numerics(const Numerics& numerics) const;
  [[nodiscard]] Numerics numerics() const;
  [[nodiscard]] std::vector<ProgramParameter> parameters() const;
  [[nodiscard]] std::vector<ProgramParameter> outputs() const;
  // For arguments that hold every parameter; outputs may be among them, and count for nothing. Errors: E0208 (one is
  // missing), E0209 (an unknown name), E0210 (one twice), E0221 (it does not fit its declaration).
  [[nodiscard]] Result<ProgramShapes> shapes(const std::vector<NamedArgument>& arguments) const;
  // The parameters that `given` lacks, as they then have to be: sizes are what the given tensors say, else what `sizes`
  // says, else `otherwise`. Errors: E0209, E0210, E0602 (sizes), E0221 (a shape that cannot be).
  [[nodiscard]] Result<std::vector<ProgramInput>> missing(const std::vector<NamedArgument>& given,
                                                          const std::vector<std::pair<std::string, int64_t>>& sizes,
                                                          int64_t otherwise) const;
  // Errors: E0415 for every stage but Ast and Graph.
  [[nodiscard]] Result<std::string> emit(Stage stage) const;
  // Plan, Memory and Host too, of what compile() would make for a target, which need not be there: planned, and nothing
  // compiled. Of several values of one hint the least counts. Errors: E0415 for the other stages; those of planning,
  // and of hints, as in compile(); E0440 (Host: the target has no such text).
  [[nodiscard]] Result<std::string> emit(Stage stage, const Target& target,
                                         const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                         Context& context = Context::process_default()) const;

  Program(const Program&) = default;  // and moves copy, so that one that was moved from still works
  Program& operator=(const Program&) = default;
  struct Access;

 private:
  explicit Program(std::shared_ptr<const driver::ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const driver::ProgramState> state_;
};

// What call_extern("name", ...) calls: see codetta/extern.h. `context` is handed to it, and has to live as long as the
// executions that were prepared with it; those of several threads may call it at the same time.
struct ExternFunction {
  std::string name;
  CodettaExtern function = nullptr;
  void* context = nullptr;
};

// A step of a run that has just ended. Nanoseconds count from the beginning of the run; a branch or a loop is told
// behind the steps within it.
struct StepRecord {
  // Elements of a tensor: `offset` and `strides` count elements of it from its first on.
  struct Part {
    int64_t offset = 0;
    Dims shape, strides;
  };
  struct Value {
    std::string name;  // of the argument, or what `emit` calls the temporary
    TensorView view;   // valid, and may be written, during the call; of a GPU a copy in host memory
    // Where a kernel stores parts of a tensor, as for concat: those that this step has written, of which one may be in
    // another; what else is in the view may be anything. Empty: it has written all of it.
    std::vector<Part> parts{};
  };
  std::string step;                  // "step 3 (launch_kernel)", "list 1, step 0 (fill)"
  std::string kernel;                // of a launch: "codetta_add_relu_1a2b3c4d"
  std::string function{};            // of a user kernel and of call_extern: its name in the program
  std::vector<std::string> origins;  // of a launch: "mlp.py:4: y = relu(x @ w)", the lines that it carries out
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<Value> written;
  // Of a function: its results in the order of the call. Nothing where one is not in memory, for the kernel hands it
  // over element by element (Program::with_hooked_results). Those that it has allocated are told with the last step
  // that takes one (select_output); one that nothing takes has no elements, and 8 dims.
  std::vector<Value> results{};
};
// Called from the thread that runs, in order; an error ends the run with it.
using StepObserver = std::function<Result<void>(const StepRecord&)>;
// What an observer looks at, of GPUs: the steps alone (names, forms, times), the results of functions too, or all
// values that steps write. The views of what it does not look at are those of device memory.
enum class Observed : uint8_t { steps, results, values };

struct RunOptions {
  std::vector<ExternFunction> externs{};  // by name; those that the program does not call count for nothing
  // Overlaps, what the code relies on, where tensors lie, and the contents of indices are checked (E0610, E0613, E0648,
  // E0618). Without it an index out of range is taken as the nearest one. On a GPU kernels look at indices, and what
  // they find is told later (codetta/contents.hpp).
  bool checked = true;
  // Told of every step (codetta/observe.hpp has some); slows a run down. On a GPU the run then waits for each step, and
  // copies what it wrote to host memory, and back where the observer changes it; it is not to be captured (E0646), and
  // E0606, E0644, E0647 may come from the copies.
  StepObserver observer{};
  Observed observed = Observed::values;
  // On a GPU prepare() captures the steps into one CUDA (or HIP) graph, and each run() is one launch of it: the host
  // pays for a run, not for its kernels (docs/cpp.md). Functions of the caller's are called while the steps are
  // captured, and by no run. set_workspace() captures anew. A run on a stream that is being captured, and
  // CompiledProgram::run(), go step by step. E0646 where there can be no graph: a branch or a loop that a tensor
  // decides, sizes that a run finds, an observer. Of CPUs it counts for nothing.
  bool graph = false;
  // Asked by prepare() of every step: what is returned is called before that step runs, each time, from the thread that
  // runs, so that a handler of signals can say where code of the caller's has crashed; nothing, for an empty one. The
  // record has no values, both times are 0, and it lives as long as the execution. Of CPUs; where a GPU's kernels go
  // wrong the driver says so (E0644), and nothing is asked.
  std::function<std::function<void()>(const StepRecord&)> starting{};
};

// A program compiled for a target; sizes stay symbolic. Compiled for several sizes, each prepare() takes the kernels of
// the nearest ones, and the stages and the report are those of the least. Immutable, shared between threads.
class CODETTA_API CompiledProgram {
 public:
  // Every parameter and every output by name, and nothing else: a number for what is declared without brackets (a:
  // f32), else a tensor; of outputs with dims that a run computes one with room for them, which a run fills from the
  // first element on. Numbers are what they are now; tensors are read by each run. Errors: those of shapes(), E0213,
  // E0403, E06xx; E0616 where a function that the program calls is not among options.externs.
  [[nodiscard]] Result<Execution> prepare(const std::vector<NamedArgument>& arguments,
                                          const RunOptions& options = {}) const;
  // prepare + run. On a GPU it waits where a workspace, sizes that the run finds, or contents that kernels look at have
  // to outlive the work (E0618 then comes from here). While `stream` is being captured the first two are E0646, and
  // contents are not looked at.
  Result<void> run(const std::vector<NamedArgument>& arguments, Stream stream = {},
                   const RunOptions& options = {}) const;
  // That of the program.
  [[nodiscard]] Result<ProgramShapes> shapes(const std::vector<NamedArgument>& arguments) const;
  // Ast, Graph, Plan, Memory, Source, Manifest. Errors: E0415 for the others.
  [[nodiscard]] Result<std::string> emit(Stage stage) const;
  // Graph before and after the passes, plan, kernels and how far they are from the machine's limits, when temporaries
  // live, source: one self-contained HTML page.
  [[nodiscard]] Result<std::string> html_report() const;

  CompiledProgram(const CompiledProgram&) = default;  // and moves copy
  CompiledProgram& operator=(const CompiledProgram&) = default;
  struct Access;

 private:
  explicit CompiledProgram(std::shared_ptr<const driver::CompiledProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const driver::CompiledProgramState> state_;
};

// Told of every kernel that has code, from the calling thread.
struct CompileProgress {
  size_t done = 0, total = 0;  // kernels with different sources
  std::string kernel;          // there now: "codetta_add_relu_1a2b3c4d"
  double seconds = 0;          // in the compiler; 0: it was found
};

// Plans, compiles and loads every kernel, several at a time; kernels of equal source are one. Size hints (symbol ->
// value) steer the choice of kernels; several of one symbol (batch -> 1, batch -> 512) give kernels for each, of which
// a run takes those of the size that is nearest as a ratio. Without a compiler epilogues are interpreted. When a kernel
// fails (the error names it) or the context's `cancel` becomes true, nothing is left behind but what the cache has got
// by then. What is for another machine is planned and printed; for an AMD GPU it is compiled into the cache as well,
// and with `fill_cache` for an NVIDIA GPU, too. Errors: E0209 (a hint for no symbol), E0210 (two equal ones), E0602 (a
// negative one), E0703 (more than 16 combinations), those of planning (E03xx, E04xx), E05xx (compiler); with
// `fill_cache` E0403 for a CPU that this is not, and for Metal.
CODETTA_API Result<CompiledProgram> compile(const Program& program, const Target& target,
                                            const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                            Context& context = Context::process_default(),
                                            const std::function<void(const CompileProgress&)>& progress = {},
                                            bool fill_cache = false);

// How the program is cut into kernels: the lines of the text that each one holds, what fused, what did not and why,
// which kernel was picked by which terms, the bytes that fusing saved, and the memory between kernels
// (docs/explain.md). Kernels are planned and printed, not compiled; the target need not be there. Bytes are
// expressions, and numbers too where `size_hints` gives the sizes. The same text for the same program, target and
// machine. Errors: those of compile(), but E05xx.
CODETTA_API Result<std::string> explain(const Program& program, const Target& target,
                                        const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                        bool json = false, Context& context = Context::process_default());

// Checks the outputs that a run of the program left in memory. `arguments`: as for CompiledProgram::run, unchanged
// since, but that an output whose sizes the run has computed is the part that it has filled (Execution::output_shape);
// otherwise as verify() of a GEMM. A program too large for the oracle is checked on whole random rows and
// columns, or, where an output cannot be had that way, not at all: the report says so (and is Mistrusted). Errors:
// those of shapes(); E0208 (an output, or the former contents of a donated or overwritten parameter), E0221 (given
// results of another shape), E0311 (code of the caller's without given results, or with those of several calls), E0606,
// E0618 (an index out of range); for a GPU E064x.
CODETTA_API Result<VerifyReport> verify(const Program& program, const std::vector<NamedArgument>& arguments,
                                        const Target& target, const VerifyOptions& options,
                                        Context& context = Context::process_default());

// Times, on the arguments (every parameter; outputs among them are not written, nothing is donated), first the
// configurations (docs/language.md, config) of the kernels of the user's that the program calls, each call by itself,
// then decisions between one kernel and several and the candidates of products and maps, in runs of the whole program
// (docs/command.md, Programs). What fails to compile, crashes or hangs in its first run (in a process of its own), or
// computes what is wrong by the oracle's bound, or where that says nothing is not what the first one that ran computed
// but for rounding, loses alone; `failure` says why, `call` of what a result is. Times are kept on disk, by program (a
// configuration's by source), types, sizes, machine, driver, compiler and build of this library: compile(), build() and
// explain() take the fastest for the sizes that are hinted at. What is compiled already stays as it is. At most
// `max_candidates` of a call or a kernel; nothing to choose from is an empty report, whose `note` says why.
// Errors: those of shapes(), and of planning (E0231, E03xx); E0221 (a number that its type does not hold), E0403,
// E0430, E064x (the target does not run here, or the GPU's context is lost), E0617, E0651 (a run), E0703 (options);
// where nothing could be tried, what the first one failed with (E0503, ...), which takes no kept time away.
CODETTA_API Result<TuneReport> tune(const Program& program, const std::vector<NamedArgument>& arguments,
                                    const Target& target, const TuneOptions& options = {},
                                    Context& context = Context::process_default());

}  // namespace codetta
