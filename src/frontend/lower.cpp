// SPDX-License-Identifier: Apache-2.0
// Functions and statements.
#include "frontend/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/lower_impl.hpp"
#include "frontend/parser.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;
using types::Op;

Lowerer::Lowerer(const ast::Module& module, Report& report, bool program)
    : module_(module), report_(report), program_(program) {
  builder_.function().source = module.source;
}

// False, with a report, when a name of the language or of a function is hidden.
bool Lowerer::check_name(Span name, std::string_view what) {
  const std::string_view word = text(name);
  const bool reserved = is_reserved(word, program_);
  if (!reserved && (what == "function" || !functions_.contains(word))) return true;
  const bool function = find_function(word) != nullptr || !reserved;
  const std::string hidden = what == "function" && function ? fmt::format("{} of the language", word)
                             : function                     ? fmt::format("the function '{}'", word)
                             : dtype_from_name(word)        ? fmt::format("the element type '{}'", word)
                                                            : fmt::format("the constant '{}'", word);
  auto& error = report_.error(Code::name_shadows, name, fmt::format("{} '{}' hides {}", what, word, hidden));
  error.reason(reserved ? "it is a name of the language" : "a function of this text has that name");
  error.help(fmt::format("rename it, for example to {}_{}", word, what == "function" ? "epilogue" : "value"));
  return false;
}

void Lowerer::collect_functions() {
  for (const ast::Function& function : module_.functions) {
    const std::string_view word = text(function.name);
    if (const auto [at, fresh] = functions_.emplace(word, &function); !fresh) {
      report_.error(Code::function_defined_twice, function.name, fmt::format("function '{}' is defined twice", word))
          .note("first defined here", module_.source, at->second->name)
          .help("rename one of them");
    }
    check_name(function.name, "function");
  }
  for (const ast::Function& function : module_.functions) {
    for (uint32_t i = 0; i < function.parameter_count; ++i) {
      check_name(module_.parameters[function.first_parameter + i].name, "parameter");
    }
  }
}

