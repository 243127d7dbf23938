// SPDX-License-Identifier: Apache-2.0
// The typed builder of programs. What a call means is decided by the table (build_call.cpp, build_program.cpp), as it
// is for texts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "diag/display.hpp"
#include "frontend/graph_state.hpp"
#include "frontend/lower.hpp"
#include "frontend/parser_impl.hpp"
#include "types/dim_substitute.hpp"
#include "types/dtype.hpp"

namespace codetta {

using detail::GraphAccess;
using detail::GraphState;
using detail::ValueComparison;
using detail::ValueOperand;
using diag::Code;
using frontend::CallArgument;
using frontend::FunctionInfo;
using frontend::FunctionParameter;
using frontend::ParameterKind;
using ir::ValueId;
using types::Op;
using Kind = CallArgument::Kind;
using State = std::shared_ptr<GraphState>;

namespace {

constexpr int64_t most_parts = 1024;  // of a split
constexpr size_t max_depth = 100;     // of functions inside of functions

diag::ErrorBuilder& fault(const State& state, Code code, std::string headline) {
  return state->report->error(code, state->site, std::move(headline));
}

// What happens to the state from now on is the call's at this place.
void enter(const State& state, CallSite at) {
  state->site = at;
  state->builder.set_site(at);
}

GraphValue failed(const State& state) { return GraphAccess::make(state, ValueId()); }

// The id in `state`; invalid for what a failed operation gave, and, with a report, for a value of elsewhere or none.
ValueId id_in(const State& state, const GraphValue& value) {
  if (GraphAccess::state(value) == nullptr) {
    fault(state, Code::trace_empty_expression, "an expression holds no value")
        .reason(
            "a default-made GraphValue stands for nothing, and so does a call none of whose arguments is a builder's")
        .help("assign it the result of an operation first; calls of numbers alone are made by ProgramBuilder::call");
    return {};
  }
  if (GraphAccess::state(value) != state) {
    fault(state, Code::trace_foreign, "an expression of another builder or function is used")
        .reason("functions of branches and loops see their own operands only")
        .help("pass the value as an operand, and use what the function is given for it");
    return {};
  }
  return GraphAccess::id(value);
}

// Of a number or a bool.
std::optional<ir::LiteralAttr> literal_of(const Argument& argument) {
  using Literal = ir::LiteralAttr;
  const Argument::Variant& value = argument.value();
  if (const auto* real = std::get_if<double>(&value)) return Literal{Literal::Kind::Float, 0, *real};
  if (const auto* integer = std::get_if<int64_t>(&value)) return Literal{Literal::Kind::Int, *integer, 0};
  if (const auto* flag = std::get_if<bool>(&value)) return Literal{Literal::Kind::Bool, *flag ? 1 : 0, 0};
  return std::nullopt;
}

// Nullopt where it is no number.
std::optional<ValueId> number_id(const State& state, const Argument& argument) {
  if (const auto* large = std::get_if<uint64_t>(&argument.value())) return state->builder.unsigned_literal(*large, {});
  const auto literal = literal_of(argument);
  return literal ? std::optional(state->builder.literal(*literal, {})) : std::nullopt;
}

State state_of(const ValueOperand& operand) {
  const auto* value = std::get_if<GraphValue>(&operand.argument.value());
  return value == nullptr ? nullptr : GraphAccess::state(*value);
}

ValueId operand_id(const State& state, const ValueOperand& operand) {
  if (const auto number = number_id(state, operand.argument)) return *number;
  return id_in(state, *std::get_if<GraphValue>(&operand.argument.value()));
}

GraphValue apply(Op op, const ValueOperand& x, const ValueOperand* y) {
  State state = state_of(x);
  if (!state && y != nullptr) state = state_of(*y);
  if (!state) return {};
  enter(state, x.site);
  if (state->builder.full()) return failed(state);
  const ValueId a = operand_id(state, x), b = y != nullptr ? operand_id(state, *y) : ValueId();
  if (!a.valid() || (y != nullptr && !b.valid())) return failed(state);
  if (y == nullptr) return GraphAccess::make(state, state->builder.unary(op, a, {}));
  return GraphAccess::make(state, state->builder.op(op, {a, b}, {}, {}));
}

ValueComparison compared(Op op, const ValueOperand& x, const ValueOperand& y) {
  return ValueComparison(apply(op, x, &y));
}

std::optional<ir::Dim> size_of(const Size& size) {
  types::DimSyntaxError problem;
  return types::parse_dim(size.text(), &problem);
}

// With the names that sizes of the function have in the program.
ir::Dim as_named(const State& state, const ir::Dim& size) {
  if (state->renamed.empty()) return size;
  return types::substitute(size, [&](std::string_view symbol) -> std::optional<ir::Dim> {
    const auto known = state->renamed.find(symbol);
    return known == state->renamed.end() ? std::nullopt : std::optional(ir::Dim::symbol(known->second));
  });
}
std::optional<ir::Dim> size_in(const State& state, const Size& size) {
  const auto dim = size_of(size);
  return dim ? std::optional(as_named(state, *dim)) : dim;
}

std::optional<std::vector<ir::Dim>> sizes_of(const State& state, const Argument& argument) {
  std::vector<ir::Dim> out;
  const auto add = [&](const Size& size) {
    const auto dim = size_in(state, size);
    if (dim) out.push_back(*dim);
    return dim.has_value();
  };
  if (const auto* number = std::get_if<int64_t>(&argument.value())) {
    out.push_back(ir::Dim::constant(*number));
  } else if (const auto* text = std::get_if<std::string>(&argument.value())) {
    if (!add(*text)) return std::nullopt;
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&argument.value())) {
    for (const int64_t n : *numbers) out.push_back(ir::Dim::constant(n));
  } else if (const auto* sizes = std::get_if<std::vector<Size>>(&argument.value())) {
    for (const Size& size : *sizes) {
      if (!add(size)) return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return out;
}

bool is_size(const Argument& argument) {
  const auto* sizes = std::get_if<std::vector<Size>>(&argument.value());
  return sizes != nullptr ? sizes->size() == 1 : std::holds_alternative<int64_t>(argument.value());
}

std::string_view kind_of(const Argument& argument) {
  static constexpr std::array<std::string_view, std::variant_size_v<Argument::Variant>> kinds{
      "None",   "a value",  "values", "a bool",          "an integer",    "a float",
      "a text", "integers", "sizes",  "an element type", "several texts", "an integer of u64"};
  return kinds[argument.value().index()];
}

// A call on its way: arguments by the slots of emit_call.
class Call {
 public:
  Call(State state, std::string_view function) : state_(std::move(state)), name_(function) {}

  // As many values as the call has results, failed ones where something is wrong with it.
  std::vector<GraphValue> run(const std::vector<Argument>& arguments, const NamedArguments& named) {
    std::vector<GraphValue> values = made(arguments, named);
    if (values.empty()) values.assign(expected(arguments, named), failed(state_));
    return values;
  }

 private:
  std::vector<GraphValue> made(const std::vector<Argument>& arguments, const NamedArguments& named) {
    info_ = frontend::find_function(name_);
    const bool known = info_ != nullptr && info_->lowering != frontend::Lowering::Unavailable &&
                       info_->lowering != frontend::Lowering::Cond && info_->lowering != frontend::Lowering::WhileLoop;
    if (!known) {
      unknown_function();
      return {};
    }
    if (state_->builder.full() || !match(arguments, named)) return {};
    name_sizes();
    auto outcome = frontend::emit_call(state_->builder, *info_, slots_, {});
    if (const auto* problem = std::get_if<frontend::CallProblem>(&outcome)) {
      fault(state_, Code::argument_kind, fmt::format("{}: {}", name_, problem->headline))
          .reason(problem->reason)
          .help(problem->help);
      return {};
    }
    std::vector<GraphValue> values;
    for (const ValueId id : *std::get_if<std::vector<ValueId>>(&outcome))
      values.push_back(GraphAccess::make(state_, id));
    return values;
  }

  // How many results the caller will take: what `n` of split and `out` of the caller's functions say, else one.
  size_t expected(const std::vector<Argument>& arguments, const NamedArguments& named) const {
    const std::string name = info_ != nullptr ? name_ : frontend::nearest_function(name_);
    const auto argument = [&](std::string_view keyword, size_t at) -> const Argument::Variant* {
      for (const auto& [given, value] : named) {
        if (given == keyword) return &value.value();
      }
      return at < arguments.size() ? &arguments[at].value() : nullptr;
    };
    if (name == "split") {
      const auto* n = argument("n", 1);
      const auto* parts = n == nullptr ? nullptr : std::get_if<int64_t>(n);
      if (parts != nullptr && *parts > 0 && *parts <= most_parts) return static_cast<size_t>(*parts);
    } else if (const auto* out = argument("out", arguments.size())) {
      if (const auto* types = std::get_if<std::vector<std::string>>(out)) return std::max<size_t>(1, types->size());
    }
    return 1;
  }

  void unknown_function() {
    const std::string near = info_ == nullptr ? frontend::nearest_function(name_) : std::string();
    auto& error = fault(state_, Code::function_unknown,
                        fmt::format("function '{}' is not known", diag::displayable(name_.substr(0, 64))));
    if (info_ != nullptr && info_->lowering == frontend::Lowering::Unavailable) {
      error.reason("it is not in this version").help(fmt::format("write it as {}", info_->doc));
    } else if (info_ != nullptr) {
      error.reason("it takes functions").help(fmt::format("make it with codetta::{}()", name_));
    } else if (near.empty()) {
      error.reason("it is no function of the language").help("docs/language.md lists the functions");
    } else {
      error.reason("it is no function of the language")
          .help(fmt::format("did you mean {}?", frontend::signature(*frontend::find_function(near))));
    }
  }

  bool wrong_count(const std::string& headline) {
    fault(state_, Code::argument_count, headline)
        .reason(fmt::format("it is {}", frontend::signature(*info_)))
        .help("pass each argument once");
    return false;
  }

  bool match(const std::vector<Argument>& arguments, const NamedArguments& named) {
    const auto parameters = info_->all_parameters();
    const size_t rest_at = info_->rest_at();
    std::vector<std::vector<const Argument*>> given(parameters.size());
    size_t at = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      if (at == parameters.size()) return wrong_count(fmt::format("{} takes fewer arguments", name_));
      given[at].push_back(&argument);
      const bool more = i + 1 < arguments.size() && is_size(argument) && is_size(arguments[i + 1]);
      const bool list = std::holds_alternative<std::vector<GraphValue>>(argument.value()) ||
                        (std::holds_alternative<std::vector<Size>>(argument.value()) && !more);
      // Values and sizes one by one stay with the parameter that takes any number of them.
      if (at != rest_at || list) ++at;
    }
    for (const auto& [name, argument] : named) {
      size_t p = 0;
      while (p < parameters.size() && parameters[p].name != name) ++p;
      if (p == parameters.size()) {
        std::vector<std::string> names;
        for (const FunctionParameter& parameter : parameters) names.emplace_back(parameter.name);
        const std::string near = diag::nearest(name, names);
        fault(state_, Code::keyword_unknown,
              fmt::format("{} has no argument '{}'", name_, diag::displayable(name.substr(0, 64))))
            .reason(fmt::format("it is {}", frontend::signature(*info_)))
            .help(near.empty() ? "use one of its names" : fmt::format("did you mean '{}'?", near));
        return false;
      }
      if (!given[p].empty()) return wrong_count(fmt::format("argument '{}' of {} is given twice", name, name_));
      given[p].push_back(&argument);
    }
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (given[p].empty() && parameters[p].required)
        return wrong_count(fmt::format("{} lacks its argument '{}'", name_, parameters[p].name));
      if (given[p].empty()) slots_.emplace_back();
      for (const Argument* argument : given[p]) {
        if (!convert(parameters[p], *argument)) return false;
      }
    }
    return true;
  }

