// SPDX-License-Identifier: Apache-2.0
// Bytes as calls of ProgramBuilder and EpilogueTracer: whatever is called, with whatever arguments, in whatever order,
// is refused with a diagnostic at the end, or gives a graph that verifies, passes the optimizer and is planned.
#include <array>

#include "codetta/epilogue.hpp"
#include "codetta/graph.hpp"
#include "frontend/functions.hpp"
#include "frontend/graph_state.hpp"
#include "opt/passes.hpp"
#include "plan/memory_check.hpp"
#include "problem.hpp"
#include "support.hpp"

namespace {

using namespace codetta;
using namespace codetta::fuzz;
using frontend::FunctionParameter;
using frontend::ParameterKind;

constexpr int most_calls = 120, most_depth = 3;

DType dtype_from(Choices& choices) { return static_cast<DType>(choices.next() % dtype_count); }

template <class T, size_t N>
const T& pick(Choices& choices, const T (&from)[N]) {
  return from[choices.next() % N];
}

int64_t integer_from(Choices& choices) {
  constexpr int64_t odd[] = {INT64_MIN, INT64_MAX, INT32_MAX, int64_t{1} << 32, int64_t{1} << 62};
  const uint8_t byte = choices.next();
  return byte >= 250 ? odd[byte - 250 < 5 ? byte - 250 : 0] : byte >= 200 ? 200 - int64_t{byte} : byte % 17;
}

Size size_from(Choices& choices) {
  constexpr const char* texts[] = {
      "n",     "m", "n // 2", "2 * n", "n + m", "n - 1", "n % 4", "(n",
      "0 - n", "",  "n // 0", "n.m",   "3.5",   "_",     "batch", "9223372036854775807 * 2"};
  const uint8_t byte = choices.next();
  if (byte < 64) return pick(choices, texts);
  if (byte < 72) return size_from(choices) * size_from(choices) + size_from(choices);
  return integer_from(choices);
}

std::vector<Size> sizes_from(Choices& choices) {
  std::vector<Size> sizes;
  for (int rank = choices.next() % 5; rank > 0; --rank) sizes.push_back(size_from(choices));
  return sizes;
}
std::vector<int64_t> integers_from(Choices& choices) {
  std::vector<int64_t> integers;
  for (int count = choices.next() % 5; count > 0; --count) integers.push_back(integer_from(choices));
  return integers;
}

std::string text_from(Choices& choices) {
  constexpr const char* texts[] = {"tanh",   "none", "row", "column",    "all", "sum",        "max",    "min",
                                   "f32[n]", "bf16", "",    "f32[2, n]", "mul", "f32[n // 2", "i64[0]", "\xff\"\n"};
  return pick(choices, texts);
}

std::string name_from(Choices& choices) {
  constexpr const char* names[] = {"x", "y", "z", "w", "D", "F", "accum", "relu", "lambda", "", "a b", "\xc3\x28"};
  const uint8_t byte = choices.next();
  if (byte < 128) return "v" + std::to_string(byte);
  return pick(choices, names);
}

class ProgramCalls {
 public:
  explicit ProgramCalls(Choices& choices) : choices_(choices), values_{builder_.input("x", DType::f32, {"n", 8})} {}

  void run() {
    while (!choices_.used_up() && calls_ < most_calls) call_once();
    if (choices_.next() % 8 != 7) builder_.output("out", value());
    const auto function = frontend::finish_program(*detail::GraphAccess::state(builder_), {});
    if (!function) return check_error(function.error(), 100, 299);
    const auto bound = ir::bind_program(*function);
    if (!bound) return check_error(bound.error(), 100, 603);  // E0603: sizes that multiply to none
    require(ir::verify(*bound).has_value());
    const auto optimized = opt::optimize(*bound);
    require(optimized.has_value() && ir::verify(optimized->graph).has_value());
    const auto plan = plan::plan_program(optimized->graph, Target{}, {}, {});
    if (!plan) return check_error(plan.error(), 300, 603);  // E0603: temporaries beyond 2^63 bytes
    require(plan::check_memory(plan->temporaries, plan->memory).has_value());
    require(!plan::to_string(*plan).empty());
  }

