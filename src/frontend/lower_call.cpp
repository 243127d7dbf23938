// SPDX-License-Identifier: Apache-2.0
// Calls: which argument belongs to which parameter, and what the ones that are no tensors say.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/lower_impl.hpp"
#include "frontend/recipes.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;

namespace {

bool is_value(ParameterKind kind) {
  return kind == ParameterKind::Value || kind == ParameterKind::Bound || kind == ParameterKind::Rest;
}

// What an epilogue says instead of a function that belongs to programs.
std::string in_epilogue(const FunctionInfo& info) {
  switch (info.lowering) {
    case Lowering::Matmul:
      return "use accum, or write a program with typed parameters";
    case Lowering::Transpose:
      return "write permute(x, indices=(1, 0))";
    case Lowering::Concat:
      return "write join(x, y, dim=-1)";
    case Lowering::Softmax:
      return info.op == types::Op::sub ? "write D = x - logsumexp(x, dim=-1)"
                                       : "write e = exp(x - max(x, dim=-1)); D = e / sum(e, dim=-1)";
    case Lowering::LayerNorm:
      return "write c = x - mean(x, dim=-1); D = c * rsqrt(mean(c * c, dim=-1) + 1e-5)";
    case Lowering::RmsNorm:
      return "write D = x * rsqrt(mean(x * x, dim=-1) + 1e-6)";
    case Lowering::Cond:
      return "write D = where(condition, a, b)";
    default:
      return "write a program: def f(a: f32[\"m\", \"k\"], b: f32[\"k\", \"n\"]): C = a @ b; ...";
  }
}

std::string count_text(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

// Finds the callee and matches arguments; the children of the frame are the arguments that are values.
void Lowerer::prepare_call(Frame& frame) {
  const Expr& expr = module_[frame.id];
  const std::string_view callee = module_.name_of(expr.a);
  const Span span = module_[expr.a].span;
  frame.call = std::make_unique<PendingCall>();
  PendingCall& call = *frame.call;
  call.failed = true;
  if (const auto found = functions_.find(callee); found != functions_.end()) {
    call.helper = found->second;
    call.failed = !match_helper(call, expr);
  } else if (const FunctionInfo* info = find_function(callee); info == nullptr) {
    const bool shown = !report_.full();
    auto& error = report_.error(Code::function_unknown, span, fmt::format("function '{}' is not known", callee));
    const std::string near = shown ? nearest_function(callee) : std::string();
    error.reason("it is neither a function of the language nor defined in this text");
    const std::string_view recipe = recipe_for(callee, program_);
    error.help(callee == "float" || callee == "int" ? "write the number itself, as 0.5, inf or nan, or cast(x, f32)"
               : !recipe.empty()                    ? fmt::format("write {}", recipe)
               : near.empty() ? "define it in the same text, or see docs/language.md for the functions"
                              : fmt::format("did you mean {}?", signature(*find_function(near))));
  } else if (info->lowering == Lowering::Unavailable) {
    report_.error(Code::not_in_version, span, fmt::format("function '{}' is not in this version", callee))
        .reason("it is planned for programs")
        .help(fmt::format("write {}", info->doc));
  } else if (info->program_only() && !program_) {
    report_.error(Code::program_only, span, fmt::format("function '{}' belongs to programs", callee))
        .reason(info->lowering == Lowering::Matmul      ? "an epilogue follows one product, whose result is accum"
                : info->lowering == Lowering::Transpose ? "the number of dimensions is not known in an epilogue"
                                                        : "an epilogue says what happens to one element")
        .help(in_epilogue(*info));
  } else {
    call.builtin = info;
    call.failed = !match_builtin(call, expr);
  }
  if (call.failed) {  // arguments that stand alone are still looked at, for their own mistakes
    call.operand_slots.clear();
    frame.children.clear();
    for (uint32_t i = 0; i < expr.count; ++i) {
      const ast::Argument& argument = module_.arguments[expr.first + i];
      const auto [kind, at] = std::pair(module_[argument.value].kind, module_[argument.value].span);
      if (at.begin <= size_told_at_.begin && size_told_at_.end <= at.end) continue;
      const bool looks_like_value =
          kind == ExprKind::Unary || kind == ExprKind::Binary || kind == ExprKind::Call || kind == ExprKind::Subscript;
      if (looks_like_value && !argument.keyword.known()) frame.children.push_back(argument.value);
    }
    return;
  }
  for (const size_t slot : call.operand_slots) frame.children.push_back(call.argument_exprs[slot]);
}

void Lowerer::unknown_keyword(Span keyword, const std::vector<std::string>& names, std::string_view callee) {
  const std::string word(text(keyword));
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
  auto& error = report_.error(Code::keyword_unknown, keyword, fmt::format("{} has no argument '{}'", callee, word));
  error.reason(names.empty() ? std::string("it takes no arguments") : fmt::format("its arguments are {}", list));
  std::string near = diag::nearest(word, names);
  static constexpr std::pair<std::string_view, std::string_view> other_words[] = {
      {"input", "x"},      {"self", "x"},       {"a_min", "min"},       {"a_max", "max"},
      {"axes", "indices"}, {"dims", "indices"}, {"shape", "new_shape"}, {"other", "y"},
      {"exponent", "y"},   {"axis", "dim"},     {"dtype_", "dtype"},    {"slope", "negative_slope"},
      {"chunks", "n"}};
  for (const auto& [other, ours] : other_words) {
    if (near.empty() && word == other && std::find(names.begin(), names.end(), ours) != names.end()) near = ours;
  }
  // One of the names, cut short or prolonged.
  for (const std::string& name : names) {
    const size_t common = std::min(name.size(), word.size());
    if (near.empty() && common >= 3 && name.compare(0, common, word, 0, common) == 0) near = name;
  }
  if (word == "keepdims" && near.empty()) near = "keepdim";
  if (word == "inplace" || word == "out") {
    error.help("leave it out: every function gives a new value");
  } else if (!near.empty()) {
    error.help(fmt::format("did you mean '{}'?", near));
  } else {
    error.help("remove the argument");
  }
}

bool Lowerer::match_builtin(PendingCall& call, const Expr& expr) {
  const FunctionInfo& info = *call.builtin;
  const auto parameters = info.all_parameters();
  const Span callee = module_[expr.a].span;
  size_t positional = 0;
  while (positional < expr.count && !module_.arguments[expr.first + positional].keyword.known()) ++positional;
  // The slots: parameters in order, with as many for the one that takes any number of arguments as there are.
  const size_t rest_at = info.rest_at();
  const bool variadic = info.variadic();
  size_t taken = positional;  // by parameters up to that one
  if (variadic && parameters[rest_at].kind == ParameterKind::Sizes && positional > rest_at + 1) {
    const Expr& last = module_[module_.arguments[expr.first + positional - 1].value];  // zeros(m, n, f32)
    if (last.kind == ExprKind::Name && dtype_from_name(text(last.span)) && !is_size(text(last.span))) --taken;
  }
  const size_t rest = variadic ? std::max<size_t>(taken, rest_at + 1) - rest_at : 0;
  const size_t slots = parameters.size() + (variadic ? rest - 1 : 0);
  const auto parameter_of = [&](size_t slot) -> const FunctionParameter& {
    return slot < rest_at          ? parameters[slot]
           : slot < rest_at + rest ? parameters[rest_at]
                                   : parameters[slot - rest + 1];
  };
  if (!variadic && positional > parameters.size()) {
    const Span extra = module_[module_.arguments[expr.first + parameters.size()].value].span;
    report_
        .error(
            Code::argument_count, extra,
            fmt::format("{} takes {}, {} are given", info.name, count_text(parameters.size(), "argument"), positional))
        .reason(fmt::format("it is {}", signature(info)))
        .help(info.lowering == Lowering::Reduce
                  ? "write maximum(x, y) or minimum(x, y) for the larger or smaller of two"
                  : "remove the argument");
    return false;
  }
  if (positional > 1 && (info.name == "max" || info.name == "min")) {  // max(accum, 0) is meant as relu
    const ExprId id = module_.arguments[expr.first + 1].value;
    const Expr& second = module_[id];
    const std::string_view said = text(second.span);
    const std::string_view other = said.size() <= 24 && said.find('\n') == std::string_view::npos ? said : "y";
    report_.error(Code::argument_kind, second.span, fmt::format("the second argument of {} has no name", info.name))
        .reason(fmt::format("{} reduces a tensor; {}(x, {}) reads like the {} of two values", info.name, info.name,
                            other, info.name == "max" ? "larger" : "smaller"))
        .help(fmt::format("write {}imum(x, {}) for the {} of the two, or {}(x, dim={}) for a reduction", info.name,
                          other, info.name == "max" ? "larger" : "smaller", info.name,
                          integer_argument(id) ? other : "-1"));
    return false;
  }
  call.arguments.assign(slots, {});
  call.argument_exprs.assign(slots, ExprId());
  bool good = true;
  for (size_t i = 0; i < expr.count; ++i) {
    const ast::Argument& argument = module_.arguments[expr.first + i];
    size_t slot = i;
    if (!argument.keyword.known() && i >= positional) {  // behind a keyword: the parser reported it
      good = false;
      continue;
    }
    if (argument.keyword.known()) {
      const std::string_view word = text(argument.keyword);
      slot = 0;
      while (slot < slots && (parameter_of(slot).name != word || parameter_of(slot).kind == ParameterKind::Rest))
        ++slot;
      if (slot == slots) {
        std::vector<std::string> names;
        for (const FunctionParameter& parameter : parameters) {
          if (parameter.kind != ParameterKind::Rest) names.emplace_back(parameter.name);
        }
        unknown_keyword(argument.keyword, names, info.name);
        good = false;
        continue;
      }
      if (call.argument_exprs[slot].valid()) {
        report_.error(Code::keyword_duplicate, argument.keyword, fmt::format("argument '{}' is given twice", word))
            .note("given here, too", module_.source, module_[call.argument_exprs[slot]].span)
            .help("remove one of them");
        good = false;
        continue;
      }
    }
    call.argument_exprs[slot] = argument.value;
  }
  for (size_t slot = 0; slot < slots; ++slot) {
    const FunctionParameter& parameter = parameter_of(slot);
    const ExprId id = call.argument_exprs[slot];
    if (!id.valid()) {
      if (!parameter.required || !good) continue;
      report_.error(Code::argument_count, callee, fmt::format("{} lacks its argument '{}'", info.name, parameter.name))
          .reason(fmt::format("it is {}", signature(info)))
          .help(fmt::format("add '{}'", parameter.name));
      good = false;
    } else if (parameter.kind == ParameterKind::Bound && module_[id].kind == ExprKind::None) {
      call.arguments[slot].kind = CallArgument::Kind::None;
    } else if (is_value(parameter.kind)) {
      call.operand_slots.push_back(slot);
    } else if (parameter.kind == ParameterKind::Function) {
      const auto found =
          module_[id].kind == ExprKind::Name ? functions_.find(text(module_[id].span)) : functions_.end();
      if (found != functions_.end()) {
        call.functions.emplace_back(slot, found->second);
      } else {
        bad_argument(info, parameter, id, "the name of a function of this text",
                     "define it beside this function, and write its name without parentheses");
        good = false;
      }
    } else if (auto converted = convert(info, parameter, id)) {
      call.arguments[slot] = std::move(*converted);
    } else {
      good = false;
    }
  }
  return good;
}

// False, with a report, where a call of the function would never end or is too deep.
bool Lowerer::may_enter(const ast::Function& function, Span span) {
  if (std::find(active_.begin(), active_.end(), &function) != active_.end()) {
    auto& error = report_.error(Code::recursion, span, fmt::format("'{}' calls itself", text(function.name)));
    error.reason(active_.back() == &function ? "calls are inlined, and this one would never end"
                                             : "calls are inlined, and this chain of calls would never end");
    error.help("write the steps one by one");
    return false;
  }
  if (active_.size() > max_inlining) {
    report_.error(Code::too_deep, span, "calls are nested too deeply")
        .reason(fmt::format("at most {} calls inside of each other are inlined", max_inlining))
        .help("merge functions");
    return false;
  }
  return true;
}

bool Lowerer::match_helper(PendingCall& call, const Expr& expr) {
  const ast::Function& function = *call.helper;
  const std::string_view callee = text(function.name);
  const Span span = module_[expr.a].span;
  if (!may_enter(function, span)) return false;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    names.emplace_back(text(module_.parameters[function.first_parameter + i].name));
  }
  call.argument_exprs.assign(names.size(), ExprId());
  size_t positional = 0;
  bool good = true;
  for (size_t i = 0; i < expr.count; ++i) {
    const ast::Argument& argument = module_.arguments[expr.first + i];
    size_t slot = positional;
    if (!argument.keyword.known() && i != positional) {  // behind a keyword: the parser reported it
      good = false;
      continue;
    }
    if (argument.keyword.known()) {
      slot = static_cast<size_t>(std::find(names.begin(), names.end(), text(argument.keyword)) - names.begin());
      if (slot == names.size()) {
        unknown_keyword(argument.keyword, names, callee);
        good = false;
        continue;
      }
    } else if (++positional > names.size()) {
      report_
          .error(Code::argument_count, module_[argument.value].span,
                 fmt::format("{} takes {}, more are given", callee, count_text(names.size(), "argument")))
          .note("defined here", module_.source, function.name)
          .help("remove the argument");
      return false;
    }
    if (call.argument_exprs[slot].valid()) {
      report_.error(Code::keyword_duplicate, argument.keyword, fmt::format("argument '{}' is given twice", names[slot]))
          .note("given here, too", module_.source, module_[call.argument_exprs[slot]].span)
          .help("remove one of them");
      good = false;
      continue;
    }
    call.argument_exprs[slot] = argument.value;
  }
  for (size_t slot = 0; slot < names.size() && good; ++slot) {
    if (!call.argument_exprs[slot].valid()) {
      report_.error(Code::argument_count, span, fmt::format("{} lacks its argument '{}'", callee, names[slot]))
          .note("defined here", module_.source, function.name)
          .help(fmt::format("add '{}'", names[slot]));
      return false;
    }
    call.operand_slots.push_back(slot);
  }
  return good;
}

void Lowerer::bad_argument(const FunctionInfo& info, const FunctionParameter& parameter, ExprId id,
                           std::string expected, std::string help) {
  if (module_[id].kind == ExprKind::Invalid) return;
  report_
      .error(Code::argument_kind, module_[id].span,
             fmt::format("argument '{}' of {} is {}", parameter.name, info.name, expected))
      .reason(fmt::format("it is {}, and known when the text is read", signature(info)))
      .help(std::move(help));
}

std::optional<int64_t> Lowerer::integer_argument(ExprId id) const {
  const Expr& expr = module_[id];
  const bool negative = expr.kind == ExprKind::Unary && expr.op == types::Op::neg;
  const Expr& number = negative ? module_[expr.a] : expr;
  if (number.kind != ExprKind::Int || number.integer > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  const auto value = static_cast<int64_t>(number.integer);
  return negative ? -value : value;
}

// "f32[m, n]" or a tuple of such texts.
std::optional<CallArgument> Lowerer::types_argument(const FunctionInfo& info, const FunctionParameter& parameter,
                                                    ExprId id) {
  const Expr& expr = module_[id];
  const bool tuple = expr.kind == ExprKind::Tuple;
  CallArgument out;
  out.kind = CallArgument::Kind::Types;
  for (uint32_t i = 0; i < (tuple ? expr.count : 1); ++i) {
    const ExprId element = tuple ? module_.elements[expr.first + i] : id;
    std::optional<ir::TensorType> type;
    if (module_[element].kind == ExprKind::String) type = type_of_text(module_.strings[module_[element].first]);
    if (!type) {
      bad_argument(
          info, parameter, element, "a type such as \"f32[m, n]\", or a tuple of them",
          fmt::format("write {}=\"f32[m, 64]\"; sizes are numbers and symbols of the parameters", parameter.name));
      return std::nullopt;
    }
    for (ir::Dim& size : type->shape) size = size_of_text(size, module_[element].span);
    out.types.push_back(std::move(*type));
  }
  if (!out.types.empty() && out.types.size() <= max_outputs) return out;
  bad_argument(info, parameter, id, fmt::format("one to {} types", max_outputs),
               fmt::format("write {}=(\"f32[m, n]\", \"i32[m]\")", parameter.name));
  return std::nullopt;
}

std::optional<CallArgument> Lowerer::convert(const FunctionInfo& info, const FunctionParameter& parameter, ExprId id) {
  const Expr& expr = module_[id];
  CallArgument out;
  const bool tuple = expr.kind == ExprKind::Tuple;
  const auto element = [&](uint32_t i) { return tuple ? module_.elements[expr.first + i] : id; };
  const uint32_t count = tuple ? expr.count : 1;
  switch (parameter.kind) {
    case ParameterKind::Value:
    case ParameterKind::Bound:
    case ParameterKind::Rest:
    case ParameterKind::Function:
      break;
    case ParameterKind::Types:
      return types_argument(info, parameter, id);
    case ParameterKind::Text:
    case ParameterKind::Axis:
      if (expr.kind == ExprKind::None && parameter.kind == ParameterKind::Axis) return out;
      if (expr.kind == ExprKind::String) {
        out.kind = CallArgument::Kind::Text;
        out.text = module_.strings[expr.first];
        return out;
      }
      bad_argument(info, parameter, id, "a string",
                   parameter.kind == ParameterKind::Axis
                       ? "write axis=\"row\", axis=\"column\" or axis=\"all\", or dim=-1"
                   : info.lowering == Lowering::Approximate ? fmt::format("write {}=\"tanh\"", parameter.name)
                                                            : "write it in quotes");
      return std::nullopt;
    case ParameterKind::Dims:
      if (expr.kind == ExprKind::None) return out;
      [[fallthrough]];
    case ParameterKind::Integer:
    case ParameterKind::Integers:
      out.kind = CallArgument::Kind::Integers;
      for (uint32_t i = 0; i < count; ++i) {
        const auto number = integer_argument(element(i));
        if (number && (!tuple || parameter.kind != ParameterKind::Integer)) {
          out.integers.push_back(*number);
          continue;
        }
        const bool single = parameter.kind == ParameterKind::Integer;
        std::string help =
            single ? fmt::format("write {}=2", parameter.name) : fmt::format("write {}=(0, 1)", parameter.name);
        if (info.lowering == Lowering::Reduce) {
          help = (info.name == "max" || info.name == "min") && module_[element(i)].kind != ExprKind::Float
                     ? fmt::format("write {}(x, dim=-1); the {} of two values is {}imum(x, y)", info.name,
                                   info.name == "max" ? "larger" : "smaller", info.name)
                     : fmt::format("write {}(x, dim=-1) or {}(x, axis=\"row\")", info.name, info.name);
        }
        bad_argument(info, parameter, element(i), single ? "an integer" : "an integer or a tuple of integers",
                     std::move(help));
        return std::nullopt;
      }
      return out;
    case ParameterKind::Shape:
    case ParameterKind::Sizes:
      out.kind = CallArgument::Kind::Shape;
      for (uint32_t i = 0; i < count; ++i) {
        auto size = size_argument(element(i));
        if (!size && size_is_told(Code::argument_kind)) return std::nullopt;
        if (!size) {
          bad_argument(info, parameter, element(i), "a tuple of integers and dimensions",
                       info.lowering == Lowering::Reshape
                           ? "write new_shape=(-1, 64); symbolic dimensions are strings: (\"batch\", 64)"
                           : "write integers, sizes of the parameters' types, such as n // 2, and single integers that "
                             "the program computes");
          return std::nullopt;
        }
        out.shape.push_back(std::move(*size));
      }
      return out;
    case ParameterKind::Flag:
      if (expr.kind == ExprKind::Bool) {
        out.kind = CallArgument::Kind::Flag;
        out.flag = expr.integer != 0;
        return out;
      }
      bad_argument(info, parameter, id, "True or False", fmt::format("write {}=True", parameter.name));
      return std::nullopt;
    case ParameterKind::DType:
      if (expr.kind == ExprKind::Name || expr.kind == ExprKind::String) {
        const auto found =
            dtype(expr.kind == ExprKind::Name ? text(expr.span) : module_.strings[expr.first], expr.span);
        if (!found) return std::nullopt;
        out.kind = CallArgument::Kind::DType;
        out.dtype = *found;
        return out;
      }
      bad_argument(info, parameter, id, "an element type", "write cast(x, bf16)");
      return std::nullopt;
  }
  return out;
}

Lowerer::Values Lowerer::call(Frame& frame, const std::vector<ValueId>& operands) {
  PendingCall& call = *frame.call;
  const Expr& expr = module_[frame.id];
  if (call.failed) return {ValueId()};
  if (call.helper != nullptr) return call_helper(call, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid()) return {ValueId()};
    CallArgument& argument = call.arguments[call.operand_slots[i]];
    argument.kind = CallArgument::Kind::Value;
    argument.value = operands[i];
  }
  if (!lower_functions(call, operands)) return {ValueId()};
  name_sizes(call);
  auto outcome = emit_call(builder_, *call.builtin, call.arguments, expr.span);
  if (auto* values = std::get_if<Values>(&outcome)) return std::move(*values);
  const auto& problem = std::get<CallProblem>(outcome);
  const ExprId id = problem.argument < call.argument_exprs.size() ? call.argument_exprs[problem.argument] : ExprId();
  report_.error(Code::argument_kind, id.valid() ? module_[id].span : expr.span, problem.headline)
      .reason(problem.reason)
      .help(problem.help);
  return {ValueId()};
}

Lowerer::Values Lowerer::call_helper(const PendingCall& call, const std::vector<ValueId>& operands) {
  Scope scope;
  scope.function = call.helper;
  scope.sizes = scope_->sizes;
  scope.named = scope_->named;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Span parameter = module_.parameters[call.helper->first_parameter + call.operand_slots[i]].name;
    declare(scope, parameter, operands[i], true);
  }
  if (program_ && has_types(*call.helper)) {
    std::vector<Span> places;
    for (const ExprId argument : call.argument_exprs) places.push_back(module_[argument].span);
    const auto types = types_of(operands, false);
    if (!types || !check_types(scope, *types, places)) return {ValueId()};
  }
  ++elsewhere_;
  active_.push_back(call.helper);
  Values values = run(scope, false);
  active_.pop_back();
  find_unread(scope);
  return values;
}

