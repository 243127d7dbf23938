// SPDX-License-Identifier: Apache-2.0
// A random epilogue on random problems: the run and its check.
#include "differential/random_case.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "differential/random_problem.hpp"
#include "differential/refusals.hpp"
#include "differential/together.hpp"
#include "differential/traced_form.hpp"
#include "driver/kernel_state.hpp"
#include "driver/problem.hpp"
#include "ir/analyses.hpp"

namespace codetta::test {
namespace {

class Case {
 public:
  // `probe`: a problem of a usual form, to see what can be expected of the epilogue. Cases with equal `form` differ in
  // sizes and data only, so that what one compiles serves the others, too.
  // `flags` decides what the compiler is told.
  Case(const EpilogueSpec& spec, uint64_t seed, uint64_t form, uint64_t flags, bool probe = false)
      : spec_(spec), probe_(probe), problem_(spec, seed, probe, form), flags_(flags) {}

  // Of several that are compiled, only the first takes what has a source of its own.
  void keep_source() { keeps_ = problem_.usual_sizes = true; }
  void set_many_empty(bool many) { problem_.many_empty = many; }

  // Empty when fine.
  std::string run(const Epilogue& epilogue, CaseContexts& contexts, const CompiledSources& sources, bool interpreted,
                  CaseCounts& counts) {
    if (std::string failure = choose(epilogue, contexts, interpreted, counts); !failure.empty() || !kernel_)
      return failure;
    return run_chosen(sources, interpreted, counts);
  }

  // The kernel that a run compiles; null where it is refused.
  package::PackageRef package(const Epilogue& epilogue, CaseContexts& contexts) {
    CaseCounts counts;
    if (!choose(epilogue, contexts, false, counts).empty() || !kernel_) return nullptr;
    auto made = driver::KernelState::of(*kernel_).package();
    return made ? *std::move(made) : nullptr;
  }

 private:
  // Draws the problem and picks one of its kernels; none where that is refused.
  std::string choose(const Epilogue& epilogue, CaseContexts& contexts, bool interpreted, CaseCounts& counts) {
    problem_.sizes();
    if (auto made = problem_.arguments(epilogue); !made) return "the test's own views: " + made.error().render();
    vary_call();
    const Target target = random_target();
    const bool threaded = form_in(3);
    target_ = target;
    Context& context = contexts.pick(interpreted, threaded);
    where_ = fmt::format("M={} N={} K={} batch={} {}{}{}{}{}", problem_.m, problem_.n, problem_.k, problem_.batch,
                         target.to_string(), threaded ? " threads" : "", interpreted ? " interpreted" : "",
                         problem_.call.strict ? " strict" : "",
                         problem_.call.rounding == Rounding::AsUnfused ? " as_unfused" : "");
    auto kernels = find_kernels(problem_.call, target, {}, context);
    if (!kernels) return refused(kernels.error(), counts);
    if (kernels->empty()) return where_ + ": no kernel takes it\n" + problem_.describe();
    size_t choice = one_in(2) ? 0 : pick(kernels->size());
    for (size_t i = 0; i < kernels->size() && keeps_ && fused((*kernels)[choice]); ++i)
      choice = (choice + 1) % kernels->size();
    kernel_ = (*kernels)[choice];
    where_ += " " + kernel_->metadata().name;
    return "";
  }

  // As Kernel::prepare, with what was compiled together with others.
  Result<Execution> prepare(const GemmArguments& call, const CompiledSources& sources) const {
    const driver::KernelState& state = driver::KernelState::of(*kernel_);
    CODETTA_TRY(const package::PackageRef package, state.package());
    const runtime::KernelEntry* entry = sources.find(package->kernels[0]);
    if (entry == nullptr) return kernel_->prepare(call);
    CODETTA_TRY(const driver::Problem problem, driver::gather_problem(call));
    CODETTA_TRY(runtime::Bindings bindings, driver::make_bindings(*package, problem));
    if (call.packed_B != nullptr) bindings.packed_b[0] = call.packed_B->state().packed;
    const driver::ContextState& context = *state.found->context;
    CODETTA_TRY(runtime::Execution execution,
                runtime::Execution::make(package, {*entry}, std::move(bindings), {context.pool, context.allocator}));
    return driver::ExecutionState::make(std::move(execution), package, package, 0);
  }