 private:
  GraphValue value() {
    const uint8_t byte = choices_.next();
    if (byte == 255) return {};
    if (byte == 254) return foreign_.input("x", DType::f32, {4});
    return values_[values_.size() - 1 - byte % values_.size()];
  }
  std::vector<GraphValue> several(size_t most) {
    std::vector<GraphValue> list;
    for (size_t count = choices_.next() % (most + 1); count > 0; --count) list.push_back(value());
    return list;
  }
  void keep(GraphValue value) { values_.push_back(std::move(value)); }

  Argument number() {
    switch (choices_.next() % 4) {
      case 0:
        return integer_from(choices_);
      case 1:
        return choices_.next() % 2 == 1;
      default:
        return (static_cast<double>(choices_.next()) - 128.0) / 16.0;
    }
  }
  Argument argument(ParameterKind kind) {
    switch (kind) {
      case ParameterKind::Value:
        return choices_.next() % 4 == 3 ? number() : Argument(value());
      case ParameterKind::Bound:
        return choices_.next() % 4 == 3 ? Argument() : number();
      case ParameterKind::Rest:
        return several(4);
      case ParameterKind::Text:
      case ParameterKind::Axis:
      case ParameterKind::Function:
        return text_from(choices_);
      case ParameterKind::Integer:
        return integer_from(choices_);
      case ParameterKind::Integers:
        return integers_from(choices_);
      case ParameterKind::Dims:
        return choices_.next() % 2 == 0 ? Argument(integer_from(choices_)) : Argument(integers_from(choices_));
      case ParameterKind::Shape:
      case ParameterKind::Sizes:
        return choices_.next() % 4 == 3 ? Argument(size_from(choices_)) : Argument(sizes_from(choices_));
      case ParameterKind::Flag:
        return choices_.next() % 2 == 1;
      case ParameterKind::DType:
        return dtype_from(choices_);
      case ParameterKind::Types:
        return std::vector<std::string>{text_from(choices_), text_from(choices_)};
    }
    return {};
  }

  // Mostly what the function takes; now and then a kind, a name or a number of arguments that it does not.
  void call_function() {
    const auto functions = frontend::all_functions();
    const auto& function = functions[choices_.next() % functions.size()];
    const uint8_t wrong = choices_.next();
    std::vector<Argument> positional;
    NamedArguments named;
    for (const FunctionParameter& parameter : function.all_parameters()) {
      const uint8_t how = choices_.next();
      if (!parameter.required && how % 2 == 0) continue;
      const ParameterKind kind = how == 255 ? static_cast<ParameterKind>(choices_.next() % 14) : parameter.kind;
      if (!named.empty() || how % 8 == 7 || !parameter.required) {
        named.emplace_back(parameter.name, argument(kind));
      } else {
        positional.push_back(argument(kind));
      }
    }
    if (wrong == 255) positional.push_back(number());
    if (wrong == 254) named.emplace_back(text_from(choices_), number());
    if (wrong == 253 && !positional.empty()) positional.pop_back();
    const std::string name = wrong == 252 ? text_from(choices_) : std::string(function.name);
    switch (choices_.next() % 4) {
      case 0:
        for (GraphValue& result : call_all(name, positional, named)) keep(std::move(result));
        break;
      case 1:
        keep(builder_.call(name, positional, named));
        break;
      default:
        keep(call(name, positional, named));
    }
  }

  // Values made inside belong there; some leak out all the same, which finish() must notice.
  GraphFunction inside() {
    if (choices_.next() == 255) return {};
    return [this](std::vector<GraphValue> operands) {
      const std::vector<GraphValue> outer = values_;
      if (choices_.next() % 16 != 15) values_ = operands;
      if (values_.empty()) values_.emplace_back();
      ++depth_;
      for (int calls = choices_.next() % 4; calls > 0; --calls) call_once();
      --depth_;
      std::vector<GraphValue> results = choices_.next() % 4 == 3 ? several(3) : operands;
      if (!results.empty() && choices_.next() % 2 == 1) results.back() = value();
      if (choices_.next() % 16 != 15) values_ = outer;
      return results;
    };
  }