  // A dim that only the results of this call have, and whose name a function beside this one says of a size of its own,
  // gets another one, as in texts (Lowerer::name_sizes).
  void name_sizes() {
    const auto is_form = [](const CallArgument& slot) { return slot.kind == Kind::Text && slot.text == "alloc"; };
    const bool defines =
        info_->lowering == frontend::Lowering::CallExtern && std::any_of(slots_.begin() + 1, slots_.end(), is_form);
    const frontend::FunctionBuilder& builder = state_->builder;
    auto& renamed = state_->renamed;
    const auto made_up = [&](std::string_view symbol) {
      return std::any_of(renamed.begin(), renamed.end(), [&](const auto& one) { return one.second == symbol; });
    };
    for (CallArgument& slot : slots_) {
      for (ir::TensorType& type : slot.types) {
        for (ir::Dim& size : type.shape) {
          const auto symbol = size.as_symbol();
          const bool taken =
              symbol && (made_up(*symbol) || (builder.has_symbol(*symbol) && !builder.sees_symbol(*symbol)));
          if (defines && taken && renamed.find(*symbol) == renamed.end()) {
            std::string own;
            for (int n = 2; own.empty() || builder.has_symbol(own) || made_up(own); ++n)
              own = fmt::format("{}_{}", *symbol, n);
            renamed.emplace(*symbol, std::move(own));
          }
          size = as_named(state_, size);
        }
      }
    }
  }