  std::string run_chosen(const CompiledSources& sources, bool interpreted, CaseCounts& counts) {
    const Kernel& kernel = *kernel_;
    GemmArguments call = problem_.call;
    std::optional<PackedTensor> packed;
    if (one_in(6)) {
      if (auto made = kernel.pack(call.B)) packed = *std::move(made);
      if (packed) {
        call.packed_B = &*packed;
        where_ += " prepacked";
      }
    }
    auto execution = interpreted ? kernel.prepare(call) : prepare(call, sources);
    if (!execution) return refused(execution.error(), counts);
    if (const auto ran = execution->run(); !ran) return refused(ran.error(), counts);
    ++counts.runs;
    ++(execution->interpreted() || interpreted ? counts.interpreted : counts.compiled);
    for (const auto& buffer : problem_.outputs) {
      if (!buffer->surroundings_kept())
        return where_ + ": bytes outside an output were written\n" + problem_.describe();
    }
    const auto report = verify(problem_.call, problem_.before, target_);
    if (!report) return where_ + ": verify failed: " + report.error().render() + problem_.describe();
    if (report->verdict == VerifyReport::Verdict::Fail) return where_ + ":\n" + report->text + problem_.describe();
    ++(report->verdict == VerifyReport::Verdict::Pass ? counts.passed : counts.mistrusted);
    if (probe_) cover(counts);
    return "";
  }

  size_t pick(size_t below) { return problem_.pick(below); }
  bool one_in(size_t n) { return problem_.one_in(n); }
  bool form_in(size_t n) { return problem_.form_in(n); }
  // Fully fused kernels have a source of their own.
  static bool fused(const Kernel& kernel) { return kernel.metadata().family == "fused"; }

  // What the CPU's kernels take besides: a wider accumulator, D as `out`, arguments in any order.
  void vary_call() {
    GemmArguments& call = problem_.call;
    call.strict = flags_() % 8 == 0;
    const bool integers = spec_.a == DType::i8 || spec_.a == DType::u8;
    if (form_in(16) && !integers) call.accumulator = DType::f64;
    std::vector<NamedArgument> named = call.epilogue.arguments();
    const auto d = std::find_if(named.begin(), named.end(), [](const NamedArgument& a) { return a.name == "D"; });
    if (d != named.end() && form_in(4)) {
      call.out = *d->value.tensor();
      if (form_in(2)) named.erase(d);
    }
    if (form_in(4)) std::shuffle(named.begin(), named.end(), problem_.form);
    call.epilogue = EpilogueArguments(*call.epilogue.epilogue(), std::move(named));
  }

  // A refusal counts as one only where the test proves it from the typed graph.
  std::string refused(const Error& error, CaseCounts& counts) {
    const uint16_t code = error.code();
    const auto problem = driver::make_problem(problem_.call);
    Shared shared;
    for (const OutputSpec& output : spec_.outputs) {
      if (!output.same_as.empty()) shared.emplace_back(output.same_as, output.name);
    }
    const bool of_gpus = code == 610;
    if (!problem || of_gpus || !is_refusal_right(problem->bound, code, shared)) {
      return where_ + ": refused, and the test sees no reason: " + error.render() + problem_.describe();
    }
    ++counts.refused;
    ++counts.reasons[fmt::format("E{:04}", code)];
    return "";
  }

  // Operations with the dtype that they compute in.
  void cover(CaseCounts& counts) const {
    const auto problem = driver::make_problem(problem_.call);
    if (!problem) return;
    const ir::Graph& graph = problem->bound;
    std::map<std::string, int64_t> here;
    for (uint32_t n = 0; n < graph.size(); ++n) {
      const ir::NodeId id(n);
      const types::OpInfo& info = types::op_info(graph.node(id).op);
      if (info.rule == types::OpRule::special || info.rule == types::OpRule::matmul) continue;
      const bool compares = info.rule == types::OpRule::compare;
      here[fmt::format("{} {}", info.name,
                       dtype_name(compares ? ir::operand_dtype(graph, id) : graph.type(id).dtype))] = 1;
    }
    for (const auto& [what, count] : here) counts.covered[what] += count;
  }

  Target random_target() {
    Target target = Target::host();
    const std::array<CpuIsa, 6> levels = {CpuIsa::generic,     CpuIsa::avx2,        CpuIsa::avx512,
                                          CpuIsa::avx512_vnni, CpuIsa::avx512_bf16, CpuIsa::neon};
    const CpuIsa wanted = levels[static_cast<size_t>(flags_() % levels.size())];
    if (flags_() % 4 != 0 && cpu_supports(wanted)) target.isa = wanted;
    return target;
  }