void Lowerer::find_unread(const Scope& scope) {
  if (!report_.empty() || unread_.contains(scope.function)) return;
  std::vector<Span>& unread = unread_[scope.function];
  for (uint32_t i = 0; i < scope.function->parameter_count; ++i) {
    const Span parameter = module_.parameters[scope.function->first_parameter + i].name;
    if (scope.read.find(text(parameter)) == scope.read.end()) unread.push_back(parameter);
  }
}

void Lowerer::report_unread() {
  for (const ast::Function& function : module_.functions) {
    const auto found = unread_.find(&function);
    if (found == unread_.end() || of_branches_.contains(&function)) continue;
    for (const Span parameter : found->second) {
      report_
          .error(Code::operand_unused, parameter,
                 fmt::format("parameter '{}' of '{}' is not used", text(parameter), text(function.name)))
          .reason("nothing in the function reads it: what calls pass for it would be dropped")
          .help("use it, or remove the parameter and what is passed for it");
    }
  }
}

// The functions that a call of cond or while_loop names, over the values that it passes to them.
bool Lowerer::lower_functions(PendingCall& call, const std::vector<ValueId>& operands) {
  if (call.functions.empty()) return true;
  std::vector<int> ranks;
  std::vector<ValueId> passed;
  std::vector<Span> places;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (call.operand_slots[i] < call.functions.back().first) continue;
    ranks.push_back(builder_.rank(operands[i]));
    passed.push_back(operands[i]);
    places.push_back(module_[call.argument_exprs[call.operand_slots[i]]].span);
  }
  std::vector<ir::TensorType> types;
  if (typed_calls_) {
    auto known = types_of(passed, true);
    if (!known) return false;
    types = *std::move(known);
  }
  bool good = true;
  for (const auto& [slot, function] : call.functions) {
    const Span span = module_[call.argument_exprs[slot]].span;
    good = lower_branch(*function, ranks, types, places, span, call.arguments[slot]) && good;
  }
  return good;
}