  bool add_value(const GraphValue& value) {
    CallArgument slot;
    slot.kind = Kind::Value;
    slot.value = id_in(state_, value);
    slots_.push_back(slot);
    return slot.value.valid();
  }

  bool wrong_kind(const FunctionParameter& parameter, std::string_view expected, const Argument& given) {
    fault(state_, Code::argument_kind, fmt::format("argument '{}' of {} is not {}", parameter.name, name_, expected))
        .reason(fmt::format("it is {}; the function is {}", kind_of(given), frontend::signature(*info_)))
        .help(fmt::format("pass {}", expected));
    return false;
  }

  bool convert(const FunctionParameter& parameter, const Argument& argument) {
    const Argument::Variant& value = argument.value();
    CallArgument slot;
    switch (parameter.kind) {
      case ParameterKind::Value:
      case ParameterKind::Bound:
      case ParameterKind::Rest: {
        if (const auto* one = std::get_if<GraphValue>(&value)) return add_value(*one);
        if (const auto* list = std::get_if<std::vector<GraphValue>>(&value)) {
          if (parameter.kind != ParameterKind::Rest || list->empty())
            return wrong_kind(parameter, "one or more values", argument);
          return std::all_of(list->begin(), list->end(), [&](const GraphValue& v) { return add_value(v); });
        }
        slot.kind = Kind::Value;
        if (const auto number = number_id(state_, argument)) {
          slot.value = *number;
        } else if (parameter.kind == ParameterKind::Bound && std::holds_alternative<std::monostate>(value)) {
          slot.kind = Kind::None;
        } else {
          return wrong_kind(parameter, "a value or a number", argument);
        }
        break;
      }
      case ParameterKind::Text:
      case ParameterKind::Axis: {
        const auto* text = std::get_if<std::string>(&value);
        if (text == nullptr) return wrong_kind(parameter, "a text", argument);
        slot.kind = Kind::Text;
        slot.text = *text;
        break;
      }
      case ParameterKind::Integer:
      case ParameterKind::Integers:
      case ParameterKind::Dims: {
        const auto* list = std::get_if<std::vector<int64_t>>(&value);
        const auto* one = std::get_if<int64_t>(&value);
        if (one == nullptr && (list == nullptr || parameter.kind == ParameterKind::Integer))
          return wrong_kind(parameter, "an integer, or integers where it takes several", argument);
        slot.kind = Kind::Integers;
        slot.integers = one != nullptr ? std::vector{*one} : *list;
        break;
      }
      case ParameterKind::Shape:
      case ParameterKind::Sizes: {
        auto sizes = sizes_of(state_, argument);
        if (!sizes) return wrong_kind(parameter, "sizes", argument);
        slot.kind = Kind::Shape;
        slot.shape = std::move(*sizes);
        break;
      }
      case ParameterKind::Flag: {
        const auto* flag = std::get_if<bool>(&value);
        if (flag == nullptr) return wrong_kind(parameter, "true or false", argument);
        slot.kind = Kind::Flag;
        slot.flag = *flag;
        break;
      }
      case ParameterKind::DType: {
        const auto* dtype = std::get_if<DType>(&value);
        if (dtype == nullptr) return wrong_kind(parameter, "an element type", argument);
        slot.kind = Kind::DType;
        slot.dtype = *dtype;
        break;
      }
      case ParameterKind::Types: {
        const auto* one = std::get_if<std::string>(&value);
        const auto* list = std::get_if<std::vector<std::string>>(&value);
        slot.kind = Kind::Types;
        for (const std::string& text : one != nullptr    ? std::vector{*one}
                                       : list != nullptr ? *list
                                                         : std::vector<std::string>{}) {
          const auto type = frontend::type_of_text(text);
          if (!type) return wrong_kind(parameter, "types such as \"f32[m, n]\"", argument);
          slot.types.push_back(*type);
        }
        if (slot.types.empty()) return wrong_kind(parameter, "one or more types such as \"f32[m, n]\"", argument);
        break;
      }
      case ParameterKind::Function:
        return wrong_kind(parameter, "a function", argument);
    }
    slots_.push_back(std::move(slot));
    return true;
  }

