// SPDX-License-Identifier: Apache-2.0
// Finding, compiling and running kernels. Everything here is thread safe unless stated; kernels are immutable and
// shared.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codetta/gemm.hpp"
#include "codetta/target.hpp"
#include "codetta/threads.hpp"

namespace codetta {

namespace driver {  // implementation, not for users
struct ContextState;
struct KernelState;
struct ExecutionState;
struct PackedState;
}  // namespace driver

// Options of a Context. The named environment variables are their twins, read once by Context::make where an option is
// unset.
struct ContextOptions {
  std::string cache_dir{};  // "" = $XDG_CACHE_HOME/codetta or ~/.cache/codetta         CODETTA_CACHE_DIR
  bool cache_enabled = true;
  bool cache_read_only = false;            //                                                           CODETTA_CACHE_RO
  int64_t cache_bytes = int64_t{1} << 30;  // size cap, 0 or more (else E0703)
  // Any compile is an error (E0503); what any compiler has put into the cache serves.              CODETTA_NO_JIT
  bool no_jit = false;
  bool no_compiler = false;             // behave as if no host compiler were there: interpret tapes
  std::string compiler{};               // "" = g++, c++, clang++ found in PATH; else a name or an absolute path
  double compile_timeout_seconds = 60;  // of one run of the compiler (E0505); above 0, to 86400 (else E0703)
  int device = 0;                       // the GPU that kernels run on, as CUDA_ or HIP_VISIBLE_DEVICES numbers them
  // The GPUs of programs over several devices, in the program's order; one may stand there more than once, so that {0,
  // 0} runs a program of two on one GPU. Empty: `device` and those behind it. Otherwise `device` is 0 or the first of
  // them, which it becomes, and there are 64 at most (else E0703).
  std::vector<int> devices{};
  std::string cuda_home{};    // folder of a CUDA toolkit, searched before the usual places
  std::string cuda_driver{};  // file of the NVIDIA driver's library; "" = libcuda.so.1 by the loader
  std::string nvrtc{};        // file of NVRTC; "" = looked for
  // What compiles CUDA kernels: "nvrtc"; "nvcc", of cuda_home, the search path or /usr/local/cuda; the absolute path of
  // an nvcc; "" = NVRTC, and nvcc where none is found and no file of it is named. Else E0703.  CODETTA_CUDA_COMPILER
  std::string cuda_compiler{};
  std::string cublaslt{};     // file of cuBLASLt; "" = looked for
  std::string hip_runtime{};  // file of AMD's HIP runtime; "" = libamdhip64.so.7 or .6 by the loader
  // File of AMD's runtime compiler; "" = libhiprtc.so.7 or .6 by the loader, for machines without a Clang for HIP. A
  // file that is named is used although there is a Clang.
  std::string hiprtc{};
  // File of the `codetta` command of this build, in which tuning lets kernels run on a GPU for the first time, so that
  // one that crashes or hangs loses alone; "" = beside the library.                                    CODETTA_COMMAND
  std::string command{};
  // Whether kernels of cuBLASLt are among the candidates where its fixed epilogues say the same.    CODETTA_NO_VENDOR
  bool vendor = true;
  // On a GPU each kernel that run() enqueues is an NVTX range with its name, where a profiler listens.    CODETTA_NVTX
  bool nvtx = false;
  int threads = 0;                 // to 4096 (else E0703); 0 = as many as this process may use
  ThreadPool* pool = nullptr;      // the caller's pool; must outlive the context
  Allocator* allocator = nullptr;  // the caller's; must outlive the context
  // Device memory for workspaces, instead of the driver's own allocation; must outlive the context. Called with the
  // device's primary context current; nullptr from it is E0643.
  Allocator* device_allocator = nullptr;
  // "dump:plan,time:passes,explain:fusion"; "skip:PASS" leaves a pass out, "stop:PASS" those behind it. CODETTA_DEBUG
  std::string debug{};
  std::function<void(std::string_view)> log{};  // one line at a time; called from any thread
  // When it becomes true, compilers that run for this context end within about 20 ms, and the oracle's checks soon;
  // what needed them is E0510. Must outlive the context.
  const std::atomic<bool>* cancel = nullptr;
};

// Owns cache, compiler, threads and options. Cheap to copy (shared).
class CODETTA_API Context {
 public:
  // A cache folder that cannot be used is no error: the log is told, and nothing is kept. Errors: E0702 (debug), E0703
  // (threads, compile_timeout_seconds, cache_bytes, cuda_compiler).
  static Result<Context> make(const ContextOptions& options);
#if CODETTA_HAS_EXCEPTIONS
  // make() that throws codetta::Exception.
  explicit Context(const ContextOptions& options) : Context(make(options).value()) {}
#endif
  static Context& process_default();  // made on first use from the environment; the only process-wide object
  Context(const Context&) = default;  // and moves copy, so that one that was moved from still works
  Context& operator=(const Context&) = default;
  [[nodiscard]] const ContextOptions& options() const;
  [[nodiscard]] ThreadPool& pool() const;
  [[nodiscard]] const std::shared_ptr<driver::ContextState>& shared_state() const { return state_; }