  void call_once() {
    ++calls_;
    const uint8_t what = choices_.next() % 32;
    switch (what) {
      case 0:
        return keep(builder_.input(name_from(choices_), dtype_from(choices_), sizes_from(choices_)));
      case 1:
        return keep(builder_.number(name_from(choices_), dtype_from(choices_)));
      case 2:
        return keep(builder_.constant(integer_from(choices_)));
      case 3:
        return keep(builder_.constant(static_cast<double>(integer_from(choices_)) / 3.0));
      case 4:
        return builder_.output(name_from(choices_), value());
      case 5:
        return keep(value().slice(choices_.next() % 4 - 1, size_from(choices_),
                                  choices_.next() % 2 == 0 ? std::optional<Size>() : size_from(choices_),
                                  integer_from(choices_)));
      case 6:
        if (depth_ >= most_depth) return;
        {
          const GraphValue predicate = value();
          const GraphFunction then = inside(), otherwise = inside();
          for (GraphValue& result : cond(predicate, then, otherwise, several(3))) keep(std::move(result));
        }
        return;
      case 7:
        if (depth_ >= most_depth) return;
        {
          const GraphFunction condition = inside(), body = inside();
          for (GraphValue& result : while_loop(condition, body, several(3))) keep(std::move(result));
        }
        return;
      case 8:
        return keep(choices_.next() % 2 == 0 ? -value() : ~value());
      case 9:
      case 10:
        return binary();
      default:
        return call_function();
    }
  }

  void binary() {
    using Operator = GraphValue (*)(const GraphValue&, const GraphValue&);
    static constexpr std::array<Operator, 15> operators = {
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x + y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x - y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x * y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x / y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x % y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return floordiv(x, y); },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x == y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x != y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x < y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x <= y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x > y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x >= y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x & y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x | y; },
        [](const GraphValue& x, const GraphValue& y) -> GraphValue { return x ^ y; }};
    const Operator apply = operators[choices_.next() % operators.size()];
    const GraphValue x = value(), y = value();
    keep(apply(x, y));
  }

  Choices& choices_;
  ProgramBuilder builder_, foreign_;
  std::vector<GraphValue> values_;
  int calls_ = 0, depth_ = 0;
};

// Calls of the tracer, then bindings for what it made.
class TracerCalls {
 public:
  TracerCalls(Choices& choices, std::string_view bindings) : choices_(choices), bindings_(bindings) {}

  void run() {
    const auto epilogue = Epilogue::trace([&](EpilogueTracer& tracer) {
      values_ = {tracer.accum()};
      for (int calls = 0; !choices_.used_up() && calls < most_calls; ++calls) call_once(tracer);
      if (choices_.next() % 8 != 7) tracer.output("D", value());
    });
    if (!epilogue) return check_error(epilogue.error(), 100, 199);
    const auto again = Epilogue::parse(epilogue->to_string());
    require(again.has_value() && again->parameters() == epilogue->parameters() &&
            again->outputs() == epilogue->outputs());
    const Bindings bindings = bindings_of(*epilogue->function(), bindings_);
    const auto bound = ir::bind_epilogue(*epilogue->function(), bindings.arguments, bindings.facts);
    if (!bound) return check_error(bound.error(), 200, 299);
    (void)checked_plan(*bound, bindings);
  }

 private:
  Expr value() {
    const uint8_t byte = choices_.next();
    if (byte == 255) return {};
    if (byte == 254) return EpilogueTracer().input("C");
    if (byte >= 248) return static_cast<double>(integer_from(choices_)) / 3.0;
    if (byte >= 240) return integer_from(choices_);
    return values_[values_.size() - 1 - byte % values_.size()];
  }
  std::vector<int> dims() {
    std::vector<int> list;
    for (const int64_t dim : integers_from(choices_)) list.push_back(static_cast<int>(dim));
    return list;
  }
  ReduceOver over() {
    const uint8_t byte = choices_.next();
    return byte < 192 ? ReduceOver(static_cast<Axis>(byte % 3)) : ReduceOver(dims());
  }