  State state_;
  std::string name_;
  const FunctionInfo* info_ = nullptr;
  std::vector<CallArgument> slots_;
};

// The builder of the first value among the arguments.
State state_among(const std::vector<Argument>& arguments) {
  for (const Argument& argument : arguments) {
    if (const auto* value = std::get_if<GraphValue>(&argument.value()); value != nullptr && GraphAccess::state(*value))
      return GraphAccess::state(*value);
    const auto* values = std::get_if<std::vector<GraphValue>>(&argument.value());
    for (size_t i = 0; values != nullptr && i < values->size(); ++i) {
      if (GraphAccess::state((*values)[i])) return GraphAccess::state((*values)[i]);
    }
  }
  return nullptr;
}

// The function as one of a branch or loop, over operands with these numbers of dims; Absent where something is wrong.
// `returned`: how many results it gave.
CallArgument lower(const State& outer, const GraphFunction& function, const std::string& name,
                   const std::vector<int>& ranks, size_t* returned) {
  CallArgument argument;
  if (!function) {
    fault(outer, Code::trace_empty_expression, "a function of a branch or loop is empty")
        .reason("there is nothing to call")
        .help("pass a function that returns the results");
    return argument;
  }
  if (outer->depth == max_depth) {
    fault(outer, Code::too_deep, "functions are nested too deeply")
        .reason(fmt::format("at most {} inside of each other are built", max_depth))
        .help("merge functions");
    return argument;
  }
  const CallSite at = outer->site;
  const auto state = std::make_shared<GraphState>();
  state->report = outer->report;
  state->builder = frontend::FunctionBuilder(ir::Function{}, state->report.get());
  state->builder.set_inside(outer->builder);
  state->depth = outer->depth + 1;
  state->renamed = outer->renamed;
  enter(state, at);
  state->builder.function().name = name;
  std::vector<GraphValue> parameters;
  for (size_t i = 0; i < ranks.size(); ++i)
    parameters.push_back(GraphAccess::make(state, state->builder.parameter(fmt::format("x{}", i), {}, ranks[i])));
  const std::vector<GraphValue> results = function(parameters);
  enter(outer, at);  // the function may have used the outer builder
  enter(state, at);
  *returned = results.size();
  if (state->builder.full()) {
    fault(outer, Code::text_too_large, "a function of a branch or loop has too many operations")
        .reason(fmt::format("at most {} are built", frontend::max_values))
        .help("split it");
    return argument;
  }
  // A copy: values that the caller has kept still belong to the state.
  ir::Function body = state->builder.function();
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId id = id_in(state, results[i]);
    if (!id.valid()) return argument;
    state->builder.check_number(id);
    argument.ranks.push_back(state->builder.rank(id));
    body.outputs.push_back({fmt::format("r{}", i), id, {}, state->site});
  }
  if (results.empty()) {
    fault(outer, Code::return_missing, "a function of a branch or loop returns nothing")
        .reason("what it returns are the results")
        .help("return one value or more");
    return argument;
  }
  if (results.size() > frontend::max_outputs) {
    fault(outer, Code::text_too_large, fmt::format("a function of a branch or loop returns {} values", results.size()))
        .reason(fmt::format("at most {} are results", frontend::max_outputs))
        .help("join those that have one shape");
    return argument;
  }
  frontend::keep_reachable(body);
  argument.kind = Kind::Function;
  argument.function = std::make_shared<const ir::Function>(std::move(body));
  return argument;
}