 private:
  explicit Context(std::shared_ptr<driver::ContextState> state) : state_(std::move(state)) {}
  std::shared_ptr<driver::ContextState> state_;
};

// Work order of a device. A plain value that owns nothing; whoever made the stream keeps it alive. The CPU has one
// stream per thread and runs at once, whatever is passed. On a GPU the default is the default stream of the device's
// primary context (what the CUDA runtime uses).
struct Stream {
  void* handle = nullptr;
  // A CUstream or cudaStream_t of the primary context of the device that the work runs on.
  static Stream from_cuda(void* stream) { return {stream}; }
  // A hipStream_t of the device that the work runs on.
  static Stream from_hip(void* stream) { return {stream}; }
};

// One term of the cost model, in microseconds unless the name says otherwise.
struct CostTerm {
  std::string name;
  double value = 0;
  std::string note;
};

struct KernelMetadata {
  std::string name;  // "cpu_packed_6x64_avx512"
  // Of CPUs "packed", "in_place" (B is read where it lies), "convert", "fused"; of GPUs "simt", "sm80", "sm90",
  // "sm100", "stream", "vendor", "mfma", "wmma", "simdgroup".
  std::string family;
  Target target;
  std::vector<std::pair<std::string, int64_t>> config;  // mr, nr, kc, mc, nc, ...
  std::vector<CostTerm> terms;
  double estimated_us = 0;
  int64_t workspace_bytes = 0;  // of an Execution for the arguments that found it, compiled unless no_compiler is set
  bool tuned = false;           // ranked by a measurement that was kept
  double measured_us = 0;
};

// Why a kernel is not in the list.
struct Rejection {
  uint16_t code = 0;   // E04xx
  std::string kernel;  // family or full name
  std::string text;    // one sentence with the limiting numbers
  // Those numbers, where values stand against limits; else empty.
  struct Limit {
    std::string name;   // "rows", "bytes of A", "alignment of B in bytes"
    int64_t given = 0;  // the problem has, or the kernel would need
    int64_t limit = 0;  // the kernel or the device allows, at most or at least as `text` says
  };
  std::vector<Limit> limits{};
};

// A prepared run: compiled, loaded, sized; owns or borrows its workspace; belongs to one stream (thread) at a time. A
// default-made one holds nothing: sizes are 0, what can fail is E0608.
class CODETTA_API Execution {
 public:
  // Enqueues; allocates nothing, compiles nothing, never waits. On the CPU it returns when the results are there, and
  // of a GEMM cannot fail. On a GPU it may be captured into a graph: the tensors, the workspace and the Context must
  // then live as long as the graph. Where a program on a GPU finds sizes in the run (device memory, functions that
  // allocate) it waits, may allocate, and cannot be captured. Errors: E0644 (an earlier kernel has failed), E0645
  // (stream of another context), E0647; of programs E0655 (donate_again), E0617 (a function of the caller's) and what
  // contents tell, E0618 and E0619: on a GPU those of an earlier run (codetta/contents.hpp); of sizes found in the run
  // E0610, E0643, E0646.
  Result<void> run(Stream stream = {});
  // Donated parameters of the program have been written anew: a run uses up what they hold, and a further one without
  // this is E0655. Their memory counts as given for one more run. Nothing where there are none.
  void donate_again();
  // What the last run has filled of an output of a program, from its first element on: known when run() returns. Where
  // a run does not compute the output's sizes it is all of the bound tensor. Errors: E0209 (no output of that name),
  // E0608 (no run has succeeded, or it holds nothing).
  [[nodiscard]] Result<Dims> output_shape(std::string_view name) const;
  // Bytes; of device memory where the target is a GPU. 0 where nothing is needed, but a problem without elements may
  // need some, too.
  [[nodiscard]] int64_t workspace_size() const;
  // Of a program over several devices: bytes in the memory of that one, counted as the program does; 0 where it has no
  // such one. Those of the first are workspace_size(), which set_workspace() is for; what the others need is the
  // execution's own, from ContextOptions::device_allocator with the device current.
  [[nodiscard]] int64_t workspace_size(uint32_t device) const;
  static constexpr int64_t workspace_alignment = 256;  // bytes
  // Uses the caller's memory instead of its own: workspace_size() bytes or more, aligned (64 are enough on a CPU), of
  // any contents; (nullptr, 0) where none is needed. Between runs on a CPU it may be used for something else; on a GPU
  // it holds counters that the runs leave as they found them, so that nobody else may write to it until the execution
  // is gone or has another. What runs before were enqueued with there is given back at once: not while at work. Errors:
  // E0604, E0605, E0611.
  Result<void> set_workspace(void* memory, int64_t bytes);
  // Names of the kernels that the runs take, in the order of the plan; none where it holds nothing. Of a program they
  // are those of the nearest of the sizes that it was compiled for, and on a GPU those that rely on as little as the
  // tensors are aligned. Of a GEMM there is one, or there are several on a GPU where a size is 0 and the one could not
  // make all outputs.
  [[nodiscard]] std::vector<std::string> kernels() const;
  [[nodiscard]] double compile_seconds() const;  // spent in the compiler by prepare(); 0 when all was found
  [[nodiscard]] bool interpreted() const;        // no compiler was there: the epilogue's tape is interpreted

