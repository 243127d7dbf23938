// SPDX-License-Identifier: Apache-2.0
// Functions with types that other functions of the text call, or hand to a branch or a loop. Types are checked against
// what is passed, and the sizes that they name are the function's own, as where it is the program.
#include <fmt/format.h>

#include "frontend/lower_impl.hpp"
#include "types/dim_substitute.hpp"
#include "types/symbol_source.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprKind;
using diag::Code;
using diag::Span;

namespace {

// A type that says what is passed. Other annotations, as `x: float`, are for readers.
bool is_type(const ast::Module& module, const ast::Parameter& parameter) {
  if (!parameter.annotation.valid()) return false;
  const Expr& annotation = module[parameter.annotation];
  return annotation.kind == ExprKind::Subscript ||
         (annotation.kind == ExprKind::Name && dtype_from_name(module.text(annotation.span)));
}

}  // namespace

bool Lowerer::has_types(const ast::Function& function) const {
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    if (is_type(module_, module_.parameters[function.first_parameter + i])) return true;
  }
  return false;
}

std::optional<std::vector<ir::TensorType>> Lowerer::types_of(const std::vector<ValueId>& values, bool of_branch) {
  std::vector<ir::TensorType> types;
  if (typing_ == nullptr) {
    const ir::Function& function = builder_.function();
    std::vector<ir::TensorType> parameters = passed_;
    for (size_t i = parameters.size(); i < function.parameters.size(); ++i) {
      const auto& type = function.parameters[i].type;
      if (!type) return std::nullopt;  // which has been reported
      parameters.push_back({type->dtype, false, type->shape});
    }
    typing_ = std::make_unique<Typing>(function, parameters);
  }
  for (const ValueId value : values) {
    if (!value.valid()) return std::nullopt;
    auto type = of_branch ? typing_->passed(value) : typing_->type(value);
    if (!type) {
      report_.add(type.error());
      return std::nullopt;
    }
    types.push_back(*std::move(type));
  }
  return types;
}

std::optional<ir::Dim> Lowerer::named_size(std::string_view name) {
  if (scope_ == nullptr) return std::nullopt;
  const auto found = scope_->named.find(name);
  if (found == scope_->named.end()) return std::nullopt;
  scope_->read.emplace(text(found->second.parameter));
  return found->second.size;
}

// Element type and number of dims.
bool Lowerer::check_type(const ast::Function& function, uint32_t at, const ir::TensorType& declared, bool number,
                         const ir::TensorType& passed, Span place) {
  const ast::Parameter& parameter = module_.parameters[function.first_parameter + at];
  const std::string_view name = text(parameter.name);
  const auto wrong = [&](std::string reason, std::string help) {
    const std::string type = number ? std::string(dtype_name(declared.dtype)) : ir::to_string(declared);
    report_
        .error(
            Code::symbol_conflict, place,
            fmt::format("{} of {} is {} but is declared as {}", name, text(function.name), ir::to_string(passed), type))
        .reason(std::move(reason))
        .note("declared here", module_.source, module_[parameter.annotation].span)
        .help(std::move(help));
    return false;
  };
  if (passed.shape.size() != declared.shape.size()) {
    return wrong(number ? std::string("a type without brackets is a number")
                        : fmt::format("it has {} dim{}, declared are {}", passed.shape.size(),
                                      passed.shape.size() == 1 ? "" : "s", declared.shape.size()),
                 number ? fmt::format("declare {}: {}[...] with its sizes", name, dtype_name(declared.dtype))
                        : "reshape what is passed, or declare its shape");
  }
  if (!passed.weak && passed.dtype != declared.dtype) {
    return wrong(
        fmt::format("element types {} and {} differ", dtype_name(passed.dtype), dtype_name(declared.dtype)),
        fmt::format("pass cast(..., {}), or declare {}", dtype_name(declared.dtype), dtype_name(passed.dtype)));
  }
  return true;
}