std::vector<GraphValue> emit(const State& state, std::string_view name, const std::vector<CallArgument>& arguments) {
  auto outcome = frontend::emit_call(state->builder, *frontend::find_function(name), arguments, {});
  if (const auto* problem = std::get_if<frontend::CallProblem>(&outcome)) {
    fault(state, Code::argument_kind, fmt::format("{}: {}", name, problem->headline))
        .reason(problem->reason)
        .help(problem->help);
    return {};
  }
  std::vector<GraphValue> values;
  for (const ValueId id : *std::get_if<std::vector<ValueId>>(&outcome)) values.push_back(GraphAccess::make(state, id));
  return values;
}

// cond and while_loop: a predicate, if any, two functions, the values.
std::vector<GraphValue> control(std::string_view name, const GraphValue* predicate, const GraphFunction& first,
                                const GraphFunction& second, const std::vector<GraphValue>& values, CallSite at) {
  State state = predicate != nullptr ? GraphAccess::state(*predicate) : nullptr;
  if (!state) state = state_among({Argument(values)});
  if (!state) return std::vector<GraphValue>(std::max<size_t>(1, values.size()));
  enter(state, at);
  std::vector<CallArgument> arguments;
  std::vector<CallArgument> passed;
  std::vector<int> ranks;
  const auto add = [&](const GraphValue& value, std::vector<CallArgument>& list) {
    CallArgument slot;
    slot.kind = Kind::Value;
    slot.value = id_in(state, value);
    list.push_back(slot);
    return slot.value.valid();
  };
  // As many as the loop carries; of branches as the first returns, which is told when that was called.
  size_t results = std::max<size_t>(1, values.size());
  const auto nothing = [&] { return std::vector<GraphValue>(results, failed(state)); };
  if (predicate != nullptr && !add(*predicate, arguments)) return nothing();
  for (const GraphValue& value : values) {
    if (!add(value, passed)) return nothing();
    ranks.push_back(state->builder.rank(passed.back().value));
  }
  const bool loop = predicate == nullptr;
  for (const auto& [function, part] :
       {std::pair(&first, loop ? "condition" : "then"), {&second, loop ? "body" : "otherwise"}}) {
    size_t returned = 0;
    arguments.push_back(lower(state, *function, part, ranks, &returned));
    if (!loop && returned != 0) results = returned;
    if (arguments.back().kind != Kind::Function) return nothing();
  }
  if (passed.empty()) passed.emplace_back();
  arguments.insert(arguments.end(), passed.begin(), passed.end());
  auto made = emit(state, name, arguments);
  return made.empty() ? nothing() : made;
}