 private:
  friend struct driver::ExecutionState;
  std::shared_ptr<driver::ExecutionState> state_;
};

// What emit() can show of a kernel.
enum class Stage : uint8_t {
  Ast,
  Graph,
  Plan,
  Memory,
  Source,
  Host,
  Asm,  // what the compiler makes of the source, as text: the processor's assembly, or PTX
  Manifest,
  Ptx,     // CUDA
  Sass,    // CUDA; needs nvdisasm, which comes with a toolkit
  Python,  // of programs: a module with compiled kernels and a function call(), for CPUs and CUDA (docs/aot.md)
};

class CODETTA_API Kernel {
 public:
  // A default-made kernel holds nothing: its metadata is empty, everything else E0608.
  [[nodiscard]] const KernelMetadata& metadata() const;
  // Compiles if needed (single flight, cached on disk), loads, sizes. Arguments may differ from those that found the
  // kernel in pointers, numbers, strides and sizes; another program is E0414, a guard that fails E0610. Errors also:
  // E05xx (compiler), E06xx (views). For a GPU the tensors lie on the context's device (E0648), which is of the
  // target's architecture (E0430). It leaves captures of streams valid, whichever thread they belong to, and compiles
  // during them too, since it is told of no stream.
  [[nodiscard]] Result<Execution> prepare(const GemmArguments& arguments) const;
  // prepare + run. In a loop, prepare once and run the Execution. On a GPU it waits for the result where the kernel
  // needs a workspace. While `stream` is being captured, what would have to be compiled is E0535, and a kernel that
  // needs a workspace E0646; the capture stays valid.
  Result<void> run(const GemmArguments& arguments, Stream stream = {}) const;
  // Compiles into the cache if needed. A kernel for a GPU is not loaded: there may be none; one for the CPU is, which
  // shows that it works. Returns the seconds spent in the compiler, 0 when it was found or nothing has to be compiled.
  // Errors: E05xx; without a compiler E0501 or E0502, unless the cache holds the kernel.
  [[nodiscard]] Result<double> compile() const;
  // Packs B ([K, N] or [batch, K, N]) for this kernel; the view may be freed afterwards. Errors: E0416 (family reads B
  // where it lies).
  [[nodiscard]] Result<PackedTensor> pack(const TensorView& B) const;
  // A stage as text. Errors: E0415 (a stage that this target does not have), those of planning (E03xx), E01xx (ast of a
  // traced epilogue), for asm, ptx and sass E05xx.
  [[nodiscard]] Result<std::string> emit(Stage stage) const;
  // A file holding the emitted source, in the cache folder. Errors: E0511 (the cache is off, or cannot be written).
  [[nodiscard]] Result<std::string> source_path() const;