// `types`: of what is passed, where typed_calls_ asks for them.
bool Lowerer::lower_branch(const ast::Function& function, const std::vector<int>& ranks,
                           const std::vector<ir::TensorType>& types, const std::vector<Span>& places, Span span,
                           CallArgument& argument) {
  if (!may_enter(function, span)) return false;
  of_branches_.insert(&function);
  if (function.parameter_count != ranks.size()) {
    report_
        .error(Code::argument_count, span,
               fmt::format("{} takes {}, {} passed to it", text(function.name),
                           count_text(function.parameter_count, "argument"),
                           ranks.size() == 1 ? "1 is" : fmt::format("{} are", ranks.size())))
        .note("defined here", module_.source, function.name)
        .help("pass one value for each of its parameters, behind the names of the functions");
    return false;
  }
  Scope scope;
  scope.function = &function;
  scope.sizes = scope_->sizes;
  scope.named = scope_->named;
  if (has_types(function) && !check_types(scope, types, places)) return false;
  FunctionBuilder outer = std::exchange(builder_, FunctionBuilder{ir::Function{}, &report_});
  std::unique_ptr<Typing> typing = std::exchange(typing_, nullptr);
  std::vector<ir::TensorType> passed = std::exchange(passed_, types);
  std::vector<std::optional<uint32_t>> blocks = std::exchange(devices_, {});  // it runs where its operands lie
  std::vector<std::optional<uint32_t>> lying = std::exchange(places_, {});
  builder_.set_inside(outer);
  ir::Function& body = builder_.function();
  body.source = module_.source;
  body.name = text(function.name);
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    const Span name = module_.parameters[function.first_parameter + i].name;
    declare(scope, name, builder_.parameter(std::string(text(name)), name, ranks[i]), true);
  }
  elsewhere_ += outer.function().values.size() + 1;
  active_.push_back(&function);
  const Values values = run(scope, false);
  active_.pop_back();
  devices_ = std::move(blocks);
  places_ = std::move(lying);
  typing_ = std::move(typing);
  passed_ = std::move(passed);
  elsewhere_ -= outer.function().values.size();
  bool good = !values.empty() && values.size() <= max_outputs;
  if (values.size() > max_outputs) {
    report_.error(Code::text_too_large, span, fmt::format("{} returns {} values", body.name, values.size()))
        .reason(fmt::format("at most {} are results of a branch or a loop", max_outputs))
        .help("return fewer, or join those that have one shape");
  }
  for (const ValueId value : values) good = good && value.valid();
  if (good) {
    for (size_t i = 0; i < values.size(); ++i) {
      builder_.check_number(values[i]);
      argument.ranks.push_back(builder_.rank(values[i]));
      body.outputs.push_back({fmt::format("r{}", i), values[i], body.values[values[i].index()].span});
    }
    keep_reachable(body);
    elsewhere_ += body.values.size();
    argument.kind = CallArgument::Kind::Function;
    argument.function = std::make_shared<const ir::Function>(std::move(body));
  }
  builder_ = std::move(outer);
  return good;
}

}  // namespace codetta::frontend