bool check_name(const State& state, const std::string& name, std::string_view what) {
  std::string reason;
  if (!base::is_identifier(name) || name.size() > frontend::Lexer::max_name) {
    reason = "it is not an identifier";
  } else if (frontend::is_keyword(name) || frontend::is_reserved(name, true)) {
    reason = "it is a name of the language";
  } else if (name == "_") {
    reason = "in text it stands for a result that is not wanted";
  }
  const ir::Function& function = state->builder.function();
  for (const ir::Parameter& parameter : function.parameters) {
    if (reason.empty() && parameter.name == name) reason = "an operand has that name";
  }
  for (const ir::Output& output : function.outputs) {
    if (reason.empty() && output.name == name) reason = "an output has that name";
  }
  if (reason.empty()) return true;
  fault(state, Code::trace_name, fmt::format("{} can not be named '{}'", what, diag::displayable(name.substr(0, 64))))
      .reason(reason)
      .help("choose another name");
  return false;
}

}  // namespace

GraphValue operator+(const ValueOperand& x, const ValueOperand& y) { return apply(Op::add, x, &y); }
GraphValue operator-(const ValueOperand& x, const ValueOperand& y) { return apply(Op::sub, x, &y); }
GraphValue operator*(const ValueOperand& x, const ValueOperand& y) { return apply(Op::mul, x, &y); }
GraphValue operator/(const ValueOperand& x, const ValueOperand& y) { return apply(Op::div, x, &y); }
GraphValue operator%(const ValueOperand& x, const ValueOperand& y) { return apply(Op::mod, x, &y); }
GraphValue floordiv(const ValueOperand& x, const ValueOperand& y) { return apply(Op::floordiv, x, &y); }
GraphValue operator-(const ValueOperand& x) { return apply(Op::neg, x, nullptr); }
ValueComparison operator==(const ValueOperand& x, const ValueOperand& y) { return compared(Op::eq, x, y); }
ValueComparison operator!=(const ValueOperand& x, const ValueOperand& y) { return compared(Op::ne, x, y); }
ValueComparison operator<(const ValueOperand& x, const ValueOperand& y) { return compared(Op::lt, x, y); }
ValueComparison operator<=(const ValueOperand& x, const ValueOperand& y) { return compared(Op::le, x, y); }
ValueComparison operator>(const ValueOperand& x, const ValueOperand& y) { return compared(Op::gt, x, y); }
ValueComparison operator>=(const ValueOperand& x, const ValueOperand& y) { return compared(Op::ge, x, y); }
GraphValue operator&(const ValueOperand& x, const ValueOperand& y) { return apply(Op::logical_and, x, &y); }
GraphValue operator|(const ValueOperand& x, const ValueOperand& y) { return apply(Op::logical_or, x, &y); }
GraphValue operator^(const ValueOperand& x, const ValueOperand& y) { return apply(Op::logical_xor, x, &y); }
GraphValue operator~(const ValueOperand& x) { return apply(Op::logical_not, x, nullptr); }