 private:
  friend struct driver::KernelState;
  std::shared_ptr<const driver::KernelState> state_;
};

// Ranked candidates, best first; never empty without rejections that say why.
class CODETTA_API KernelList {
 public:
  KernelList() = default;
  // A list of the caller's own, best first.
  explicit KernelList(std::vector<Kernel> kernels, std::vector<Rejection> rejections = {})
      : kernels_(std::move(kernels)), rejections_(std::move(rejections)) {}
  [[nodiscard]] size_t size() const { return kernels_.size(); }
  [[nodiscard]] bool empty() const { return kernels_.empty(); }
  // Beyond the end: a kernel that holds nothing, of which everything is E0608. What fits no kernel gives an empty list.
  const Kernel& operator[](size_t i) const { return i < kernels_.size() ? kernels_[i] : none(); }
  [[nodiscard]] auto begin() const { return kernels_.begin(); }
  [[nodiscard]] auto end() const { return kernels_.end(); }
  [[nodiscard]] const std::vector<Rejection>& rejections() const { return rejections_; }
  // The best kernel that may be used, prepared. One that the compiler's remarks rule out (E0533: it spills registers)
  // is passed over, which the context's log tells once with the reason; every other error is returned. `chosen` gets
  // the place of the kernel in the list. Errors: those of Kernel::prepare; E0533 when none is left, E0418 for an empty
  // list.
  [[nodiscard]] Result<Execution> prepare(const GemmArguments& arguments, size_t* chosen = nullptr) const;

 private:
  static const Kernel& none();