const ast::Function* Lowerer::find_entry(std::string_view name) {
  if (module_.functions.empty()) return nullptr;
  if (name.empty()) return &module_.functions.back();
  if (const auto found = functions_.find(name); found != functions_.end()) return found->second;
  std::vector<std::string> names;
  std::string list;
  for (const ast::Function& function : module_.functions) {
    names.emplace_back(text(function.name));
    if (names.size() <= 8) list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = diag::nearest(name, names);
  report_.error(Code::entry_unknown, module_.functions.back().name, fmt::format("the text has no function '{}'", name))
      .reason(fmt::format("it has {}{}", list, names.size() > 8 ? ", ..." : ""))
      .help(near.empty() ? "name one of them, or leave the name out for the last one"
                         : fmt::format("did you mean '{}'?", near));
  return nullptr;
}

bool Lowerer::declare(Scope& scope, Span name, ValueId value, bool parameter) {
  const std::string_view word = text(name);
  if (const auto found = scope.definitions.find(word); found != scope.definitions.end()) {
    if (scope.is_parameter[word] && !parameter) {
      report_.error(Code::name_shadows, name, fmt::format("parameter '{}' is assigned", word))
          .reason("every name is defined once, and this one is bound by the caller")
          .note("the parameter", module_.source, found->second)
          .help(fmt::format("choose another name, for example {}_new", word));
    } else {
      report_.error(Code::name_defined_twice, name, fmt::format("Variable '{}' cannot be defined twice.", word))
          .reason("every name is defined once")
          .note("first defined here", module_.source, found->second)
          .help("choose another name");
    }
    return false;
  }
  scope.definitions.emplace(word, name);
  scope.is_parameter.emplace(word, parameter);
  scope.values.insert_or_assign(word, value);
  scope.devices.insert_or_assign(word, device());
  return true;
}

void Lowerer::define(Scope& scope, Span name, ValueId value) {
  const std::string_view word = text(name);
  if (word == "_") return;  // a result that is not wanted
  if (!scope.definitions.contains(word) && !check_name(name, "variable")) {
    scope.values.insert_or_assign(word, ValueId());
    return;
  }
  if (!declare(scope, name, value, false) || !value.valid()) return;
  ir::Value& named = builder_.function().values[value.index()];
  if (named.name.empty()) named.name = word;
}

void Lowerer::entry_parameters(const ast::Function& function) {
  const auto parameter = [&](uint32_t i) { return module_.parameters[function.first_parameter + i]; };
  if (function.parameter_count > max_operands) {
    report_
        .error(Code::text_too_large, parameter(max_operands).name,
               fmt::format("'{}' has {} parameters", text(function.name), function.parameter_count))
        .reason(fmt::format("at most {} are bound", max_operands))
        .help("join operands that have one shape into one tensor");
  }
  if (program_) return;
  uint32_t accum = 0;
  while (accum < function.parameter_count && text(parameter(accum).name) != "accum") ++accum;
  if (accum == 0 && function.parameter_count > 0) return;
  const bool absent = accum == function.parameter_count;
  auto& error = report_.error(Code::accum_missing, absent ? function.name : parameter(accum).name,
                              "accum must be an input to the epilogue function");
  if (absent) {
    bool typed = false;
    for (uint32_t i = 0; i < function.parameter_count; ++i) {
      const auto annotation = parameter(i).annotation;
      typed = typed || (annotation.valid() && module_[annotation].kind == ExprKind::Subscript);
    }
    error
        .reason(function.parameter_count == 0 ? fmt::format("'{}' has no parameters", text(function.name))
                : function.parameter_count == 1
                    ? fmt::format("the one parameter of '{}' is named {}", text(function.name), text(parameter(0).name))
                    : fmt::format("none of the {} parameters of '{}' is named accum", function.parameter_count,
                                  text(function.name)))
        .help(typed ? std::string("pass a program, whose parameters have types, to `codetta run FILE`, or "
                                  "to Program::parse")
                    : fmt::format("write def {}(accum{})", text(function.name),
                                  function.parameter_count > 0 ? ", ..." : ""));
  } else {
    error.reason(fmt::format("it must be the first parameter, here it is number {}", accum + 1))
        .help("move accum to the front; operands are bound by name, so callers stay the same");
  }
}

std::optional<ir::Function> Lowerer::lower(std::string_view function_name) {
  collect_functions();
  const ast::Function* entry = find_entry(function_name);
  if (entry == nullptr) return std::nullopt;
  entry_parameters(*entry);
  Scope scope;
  scope.function = entry;
  ir::Function& function = builder_.function();
  function.name = text(entry->name);
  for (uint32_t i = 0; i < entry->parameter_count; ++i) {
    const ast::Parameter& parameter = module_.parameters[entry->first_parameter + i];
    std::optional<ir::TypeAnnotation> type;
    if (program_) type = parameter_type(parameter);
    if (type) {
      for (const ir::Dim& size : type->shape) {
        for (std::string& symbol : size.symbols()) symbols_.insert(std::move(symbol));
      }
    }
    declare(scope, parameter.name, builder_.parameter(std::string(text(parameter.name)), parameter.name, type), true);
  }
  for (const ast::Function& other : module_.functions)
    typed_calls_ = typed_calls_ || (program_ && &other != entry && has_types(other));
  active_.push_back(entry);
  run(scope, true);
  if (report_.empty()) report_unread();
  if (!report_.empty()) return std::nullopt;
  finish_function(function, report_);
  if (!report_.empty()) return std::nullopt;
  return std::move(function);
}

// The statements of a function; what it returns, for a helper.
Lowerer::Values Lowerer::run(Scope& scope, bool entry) {
  const ast::Function& function = *scope.function;
  struct Restore {
    Scope*& place;
    Scope* before;
    ~Restore() { place = before; }
  } const restore{scope_, std::exchange(scope_, &scope)};
  for (uint32_t i = 0; i < function.statement_count && !stopped_; ++i) {
    const ast::Statement& statement = module_.statements[function.first_statement + i];
    if (statement.kind == ast::StatementKind::Assign) {
      assign(scope, statement);
      continue;
    }
    if (statement.kind == ast::StatementKind::Device) {
      enter_device(statement);
      continue;
    }
    if (statement.kind == ast::StatementKind::EndDevice) {
      devices_.pop_back();
      continue;
    }
    uint32_t behind = i + 1;
    while (behind < function.statement_count &&
           module_.statements[function.first_statement + behind].kind == ast::StatementKind::EndDevice)
      ++behind;
    if (behind < function.statement_count) {
      const ast::Statement& next = module_.statements[function.first_statement + behind];
      report_.error(Code::after_return, next.span, "statement after return")
          .reason("nothing behind return is computed")
          .help("move it before return, or remove it");
    }
    Values values;
    if (!entry) {
      values = helper_return(scope, statement);
    } else {
      entry_return(scope, statement);
    }
    devices_.resize(devices_.size() - (behind - i - 1));  // of blocks that end with it
    return values;
  }
  if (!stopped_) {
    report_
        .error(Code::return_missing, function.name, fmt::format("function '{}' returns nothing", text(function.name)))
        .reason("what is returned are the outputs")
        .help("end it with return and the names of its outputs: return D");
  }
  return {ValueId()};
}

void Lowerer::enter_device(const ast::Statement& statement) {
  const std::optional<int64_t> said = integer_argument(statement.value);
  devices_.push_back(device());
  if (!program_) {
    report_.error(Code::program_only, statement.span, "'with device' belongs into a program")
        .reason("an epilogue runs in the kernel of its product")
        .help("remove it");
  } else if (!said) {
    report_.error(Code::device_number, module_[statement.value].span, "the device is no number of the text")
        .reason("where work runs is known before it does")
        .help("write a number, such as with device(1):");
  } else if (*said < 0 || *said >= ir::max_devices) {
    report_.error(Code::device_number, module_[statement.value].span, fmt::format("there is no device {}", *said))
        .reason(fmt::format("a program has {} devices at most, counted from 0", ir::max_devices))
        .help("count the program's devices from 0");
  } else {
    devices_.back() = static_cast<uint32_t>(*said);
  }
}

std::optional<uint32_t> Lowerer::place_of(ValueId value) {
  const ir::Function& function = builder_.function();
  for (size_t v = places_.size(); v <= value.index(); ++v) {
    const ir::Value& made = function.values[v];
    const auto* device = std::get_if<ir::DeviceAttr>(&made.attr);
    std::optional<uint32_t> place = device != nullptr ? std::optional(device->device) : std::nullopt;
    for (size_t o = made.op == types::Op::cond ? 1 : 0; o < made.operands.size() && !place; ++o)
      place = places_[made.operands[o].index()];
    places_.push_back(place);
  }
  return places_[value.index()];
}

ValueId Lowerer::brought(const Scope& scope, std::string_view name, ValueId value, Span span) {
  if (!device() || !value.valid()) return value;
  const std::optional<uint32_t> place = place_of(value);
  const auto made = scope.devices.find(name);
  if (place ? place == device() : made != scope.devices.end() && made->second == device()) return value;
  ir::Function& function = builder_.function();
  const bool parameter = value.index() < function.parameters.size();
  const bool number =
      parameter && function.parameters[value.index()].type && function.parameters[value.index()].type->is_scalar;
  if (number || function.values[value.index()].op == types::Op::literal) return value;
  return builder_.op(types::Op::to_device, {value}, ir::DeviceAttr{*device()}, span, builder_.rank(value));
}

void Lowerer::assign(Scope& scope, const ast::Statement& statement) {
  const auto target = [&](uint32_t i) { return module_.targets[statement.first_target + i]; };
  const Expr& value = module_[statement.value];
  if (statement.target_count == 1) {
    define(scope, target(0), evaluate_one(scope, statement.value));
    return;
  }
  Values values;
  if (value.kind == ExprKind::Tuple) {
    for (uint32_t i = 0; i < value.count; ++i) values.push_back(evaluate_one(scope, module_.elements[value.first + i]));
  } else {
    values = evaluate(scope, statement.value);
    if (values.size() == 1 && !values[0].valid()) values.resize(statement.target_count);
  }
  if (values.size() != statement.target_count) {
    report_
        .error(Code::tuple_assignment, value.span,
               fmt::format("{} names are assigned, the value has {} part{}", statement.target_count, values.size(),
                           values.size() == 1 ? "" : "s"))
        .reason("every name on the left takes one part")
        .help(fmt::format("write {} names", values.size() == 1 ? std::string("one name, or split(x, n), for as many")
                                                               : std::to_string(values.size())));
    values.assign(statement.target_count, ValueId());
  }
  for (uint32_t i = 0; i < statement.target_count; ++i) define(scope, target(i), values[i]);
}

Lowerer::Values Lowerer::helper_return(Scope& scope, const ast::Statement& statement) {
  if (!statement.value.valid()) {
    report_.error(Code::return_missing, statement.span, "return without a value")
        .reason("a call needs a result")
        .help("return a value");
    return {ValueId()};
  }
  const Expr& value = module_[statement.value];
  if (value.kind != ExprKind::Tuple) return evaluate(scope, statement.value);
  Values values;
  for (uint32_t i = 0; i < value.count; ++i) values.push_back(evaluate_one(scope, module_.elements[value.first + i]));
  if (values.empty()) values.emplace_back();
  return values;
}

void Lowerer::bad_return(const Expr& value) {
  if (value.kind == ExprKind::Invalid) return;
  const bool constant = value.kind == ExprKind::Bool || value.kind == ExprKind::Int || value.kind == ExprKind::Float ||
                        value.kind == ExprKind::None || value.kind == ExprKind::String;
  const bool list = value.kind == ExprKind::Tuple;
  report_
      .error(Code::return_expression, value.span,
             constant ? "Return value cannot be a constant"
             : list   ? "Return value cannot be a list"
                      : "Return value cannot be an expression")
      .reason("outputs are bound by name")
      .help(list ? "return the names: return D, F" : "name it first: D = ...; return D");
}

void Lowerer::entry_return(Scope& scope, const ast::Statement& statement) {
  if (!statement.value.valid()) {
    report_.error(Code::return_missing, statement.span, "return without a value")
        .reason("what is returned are the outputs")
        .help("return the names of the outputs: return D");
    return;
  }
  const Expr& value = module_[statement.value];
  if (value.kind == ExprKind::Name) {
    add_output(scope, value);
    return;
  }
  const bool list = value.kind == ExprKind::Tuple && (value.integer != 0 || value.count == 0);
  if (value.kind != ExprKind::Tuple || list) {
    bad_return(value);
    return;
  }
  if (value.count > max_outputs) {
    report_
        .error(Code::text_too_large, module_[module_.elements[value.first + max_outputs]].span,
               fmt::format("{} values are returned", value.count))
        .reason(fmt::format("at most {} outputs are written", max_outputs))
        .help("return fewer, or join those that have one shape");
    return;
  }
  for (uint32_t i = 0; i < value.count; ++i) {
    const Expr& element = module_[module_.elements[value.first + i]];
    if (element.kind == ExprKind::Name) {
      add_output(scope, element);
    } else {
      bad_return(element);
    }
  }
}

void Lowerer::add_output(Scope& scope, const Expr& expr) {
  const std::string_view word = text(expr.span);
  const ValueId id = name(scope, expr);
  ir::Function& function = builder_.function();
  for (const ir::Output& output : function.outputs) {
    if (output.name != word) continue;
    report_.error(Code::output_duplicate, expr.span, fmt::format("output '{}' is returned twice", word))
        .note("first here", module_.source, output.span)
        .help("return it once");
    return;
  }
  if (scope.is_parameter.contains(word) && scope.is_parameter[word] && (program_ || word != "accum")) {
    if (!report_.empty()) return;  // most likely a consequence: the parameter was assigned
    report_.error(Code::output_is_operand, expr.span, fmt::format("operand '{}' is returned", word))
        .reason("outputs and operands are bound by name, and one name can not be both")
        .help(fmt::format("give the output a name of its own: {0}_out = {0}; return {0}_out", word));
    return;
  }
  if (id.valid()) function.outputs.push_back({std::string(word), id, expr.span});
}

namespace {

std::optional<ir::Function> lower_text(Report& report, std::string_view function_name, bool program) {
  bool complete = true;
  const ast::Module module = parse_module(report, complete);
  if (!complete || report.full()) return std::nullopt;
  return Lowerer(module, report, program).lower(function_name);
}

}  // namespace

Result<ir::EpilogueFunction> parse_epilogue(const diag::SourceRef& source, std::string_view function_name) {
  Report report(source);
  auto function = lower_text(report, function_name, false);
  if (!function) return report.finish();
  return ir::EpilogueFunction{std::move(*function)};
}

Result<ir::ProgramFunction> parse_program(const diag::SourceRef& source, std::string_view function_name) {
  Report report(source);
  auto function = lower_text(report, function_name, true);
  if (!function) return report.finish();
  return ir::ProgramFunction{std::move(*function)};
}

}  // namespace codetta::frontend