Size::Size(const GraphValue& value, CallSite at) {
  const State& state = GraphAccess::state(value);
  if (!state) return;  // an empty text, which is told where it is used
  enter(state, at);
  const ValueId id = GraphAccess::id(value);
  const auto size = id.valid() && !state->builder.full() ? state->builder.size_of(id, {}) : std::nullopt;
  text_ = size ? size->to_string() : "0";  // what is wrong has been told
}

GraphValue GraphValue::slice(int dim, const Size& start, const std::optional<Size>& stop, int64_t step,
                             CallSite at) const {
  if (!state_) return {};
  enter(state_, at);
  const ValueId id = id_in(state_, *this);
  const auto first = size_in(state_, start), last = stop ? size_in(state_, *stop) : std::optional(ir::Dim());
  if (!id.valid() || state_->builder.full()) return failed(state_);
  if (!first || !last || step < 1) {
    fault(state_, Code::argument_kind, "slice: a bound is not a size, or the step is less than 1")
        .reason(fmt::format("it is x[{}:{}:{}]", start.text(), stop ? stop->text() : "", step))
        .help("pass integers and sizes of the inputs' shapes, such as \"n // 2\"");
    return failed(state_);
  }
  const int rank = state_->builder.rank(id);
  const auto from_front = static_cast<int32_t>(dim < 0 && rank >= 0 ? dim + rank : dim);
  const ir::SliceAttr attr{from_front, *first, *last, step, stop ? ir::SliceBound::Stop : ir::SliceBound::Open};
  return GraphAccess::make(state_, state_->builder.op(Op::slice, {id}, attr, {}));
}

std::vector<GraphValue> call_all(std::string_view function, std::vector<Argument> arguments,
                                 const NamedArguments& named, CallSite at) {
  State state = state_among(arguments);
  if (!state) {
    for (const auto& [name, argument] : named) {
      if (!state) state = state_among({argument});
    }
  }
  if (!state) return std::vector<GraphValue>(1);
  enter(state, at);
  return Call(state, function).run(arguments, named);
}

GraphValue call(std::string_view function, std::vector<Argument> arguments, const NamedArguments& named, CallSite at) {
  return call_all(function, std::move(arguments), named, at)[0];
}

std::vector<GraphValue> cond(const GraphValue& predicate, const GraphFunction& then, const GraphFunction& otherwise,
                             std::vector<GraphValue> operands, CallSite at) {
  return control("cond", &predicate, then, otherwise, operands, at);
}

std::vector<GraphValue> while_loop(const GraphFunction& condition, const GraphFunction& body,
                                   std::vector<GraphValue> carried, CallSite at) {
  return control("while_loop", nullptr, condition, body, carried, at);
}

ProgramBuilder::ProgramBuilder(std::string name, CallSite at) : state_(std::make_shared<GraphState>()) {
  state_->report = std::make_shared<frontend::Report>(nullptr);
  state_->builder = frontend::FunctionBuilder(ir::Function{}, state_->report.get());
  enter(state_, at);
  if (check_name(state_, name, "program")) state_->builder.function().name = std::move(name);
}