// The sizes that the types name have the values that make the declared sizes those that are passed.
bool Lowerer::name_sizes_of(Scope& scope, const std::vector<types::Shape>& declared,
                            std::span<const ir::TensorType> passed, std::span<const Span> places) {
  const ast::Function& function = *scope.function;
  const auto parameter = [&](size_t i) -> const ast::Parameter& {
    return module_.parameters[function.first_parameter + i];
  };
  std::map<std::string, NamedSize, std::less<>> own;
  const auto value_of = [&](const ir::Dim& dim) {
    return types::substitute(dim, [&](std::string_view symbol) -> std::optional<ir::Dim> {
      const auto found = own.find(symbol);
      return found == own.end() ? std::nullopt : std::optional(found->second.size);
    });
  };
  const auto wrong = [&](size_t i, size_t d, std::string reason, std::string help) {
    report_
        .error(Code::symbol_conflict, places[i],
               fmt::format("dim {} of {} of {} is {} but is declared as {}", d, text(parameter(i).name),
                           text(function.name), passed[i].shape[d].to_string(), declared[i][d].to_string()),
               ir::to_string(passed[i]))
        .reason(std::move(reason))
        .note("declared here", module_.source, module_[parameter(i).annotation].span)
        .help(std::move(help));
    return false;
  };
  for (const types::SymbolSource& source : types::symbol_sources(declared)) {
    const ir::Dim& size = passed[source.shape].shape[source.dim];
    const ir::Dim times = size - value_of(source.rest);
    const auto value = types::exact_quotient(times, ir::Dim::constant(source.factor));
    if (!value || value->fault() != types::DimFault::none || value->as_constant().value_or(0) < 0) {
      return wrong(source.shape, source.dim,
                   fmt::format("no size {} of 0 or more is known to make it {}", source.symbol, size.to_string()),
                   "pass a size that is shown to be one, such as one that is written in the same way");
    }
    own.insert_or_assign(source.symbol, NamedSize{*value, parameter(source.shape).name});
  }
  // What no type gives a value is a size around the function.
  for (size_t i = 0; i < declared.size(); ++i) {
    for (const ir::Dim& dim : declared[i]) {
      for (const std::string& symbol : dim.symbols()) {
        if (own.contains(symbol)) continue;
        const auto outer = scope.named.find(symbol);
        if (outer != scope.named.end()) {
          own.insert_or_assign(symbol, outer->second);
        } else if (symbols_.find(symbol) == symbols_.end()) {
          report_
              .error(Code::symbol_unbound, module_[parameter(i).annotation].span,
                     fmt::format("symbol {} has no value", symbol))
              .reason(fmt::format("no parameter of {1} has a dim of {0} alone, as {0}, 2*{0} or {0} + 1 are", symbol,
                                  text(function.name)))
              .help(fmt::format("declare a parameter with that size, such as x: f32[\"{}\", 64]", symbol));
          return false;
        }
      }
    }
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    for (size_t d = 0; d < declared[i].size(); ++d) {
      const ir::Dim wanted = value_of(declared[i][d]);
      if (wanted == passed[i].shape[d]) continue;
      std::string known;
      for (const std::string& symbol : declared[i][d].symbols()) {
        const auto found = own.find(symbol);
        if (found == own.end()) continue;
        known += fmt::format("{}{} is {}, as {} says", known.empty() ? "" : "; ", symbol,
                             found->second.size.to_string(), text(found->second.parameter));
      }
      return wrong(i, d, known.empty() ? "the two are not the same size" : known,
                   "pass a tensor of the declared shape, or give sizes that may differ names of their own");
    }
  }
  for (auto& [symbol, size] : own) scope.named.insert_or_assign(symbol, std::move(size));
  return true;
}

bool Lowerer::check_types(Scope& scope, std::span<const ir::TensorType> passed, std::span<const Span> places) {
  const ast::Function& function = *scope.function;
  std::vector<types::Shape> declared(passed.size());
  std::vector<ir::TensorType> typed(passed.begin(), passed.end());
  for (uint32_t i = 0; i < function.parameter_count && i < passed.size(); ++i) {
    const ast::Parameter& parameter = module_.parameters[function.first_parameter + i];
    if (!is_type(module_, parameter)) {
      declared[i] = {};
      typed[i].shape = {};
      continue;
    }
    Scope* around = std::exchange(scope_, nullptr);  // its names say nothing in a type
    const auto type = parameter_type(parameter);
    scope_ = around;
    if (!type) return false;
    if (!check_type(function, i, {type->dtype, false, type->shape}, type->is_scalar, passed[i], places[i]))
      return false;
    declared[i] = type->shape;
  }
  return name_sizes_of(scope, declared, typed, places);
}

}  // namespace codetta::frontend