  const EpilogueSpec& spec_;
  bool probe_ = false, keeps_ = false;
  RandomProblem problem_;
  std::mt19937_64 flags_;
  Target target_;
  std::optional<Kernel> kernel_;
  std::string where_;
};

}  // namespace

Result<CaseContexts> CaseContexts::make() {
  CaseContexts result;
  for (const bool interpreted : {false, true}) {
    for (const int threads : {1, 3}) {
      ContextOptions options;
      options.cache_enabled = false;
      options.no_compiler = interpreted;
      options.threads = threads;
      CODETTA_TRY(Context context, Context::make(options));
      result.contexts_.push_back(std::move(context));
    }
  }
  return result;
}

DrawnCase draw_case(uint64_t seed, uint64_t flags, bool tape, CaseContexts& contexts, CaseCounts& counts) {
  DrawnCase drawn;
  std::mt19937_64& random = drawn.random;
  random.seed(seed ^ 0x9E3779B97F4A7C15u);
  drawn.compiled = !tape && random() % 3 == 0;
  drawn.flags = flags;
  ++counts.epilogues;
  EpilogueSpec& spec = drawn.spec;
  const auto failed = [&](std::string text) {
    ++counts.failed;
    drawn.failures.push_back(std::move(text));
    drawn.epilogue.reset();
    return std::move(drawn);
  };
  constexpr int most_draws = 12;
  for (int draw = 0; draw < most_draws; ++draw) {
    spec = random_epilogue_text(seed + static_cast<uint64_t>(draw) * 0x632BE59BD9B4E019u);
    auto parsed = Epilogue::parse(spec.text);
    if (!parsed) return failed("the text was not taken: " + parsed.error().render() + spec.text);
    // Some go the way of their printed form, or of the C++ functions, which must say the same.
    const uint64_t way = random() % 8;
    if (way < 2) {
      parsed = Epilogue::parse(parsed->to_string());
      if (!parsed) return failed("the printed form was not taken: " + parsed.error().render() + spec.text);
    } else if (way < 4) {
      parsed = traced_form(*parsed);
      if (!parsed) return failed("the C++ form was not taken: " + parsed.error().render() + spec.text);
    }
    drawn.epilogue = *std::move(parsed);
    CaseCounts probe;
    const uint64_t probe_seed = random();
    Case problem(spec, probe_seed, random(), random(), true);
    std::string failure = problem.run(*drawn.epilogue, contexts, {}, true, probe);
    if (!failure.empty()) return failed(std::move(failure));
    const bool vague = probe.mistrusted != 0 && draw + 1 < most_draws;
    if (vague) {
      ++counts.redrawn;
      continue;
    }
    for (const auto& [what, count] : probe.covered) counts.covered[what] += count;
    break;
  }
  drawn.form = random();
  return drawn;
}

// Where sizes are constants of the program, each has a source of its own.
bool shares_source(const DrawnCase& drawn) { return drawn.compiled && drawn.spec.fixed_n == 0; }

// Of those that could share one, the first sometimes has sizes of 1, or a kernel with a source of its own.
bool has_own_source(const DrawnCase& drawn, int problem) { return problem == 0 && drawn.form % 4 == 1; }

void want_source(const DrawnCase& drawn, CaseContexts& contexts, CompiledSources& sources) {
  if (!drawn.compiled || !drawn.epilogue || drawn.form % 8 == 0) return;
  const auto want = [&](Case problem) {
    problem.set_many_empty(drawn.many_empty);
    if (const auto package = problem.package(*drawn.epilogue, contexts)) sources.want(package->kernels[0]);
  };
  std::mt19937_64 random = drawn.random;  // as run_case will draw the first problem
  if (!shares_source(drawn)) {
    const uint64_t seed = random();
    return want({drawn.spec, seed, random(), drawn.flags});
  }
  if (has_own_source(drawn, 0)) want({drawn.spec, random(), drawn.form, drawn.flags});
  Case shared(drawn.spec, random(), drawn.form, drawn.flags);
  shared.keep_source();
  want(std::move(shared));
}

std::vector<std::string> run_case(DrawnCase& drawn, int problems, CaseContexts& contexts,
                                  const CompiledSources& sources, CaseCounts& counts) {
  if (!drawn.epilogue) return drawn.failures;
  const bool shares = shares_source(drawn);
  std::mt19937_64& random = drawn.random;
  std::vector<std::string> failures;
  for (int i = 0; i < problems; ++i) {
    const bool interpreted = !drawn.compiled || (i > 0 && !shares);
    constexpr int most_problems = 4;
    for (int draw = 0; draw < most_problems; ++draw) {
      CaseCounts one;
      const uint64_t seed = random();
      Case problem(drawn.spec, seed, shares ? drawn.form : random(), i == 0 || shares ? drawn.flags : seed);
      problem.set_many_empty(drawn.many_empty);
      if (shares && !has_own_source(drawn, i)) problem.keep_source();
      std::string failure = problem.run(*drawn.epilogue, contexts, sources, interpreted, one);
      if (!failure.empty()) {
        ++(is_unfinished(failure) ? one.unfinished : one.failed);
        failures.push_back(std::move(failure));
      }
      if (one.mistrusted != 0 && draw + 1 < most_problems) {  // nothing wrong, but the data say too little
        ++counts.redrawn_problems;
        continue;
      }
      counts.add(one);
      break;
    }
  }
  return failures;
}

}  // namespace codetta::test