  void call_once(EpilogueTracer& tracer) {
    const uint8_t what = choices_.next();
    const Expr x = value();
    switch (what % 16) {
      case 0:
        values_.push_back(tracer.input(name_from(choices_)));
        return;
      case 1:
        return tracer.output(name_from(choices_), x);
      case 2:
        values_.push_back(permute(x, dims()));
        return;
      case 3:
        values_.push_back(reshape(x, integers_from(choices_)));
        return;
      case 4: {
        const auto parts = split(x, static_cast<int>(integer_from(choices_)), static_cast<int>(integer_from(choices_)));
        values_.insert(values_.end(), parts.begin(), parts.end());
        return;
      }
      case 5:
        values_.push_back(join({x, value()}, static_cast<int>(integer_from(choices_)), choices_.next() % 2 == 1));
        return;
      case 6:
        values_.push_back(cast(x, dtype_from(choices_)));
        return;
      case 7:
        values_.push_back(where(x, value(), value()));
        return;
      case 8:
        values_.push_back(clamp(x, value(), value()));
        return;
      case 9:
        values_.push_back(dropout(x, value(), value()));
        return;
      case 10:
        values_.push_back(gelu(x, text_from(choices_)));
        return;
      case 11:
      case 12:
        return reduce(x);
      case 13:
        return unary(x);
      default:
        return binary(x);
    }
  }
  void reduce(const Expr& x) {
    using Reduce = Expr (*)(const Expr&, const ReduceOver&, bool, CallSite);
    static constexpr std::array<Reduce, 7> reductions = {sum, max, min, mean, amax, sum_of_squares, logsumexp};
    const uint8_t byte = choices_.next();
    values_.push_back(reductions[byte % reductions.size()](x, over(), byte < 128, CallSite::current()));
  }
  void unary(const Expr& x) {
    using Unary = Expr (*)(const Expr&, CallSite);
    static constexpr std::array<Unary, 16> functions = {[](const Expr& y, CallSite) { return -y; },
                                                        [](const Expr& y, CallSite) { return ~y; },
                                                        reciprocal,
                                                        sqrt,
                                                        rsqrt,
                                                        abs,
                                                        sign,
                                                        floor,
                                                        exp,
                                                        log,
                                                        tanh,
                                                        erf,
                                                        relu,
                                                        sigmoid,
                                                        silu,
                                                        mish};
    values_.push_back(functions[choices_.next() % functions.size()](x, CallSite::current()));
  }
  void binary(const Expr& x) {
    using Binary = Expr (*)(const Expr&, const Expr&);
    static constexpr std::array<Binary, 14> functions = {[](const Expr& y, const Expr& z) { return y + z; },
                                                         [](const Expr& y, const Expr& z) { return y - z; },
                                                         [](const Expr& y, const Expr& z) { return y * z; },
                                                         [](const Expr& y, const Expr& z) { return y / z; },
                                                         [](const Expr& y, const Expr& z) { return y % z; },
                                                         [](const Expr& y, const Expr& z) { return floordiv(y, z); },
                                                         [](const Expr& y, const Expr& z) -> Expr { return y < z; },
                                                         [](const Expr& y, const Expr& z) -> Expr { return y == z; },
                                                         [](const Expr& y, const Expr& z) { return y & z; },
                                                         [](const Expr& y, const Expr& z) { return y | z; },
                                                         [](const Expr& y, const Expr& z) { return y ^ z; },
                                                         [](const Expr& y, const Expr& z) { return minimum(y, z); },
                                                         [](const Expr& y, const Expr& z) { return maximum(y, z); },
                                                         [](const Expr& y, const Expr& z) { return pow(y, z); }};
    values_.push_back(functions[choices_.next() % functions.size()](x, value()));
  }

  Choices& choices_;
  std::string_view bindings_;
  std::vector<Expr> values_;
};

}  // namespace

// A byte that says which of both, the calls, and for the tracer, behind half of the bytes, the bindings.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = view_of(data, size);
  if (bytes.empty()) return 0;
  if (bytes[0] % 2 == 0) {
    Choices choices(bytes.substr(1));
    ProgramCalls(choices).run();
    return 0;
  }
  const std::string_view calls = bytes.substr(1, size / 2);
  Choices choices(calls);
  TracerCalls(choices, bytes.substr(1 + calls.size())).run();
  return 0;
}
