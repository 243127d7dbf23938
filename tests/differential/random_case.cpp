// SPDX-License-Identifier: Apache-2.0
// Problems for random epilogues: views with every kind of strides over poisoned memory, and the run and its check.
#include "differential/random_case.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "base/result.hpp"
#include "codetta/fill.hpp"
#include "differential/random_epilogue_text.hpp"
#include "differential/refusals.hpp"
#include "driver/problem.hpp"
#include "ir/analyses.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::test {
namespace {

constexpr unsigned char untouched = 0xC7;

// Memory with a view in it, and room around that nothing may write.
struct Buffer {
  std::vector<unsigned char> bytes;
  TensorView view;

  // Offsets of the bytes that belong to the view.
  [[nodiscard]] std::vector<bool> own() const {
    std::vector<bool> result(bytes.size());
    const int64_t count = view.element_count(), size = dtype_size(view.dtype());
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (int d = view.rank() - 1; d >= 0; --d) {
        offset += rest % view.size(d) * view.stride(d);
        rest /= view.size(d);
      }
      const auto at = static_cast<size_t>(static_cast<unsigned char*>(view.data()) - bytes.data() + offset * size);
      for (int64_t b = 0; b < size; ++b) result[at + static_cast<size_t>(b)] = true;
    }
    return result;
  }
  // True when only the view's bytes may have changed since all were `untouched`.
  [[nodiscard]] bool surroundings_kept() const {
    const std::vector<bool> mine = own();
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (!mine[i] && bytes[i] != untouched) return false;
    }
    return true;
  }
};

class Case {
 public:
  // `probe`: a problem of a usual form, to see what can be expected of the epilogue.
  Case(const EpilogueSpec& spec, uint64_t seed, bool probe = false) : spec_(spec), probe_(probe), random_(seed) {}

  // Empty when fine.
  std::string run(const Epilogue& epilogue, CaseContexts& contexts, bool interpreted, CaseCounts& counts) {
    sizes();
    if (auto made = arguments(epilogue); !made) return "the test's own views: " + made.error().render();
    const Target target = random_target();
    const bool threaded = one_in(3);
    Context& context = contexts.pick(interpreted, threaded);
    where_ =
        fmt::format("M={} N={} K={} batch={} {}{}{}{}{}", m_, n_, k_, batch_, target.to_string(),
                    threaded ? " threads" : "", interpreted ? " interpreted" : "", arguments_.strict ? " strict" : "",
                    arguments_.rounding == Rounding::AsUnfused ? " as_unfused" : "");
    auto kernels = find_kernels(arguments_, target, {}, context);
    if (!kernels) return refused(kernels.error(), counts);
    if (kernels->empty()) return where_ + ": no kernel takes it\n" + describe();
    const size_t choice = one_in(2) ? 0 : pick(kernels->size());
    const Kernel& kernel = (*kernels)[choice];
    where_ += " " + kernel.metadata().name;
    GemmArguments call = arguments_;
    std::optional<PackedTensor> packed;
    if (one_in(6)) {
      if (auto made = kernel.pack(call.B)) packed = *std::move(made);
      if (packed) {
        call.packed_B = &*packed;
        where_ += " prepacked";
      }
    }
    auto execution = kernel.prepare(call);
    if (!execution) return refused(execution.error(), counts);
    if (const auto ran = execution->run(); !ran) return refused(ran.error(), counts);
    ++counts.runs;
    ++(execution->interpreted() || interpreted ? counts.interpreted : counts.compiled);
    for (const auto& buffer : outputs_) {
      if (!buffer->surroundings_kept()) return where_ + ": bytes outside an output were written\n" + describe();
    }
    const auto report = verify(arguments_, before_, target);
    if (!report) return where_ + ": verify failed: " + report.error().render() + describe();
    if (report->verdict == VerifyReport::Verdict::Fail) return where_ + ":\n" + report->text + describe();
    ++(report->verdict == VerifyReport::Verdict::Pass ? counts.passed : counts.mistrusted);
    if (probe_) cover(counts);
    return "";
  }

 private:
  size_t pick(size_t below) { return static_cast<size_t>(random_() % below); }
  bool one_in(size_t n) { return pick(n) == 0; }

  // A refusal counts as one only where the test proves it from the typed graph.
  std::string refused(const Error& error, CaseCounts& counts) {
    const uint16_t code = error.code();
    const auto problem = driver::make_problem(arguments_);
    Shared shared;
    for (const OutputSpec& output : spec_.outputs) {
      if (!output.same_as.empty()) shared.emplace_back(output.same_as, output.name);
    }
    if (!problem || !is_refusal_right(problem->bound, code, shared)) {
      return where_ + ": refused, and the test sees no reason: " + error.render() + describe();
    }
    ++counts.refused;
    ++counts.reasons[fmt::format("E{:04}", code)];
    return "";
  }