  std::vector<Kernel> kernels_;        // in rank order
  std::vector<Rejection> rejections_;  // in family order
};

struct DiscoveryOptions {
  std::function<bool(const KernelMetadata&)> filter{};  // keeps those for which it is true; others become rejections
  size_t max_candidates = 32;
  // Every configuration of every family, those among them that discovery leaves out since a variant of the same tile is
  // listed or a faster tile is expected, so that a filter can take any by its name; max_candidates does not count then.
  bool all = false;
};

// All families x configurations that can do it, ranked by the cost model (and by kept tuning results), deterministic.
// Errors: those of the epilogue's text, of binding, of the views. An argument problem is never an empty list.
CODETTA_API Result<KernelList> find_kernels(const GemmArguments& arguments, const Target& target,
                                            const DiscoveryOptions& options = {},
                                            Context& context = Context::process_default());

#if CODETTA_HAS_EXCEPTIONS
// find_kernels that throws codetta::Exception.
inline KernelList get_kernels(const GemmArguments& arguments, const Target& target = Target::host(),
                              const DiscoveryOptions& options = {}, Context& context = Context::process_default()) {
  return find_kernels(arguments, target, options, context).value();
}
#endif

// The target to emit code for: `target` itself where it names an architecture or has none; else the architecture of the
// context's device, or, where there is none and ContextOptions::device is 0, cuda:sm_90a, hip:gfx942 or metal:apple7.
// Only emitting and compiling work with that: what runs needs the device. Errors: E0640 to E0642, E0654 where
// ContextOptions::device is another; E0647; those of a target that cannot be (E0401, E0402, E0412).
CODETTA_API Result<Target> emission_target(const Target& target, Context& context = Context::process_default());

struct TuneProgress {
  size_t done = 0, total = 0;
  std::string kernel;       // measured last
  double microseconds = 0;  // its median; 0 while compiling
  std::string best;
  double best_microseconds = 0;
};
struct TuneOptions {
  double budget_seconds = 30;  // above 0; of compiling, running and timing: what the oracle takes comes on top
  // At least 1. For a GPU at most half of them, but two, are the tiles that discovery expects to be fastest; the others
  // are found near the fastest of those that have been timed, among all configurations of its family.
  size_t max_candidates = 16;
  std::function<bool(const TuneProgress&)> progress{};  // false stops; results so far are kept
  double trial_seconds = 0;  // for a candidate's first run, in a process of its own; 0: 10 s and 100 times the estimate
};
struct TuneResult {
  std::string kernel;
  double microseconds = 0;  // median; 0 when it failed
  double spread = 0;        // (p75 - p25) / median
  std::string failure;      // why it cannot win; empty when it may
  std::string call{};       // of programs: what was called, "running_sums(f32[128, 24], f32) -> f32[128, 24]"
};
struct TuneReport {
  std::vector<TuneResult> results;  // best first
  bool complete = false;            // false when stopped or out of budget
  double seconds = 0;
  std::string note;  // why candidates had no trial in a process of their own; empty when they had
};
// Times the fused candidates on the given arguments, checks each against the oracle's bound, keeps the results on disk
// (keyed by problem, CPU or GPU, driver, compiler and build of this library: a new build is measured anew); later
// find_kernels rank by them. Outputs are written. Never runs unasked. A candidate that fails loses alone, unless it
// takes the GPU's context with it (E0644): that ends the call. A later call for the same problem begins with the
// fastest ones and goes on with configurations that have not been timed.
// Each candidate's first run is in a process of its own, so that one that crashes or does not end loses alone: on a CPU
// in a forked process of one thread, where the thread pool of the context is not used; on a GPU in the `codetta`
// command of this build (ContextOptions::command), with a context and memory of its own. Where there is none, `note`
// says so. Errors: those of find_kernels and of verify, E0403, E0430, E064x (the target does not run here), E0703
// (options).
CODETTA_API Result<TuneReport> tune(const GemmArguments& arguments, const Target& target,
                                    const TuneOptions& options = {}, Context& context = Context::process_default());

// What tune() has kept with this build of the library, as a readable text that another cache of an equal machine takes.
// Errors: E0511 (the cache is off).
CODETTA_API Result<std::string> export_tuning(Context& context = Context::process_default());
struct TuningImport {
  int64_t records = 0;      // problems whose times are kept now
  int64_t passed_over = 0;  // those of other machines
};
// Takes what export_tuning() gave, which may be any bytes; times that are there already are replaced. Errors: E0653
// (damaged, of another version or build, or of other machines only), E0511 (the cache is off or read-only).
CODETTA_API Result<TuningImport> import_tuning(std::string_view text, Context& context = Context::process_default());

struct Timing {
  double median_us = 0, low_us = 0, high_us = 0;  // of one run; quartiles
  int64_t samples = 0;
};
// Times runs, taking the executions in turn: several with operands of their own keep what they share out of the caches.
// At least 5 samples, up to 101 in about `seconds`. On a GPU the runs are captured into one graph, whose replays are
// timed by events; the tensors must be valid, and outputs are written. Donated tensors are copied back, untimed, so
// that each run finds what they hold now, and hold anything in the end; no two executions have the same one. Errors:
// those of Execution::run; E0701 for none.
CODETTA_API Result<Timing> measure(std::span<Execution> executions, double seconds = 1);
inline Result<Timing> measure(Execution& execution, double seconds = 1) {
  return measure(std::span(&execution, 1), seconds);
}

// Comparison of results with the float64 oracle and its derived error bound.
struct OutputCheck {
  std::string name;
  int64_t checked = 0, total = 0;  // elements
  int64_t wrong = 0;
  int64_t ambiguous = 0;       // a discontinuity lies inside the bound: either branch is accepted
  double max_error = 0;        // absolute, from the middle of what may be stored
  double max_error_ratio = 0;  // error / bound (half of what may be stored); infinite where one value alone is right
  std::string worst;           // "[3, 17]: 1.5, expected 1.2499 to 1.2501"; empty when nothing was compared
  std::string note;            // "64 of 4096 rows", or why the output was left out
  std::string mistrust;        // why right elements prove nothing here; empty when they do
};
struct VerifyReport {
  enum class Verdict : uint8_t { Pass, Fail, Mistrusted };
  Verdict verdict = Verdict::Fail;
  std::vector<OutputCheck> outputs;
  std::vector<std::string> given;  // functions whose results were not checked, but taken as the run left them
  std::string text;                // for people
};
// What one call of call_extern or user_kernel left in its results.
struct GivenResults {
  std::string function;
  std::vector<TensorView> results;  // in the order of the call, row-major
};
struct VerifyOptions {
  // Former contents of each operand that the run has overwritten, by name. Missing ones are E0208.
  std::vector<std::pair<std::string, TensorView>> before{};
  uint64_t seed = 1;  // of the rows and columns that are checked of a large problem
  // The outputs held something else than the answer before the run (fill_poison): then elements that must be 0 prove as
  // much as others do.
  bool poisoned = false;
  // Of programs that call code of the caller's: what it computed in the run (observe.hpp: keep_results). The oracle,
  // which cannot look into it, takes these results as right and compares all that is made of them; the report names
  // them.
  std::vector<GivenResults> given{};
};
// Checks the outputs that a run with these arguments left in memory. Inputs must be unchanged since; where an
// output is an operand (an update in place) pass the former contents of that operand in `before`. The target says how
// products are accumulated. A problem too large for the oracle is checked on whole random rows and columns, chosen by
// the seed. For a GPU the tensors are those of its memory, `before` too; all work on them is waited for, and they are
// copied to the host. Errors: those of the epilogue's text, of binding and of the views; E0208 (`before` lacks an
// operand), E0209 (it names none); E0606; for a GPU E064x.
CODETTA_API Result<VerifyReport> verify(const GemmArguments& arguments, const Target& target,
                                        const VerifyOptions& options, Context& context = Context::process_default());
inline Result<VerifyReport> verify(const GemmArguments& arguments,
                                   const std::vector<std::pair<std::string, TensorView>>& before = {},
                                   const Target& target = Target::host(), uint64_t seed = 1,
                                   Context& context = Context::process_default()) {
  VerifyOptions options;
  options.before = before;
  options.seed = seed;
  return verify(arguments, target, options, context);
}

// A printed account of how the epilogue is understood, the chosen kernel, its cost terms, and every rejection. Errors:
// those of find_kernels.
CODETTA_API Result<std::string> explain(const GemmArguments& arguments, const Target& target, bool json = false,
                                        Context& context = Context::process_default());

// The same and the emitted source as one self-contained HTML page, with the results of a tuning if there are any.
// Errors: those of find_kernels.
CODETTA_API Result<std::string> html_report(const GemmArguments& arguments, const Target& target,
                                            const TuneReport* tuned = nullptr,
                                            Context& context = Context::process_default());

// A default-made one holds nothing: its size is 0, its texts are empty, and a GEMM that it is given to is E0608.
class CODETTA_API PackedTensor {
 public:
  [[nodiscard]] const std::string& layout() const;  // "packed f32 nr=64 kc=512"
  [[nodiscard]] int64_t byte_size() const;
  [[nodiscard]] std::string serialize() const;  // header with layout, digest, family and ISA, then the panels
  static Result<PackedTensor> deserialize(std::string_view bytes);  // untrusted bytes; E0612
  [[nodiscard]] bool holds_weights() const { return state_ != nullptr; }
  [[nodiscard]] const driver::PackedState& state() const { return *state_; }  // holds_weights()

 private:
  friend struct driver::PackedState;
  std::shared_ptr<const driver::PackedState> state_;
};

}  // namespace codetta