GraphValue ProgramBuilder::input(const std::string& name, DType dtype, const std::vector<Size>& shape, CallSite at) {
  enter(state_, at);
  ir::TypeAnnotation type;
  type.dtype = dtype;
  if (!check_name(state_, name, "operand")) return failed(state_);
  std::string wrong;
  if (!types::is_valid(dtype)) wrong = fmt::format("element type number {} does not exist", static_cast<int>(dtype));
  if (shape.size() > static_cast<size_t>(max_rank))
    wrong = fmt::format("it has {} dims, and tensors have at most {}", shape.size(), max_rank);
  for (const Size& size : shape) {
    const auto dim = size_of(size);
    if (wrong.empty() && (!dim || dim->as_constant().value_or(0) < 0)) {
      wrong = fmt::format("the size '{}' is {}", diag::displayable(size.text().substr(0, 64)),
                          dim ? "less than 0" : "no number, symbol or arithmetic on them");
    }
    type.shape.push_back(dim.value_or(ir::Dim()));
    for (const std::string& symbol : type.shape.back().symbols()) {
      if (symbol.size() > frontend::Lexer::max_name)
        wrong = fmt::format("the size {}... has a name of {} characters, and names have at most {}",
                            symbol.substr(0, 32), symbol.size(), frontend::Lexer::max_name);
    }
  }
  if (!wrong.empty()) {
    fault(state_, Code::parameter_type, fmt::format("operand {} has no valid type", name.substr(0, 64)))
        .reason(wrong)
        .help("pass numbers and texts such as \"n\" or \"2*n\"");
    return failed(state_);
  }
  if (state_->builder.function().values.size() != state_->builder.function().parameters.size()) {
    fault(state_, Code::parameter_form, fmt::format("operand {} comes behind an operation", name))
        .reason("the operands of a program come first")
        .help("declare all inputs before the first operation");
    return failed(state_);
  }
  return GraphAccess::make(state_, state_->builder.parameter(name, {}, std::move(type)));
}

GraphValue ProgramBuilder::number(const std::string& name, DType dtype, CallSite at) {
  const GraphValue value = input(name, dtype, {}, at);
  if (GraphAccess::id(value).valid()) state_->builder.function().parameters.back().type->is_scalar = true;
  return value;
}

GraphValue ProgramBuilder::donated_input(const std::string& name, DType dtype, const std::vector<Size>& shape,
                                         CallSite at) {
  const GraphValue value = input(name, dtype, shape, at);
  if (GraphAccess::id(value).valid()) state_->builder.function().parameters.back().type->donated = true;
  return value;
}

GraphValue ProgramBuilder::literal(const Argument& number, CallSite at) {
  enter(state_, at);
  if (state_->builder.full()) return failed(state_);
  return GraphAccess::make(state_, *number_id(state_, number));
}

GraphValue ProgramBuilder::call(std::string_view function, std::vector<Argument> arguments, const NamedArguments& named,
                                CallSite at) {
  enter(state_, at);
  return Call(state_, function).run(arguments, named)[0];
}

void ProgramBuilder::output(const std::string& name, const GraphValue& value, CallSite at) {
  enter(state_, at);
  if (!check_name(state_, name, "output")) return;
  const ValueId id = id_in(state_, value);
  if (!id.valid()) return;
  ir::Function& function = state_->builder.function();
  ir::Value& named = function.values[id.index()];
  if (named.name.empty()) named.name = name;
  function.outputs.push_back({name, id, {}, at});
}

namespace frontend {

Result<ir::ProgramFunction> finish_program(const detail::GraphState& state, CallSite at) {
  Report report = *state.report;
  ir::Function function = state.builder.function();
  const auto at_most = [&](size_t most, size_t count, std::string_view what) {
    if (count <= most) return;
    report.error(Code::text_too_large, at, fmt::format("the program has {} {}", count, what))
        .reason(fmt::format("at most {} are bound", most))
        .help("join those that have one shape into one tensor");
  };
  at_most(max_operands, function.parameters.size(), "inputs");
  at_most(max_outputs, function.outputs.size(), "outputs");
  if (state.builder.full()) {
    report.error(Code::text_too_large, at, "the program has too many operations")
        .reason(fmt::format("at most {} are built", max_values))
        .help("split the program");
  }
  if (report.empty() && function.outputs.empty()) {  // what failed could not become one
    report.error(Code::return_missing, at, "the program has no outputs")
        .reason("what is computed is bound by name")
        .help("call output() for each result");
  }
  if (!report.empty()) return report.finish();
  finish_function(function, report);
  if (!report.empty()) return report.finish();
  function.source = std::make_shared<const diag::SourceText>("<" + function.name + ">", ir::print(function));
  // Positions in messages of later stages point into the printed function.
  auto parsed = parse_program(function.source, function.name);
  if (parsed && ir::equivalent(*parsed, function)) {
    parsed->source = ir::with_sites(*parsed, function);
    return parsed;
  }
  return ir::ProgramFunction{std::move(function)};
}

}  // namespace frontend
}  // namespace codetta