  // Operations with the dtype that they compute in.
  void cover(CaseCounts& counts) const {
    const auto problem = driver::make_problem(arguments_);
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

  void sizes() {
    const auto size = [&]() -> int64_t {
      if (one_in(100)) return 0;
      if (one_in(6)) return 1;
      if (one_in(4)) return 16 * static_cast<int64_t>(1 + pick(4));
      return 1 + static_cast<int64_t>(pick(70));
    };
    m_ = probe_ ? 21 : size();
    n_ = spec_.fixed_n != 0 ? spec_.fixed_n : probe_ ? 18 : size();
    k_ = probe_ ? 40 : one_in(200) ? 0 : one_in(10) ? 64 + static_cast<int64_t>(pick(400)) : 1 + size();
    batch_ = !spec_.batched ? 0 : probe_ ? 2 : one_in(50) ? 0 : 1 + static_cast<int64_t>(pick(3));
  }

  [[nodiscard]] Dims concrete(const std::vector<int64_t>& shape) const {
    Dims result;
    for (const int64_t dim : shape)
      result.push_back(dim == dim_m ? m_ : dim == dim_n ? n_ : dim == dim_batch ? batch_ : dim);
    return result;
  }

  // Row-major, another order of the dims, padded, with gaps between elements, reversed; operands may also repeat
  // memory.
  Result<std::unique_ptr<Buffer>> buffer(DType dtype, const Dims& shape, bool is_input) {
    auto result = std::make_unique<Buffer>();
    const int rank = shape.rank();
    std::vector<int> order;
    for (int d = rank - 1; d >= 0; --d) order.push_back(d);
    const size_t form = pick(8);
    if (form == 1 && rank >= 2) std::swap(order[0], order[1]);
    if (form == 2) std::shuffle(order.begin(), order.end(), random_);
    Dims strides = shape;
    int64_t next = form == 3 ? 2 : 1, extent = 1;
    for (const int d : order) {
      const bool repeated = is_input && form == 4 && one_in(3), reversed = form == 5 && one_in(2);
      strides[d] = repeated ? 0 : reversed ? -next : next;
      if (!repeated) next = next * std::max<int64_t>(shape[d], 1) + (form == 6 ? static_cast<int64_t>(pick(5)) : 0);
    }
    int64_t first = static_cast<int64_t>(pick(4));
    extent = first + next + 4;
    for (int d = 0; d < rank; ++d) {
      if (strides[d] < 0 && shape[d] > 0) first -= strides[d] * (shape[d] - 1);
    }
    const int64_t size = dtype_size(dtype);
    const auto elements = static_cast<size_t>(extent * 2 + 64);
    result->bytes.assign(elements * static_cast<size_t>(size) + 8, untouched);
    auto* base = result->bytes.data() + (8 - reinterpret_cast<uintptr_t>(result->bytes.data()) % 8) % 8;
    CODETTA_TRY(result->view, TensorView::make(static_cast<void*>(base + first * size), dtype, shape, strides));
    return result;
  }

  Result<TensorView> input(DType dtype, const Dims& shape) {
    CODETTA_TRY(auto made, buffer(dtype, shape, true));
    const bool factor = inputs_.size() < 2;
    const auto form = one_in(4)              ? Distribution::Positive
                      : one_in(6) && !factor ? Distribution::Small
                                             : Distribution::Normal;
    fill_random(made->view, random_(), form);
    const TensorView view = made->view;
    if (!probe_ && one_in(40) && types::is_float(dtype) && !view.empty()) special(view);
    inputs_.push_back(std::move(made));
    return view;
  }

  // A few NaN, infinities, zeros and tiny numbers, through a view of one element.
  void special(const TensorView& view) {
    for (int i = 0; i < 3; ++i) {
      int64_t offset = 0;
      for (int d = 0; d < view.rank(); ++d)
        offset += static_cast<int64_t>(pick(static_cast<size_t>(view.size(d)))) * view.stride(d);
      const double values[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -0.0,
                               1e-40, -1e4};
      const double value = values[pick(5)];
      types::Scalar::from_f64(value, view.dtype()).store(view.as<unsigned char>() + offset * dtype_size(view.dtype()));
    }
  }

  Result<void> arguments(const Epilogue& epilogue) {
    Dims a{m_, k_}, b{k_, n_};
    if (spec_.batched) {
      const size_t form = pick(3);
      if (form != 1) a = {batch_, m_, k_};
      if (form != 2) b = {batch_, k_, n_};
    }
    CODETTA_TRY(arguments_.A, input(spec_.a, a));
    CODETTA_TRY(arguments_.B, input(spec_.b, b));
    std::vector<NamedArgument> named;
    std::map<std::string, TensorView> operands;
    for (const ParameterSpec& parameter : spec_.parameters) {
      if (parameter.is_number) {
        named.push_back({parameter.name, parameter.integral ? ArgumentValue(static_cast<int64_t>(parameter.number))
                                                            : ArgumentValue(parameter.number)});
        continue;
      }
      const bool overwritten = std::any_of(spec_.outputs.begin(), spec_.outputs.end(),
                                           [&](const OutputSpec& o) { return o.same_as == parameter.name; });
      TensorView view;
      if (overwritten) {
        CODETTA_TRY(auto made, buffer(parameter.dtype, concrete(parameter.shape), false));
        fill_random(made->view, random_());
        view = made->view;
        // What it held, for the check.
        auto copy = std::make_unique<Buffer>(*made);
        const auto moved = copy->bytes.data() + (8 - reinterpret_cast<uintptr_t>(copy->bytes.data()) % 8) % 8;
        const auto base = made->bytes.data() + (8 - reinterpret_cast<uintptr_t>(made->bytes.data()) % 8) % 8;
        std::memcpy(moved, base, made->bytes.size() - 8);
        CODETTA_TRY(copy->view, TensorView::make(static_cast<void*>(moved + (view.as<unsigned char>() - base)),
                                                 view.dtype(), view.shape(), view.strides()));
        before_.emplace_back(parameter.name, copy->view);
        inputs_.push_back(std::move(copy));
        inputs_.push_back(std::move(made));
      } else {
        CODETTA_TRY(view, input(parameter.dtype, concrete(parameter.shape)));
      }
      operands.emplace(parameter.name, view);
      named.push_back({parameter.name, view});
    }
    for (const OutputSpec& output : spec_.outputs) {
      TensorView view;
      if (!output.same_as.empty()) {
        view = operands.at(output.same_as);
      } else {
        CODETTA_TRY(auto made, buffer(output.dtype, concrete(output.shape), false));
        fill_poison(made->view);
        view = made->view;
        outputs_.push_back(std::move(made));
      }
      named.push_back({output.name, view});
    }
    arguments_.epilogue = EpilogueArguments(epilogue, std::move(named));
    arguments_.strict = one_in(8);
    if (one_in(10)) arguments_.rounding = Rounding::AsUnfused;
    return {};
  }

  Target random_target() {
    Target target = Target::host();
    const std::array<CpuIsa, 6> levels = {CpuIsa::generic,     CpuIsa::avx2,        CpuIsa::avx512,
                                          CpuIsa::avx512_vnni, CpuIsa::avx512_bf16, CpuIsa::neon};
    const CpuIsa wanted = levels[pick(levels.size())];
    if (!one_in(4) && cpu_supports(wanted)) target.isa = wanted;
    return target;
  }

  [[nodiscard]] std::string describe() const {
    std::string text = spec_.text;
    const auto add = [&](const std::string& name, const TensorView& view) {
      text += fmt::format("  {}: {} strides {}\n", name, view.describe(), to_string(view.strides()));
    };
    add("A", arguments_.A);
    add("B", arguments_.B);
    for (const NamedArgument& argument : arguments_.epilogue.arguments()) {
      if (const TensorView* view = argument.value.tensor()) {
        add(argument.name, *view);
      } else if (const auto* real = std::get_if<double>(&argument.value.value())) {
        text += fmt::format("  {} = {}\n", argument.name, *real);
      } else if (const auto* integer = std::get_if<int64_t>(&argument.value.value())) {
        text += fmt::format("  {} = {}\n", argument.name, *integer);
      }
    }
    return text;
  }

  const EpilogueSpec& spec_;
  bool probe_ = false;
  std::mt19937_64 random_;
  int64_t m_ = 0, n_ = 0, k_ = 0, batch_ = 0;
  GemmArguments arguments_;
  std::vector<std::unique_ptr<Buffer>> inputs_, outputs_;
  std::vector<std::pair<std::string, TensorView>> before_;
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

std::vector<std::string> run_case(uint64_t seed, int problems, bool tape, CaseContexts& contexts, CaseCounts& counts) {
  std::mt19937_64 random(seed ^ 0x9E3779B97F4A7C15u);
  const bool compiled = !tape && random() % 3 == 0;
  ++counts.epilogues;
  EpilogueSpec spec;
  std::optional<Epilogue> epilogue;
  const auto failed = [&](std::string text) {
    ++counts.failed;
    return std::vector<std::string>{std::move(text)};
  };
  constexpr int most_draws = 12;
  for (int draw = 0; draw < most_draws; ++draw) {
    spec = random_epilogue_text(seed + static_cast<uint64_t>(draw) * 0x632BE59BD9B4E019u);
    auto parsed = Epilogue::parse(spec.text);
    if (!parsed) return failed("the text was not taken: " + parsed.error().render() + spec.text);
    // Every fourth goes the way of its printed form, which must say the same.
    if (random() % 4 == 0) {
      parsed = Epilogue::parse(parsed->to_string());
      if (!parsed) return failed("the printed form was not taken: " + parsed.error().render() + spec.text);
    }
    epilogue = *std::move(parsed);
    CaseCounts probe;
    std::string failure = Case(spec, random(), true).run(*epilogue, contexts, true, probe);
    if (!failure.empty()) return failed(std::move(failure));
    const bool vague = probe.mistrusted != 0 && draw + 1 < most_draws;
    if (vague) {
      ++counts.redrawn;
      continue;
    }
    for (const auto& [what, count] : probe.covered) counts.covered[what] += count;
    break;
  }
  std::vector<std::string> failures;
  for (int i = 0; i < problems; ++i) {
    std::string failure = Case(spec, random()).run(*epilogue, contexts, !compiled || i > 0, counts);
    if (failure.empty()) continue;
    ++counts.failed;
    failures.push_back(std::move(failure));
  }
  return failures;
}

}  // namespace codetta::test
