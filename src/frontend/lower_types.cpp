// SPDX-License-Identifier: Apache-2.0
// Element types and the types of a program's parameters.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/lexer.hpp"
#include "frontend/lower_impl.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;

std::optional<ir::TensorType> type_of_text(std::string_view text) {
  ir::TensorType type;
  const size_t open = text.find('[');
  const auto dtype = dtype_from_name(text.substr(0, open));
  if (!dtype || (open != std::string_view::npos && text.back() != ']')) return std::nullopt;
  type.dtype = *dtype;
  if (open == std::string_view::npos) return type;
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (inside.find_first_not_of(' ') == std::string_view::npos) return type;
  for (size_t begin = 0, depth = 0, at = 0; at <= inside.size(); ++at) {
    const char c = at < inside.size() ? inside[at] : ',';
    depth += c == '(' ? 1 : 0;
    depth -= c == ')' && depth > 0 ? 1 : 0;
    if (c != ',' || depth > 0) continue;
    auto size = types::parse_dim(inside.substr(begin, at - begin));
    if (!size || size->as_constant().value_or(0) < 0 || type.shape.size() == static_cast<size_t>(max_rank))
      return std::nullopt;
    type.shape.push_back(std::move(*size));
    begin = at + 1;
  }
  return type;
}

std::optional<DType> Lowerer::dtype(std::string_view name, Span span) {
  if (const auto found = dtype_from_name(name)) return found;
  std::vector<std::string> names;
  for (int i = 0; i < dtype_count; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
  std::string near(dtype_alias(name));
  if (near.empty()) near = diag::nearest(name, names);
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "" : " ") + each;
  report_.error(Code::dtype_unknown, span, fmt::format("element type '{}' is not known", name.substr(0, 64)))
      .reason(fmt::format("the element types are {}", list))
      .help(near.empty() ? "write one of them" : fmt::format("did you mean {}?", near));
  return std::nullopt;
}

// bf16["batch", 4096], f32[4096], f32[()] (a tensor without dims), f32 (a number), donated[f32[4096]].
std::optional<ir::TypeAnnotation> Lowerer::parameter_type(const ast::Parameter& parameter) {
  const auto problem = [&](Span span, std::string headline, std::string reason) {
    report_.error(Code::parameter_type, span, std::move(headline))
        .reason(std::move(reason))
        .help(fmt::format("write {}: f32[\"batch\", 4096]; names in quotes are symbolic sizes", text(parameter.name)));
    return std::nullopt;
  };
  if (!parameter.annotation.valid()) {
    if (text(parameter.name) == "accum") {
      report_.error(Code::parameter_type, parameter.name, "parameter 'accum' has no type")
          .reason("the parameters of a program have types; this looks like an epilogue")
          .help("pass an epilogue to `codetta gemm --epilogue FILE`, or to EpilogueArguments");
      return std::nullopt;
    }
    return problem(parameter.name, fmt::format("parameter '{}' has no type", text(parameter.name)),
                   "a program is typed when its text is read");
  }
  const Expr& whole = module_[parameter.annotation];
  const bool donated = whole.kind == ExprKind::Subscript && module_[whole.a].kind == ExprKind::Name &&
                       text(module_[whole.a].span) == "donated";
  const auto is_donated = [&](std::string headline, std::string reason) {
    report_.error(Code::parameter_type, whole.span, std::move(headline))
        .reason(std::move(reason))
        .help(fmt::format("write {}: donated[f32[\"batch\", 4096]], with the type of the tensor inside",
                          text(parameter.name)));
    return std::nullopt;
  };
  if (whole.kind == ExprKind::Name && text(whole.span) == "donated")
    return is_donated("the type is missing", "donated says of a tensor that its memory is given up, not what it holds");
  const Expr& annotation = donated ? module_[whole.b] : whole;
  if (donated && annotation.kind == ExprKind::Name && dtype_from_name(text(annotation.span)))
    return is_donated("a number is donated", "numbers are passed by value: there is no memory to give up");
  if (donated && annotation.kind == ExprKind::Subscript && text(module_[annotation.a].span) == "donated")
    return is_donated("the tensor is donated twice", "its memory is given up once");
  if (donated && annotation.kind != ExprKind::Subscript)
    return is_donated("what is donated is no tensor", "one type with its sizes belongs between the brackets");
  const bool shaped = annotation.kind == ExprKind::Subscript;
  const Expr& element = shaped ? module_[annotation.a] : annotation;
  if (element.kind != ExprKind::Name) {
    return problem(annotation.span, "the type is not an element type with sizes", "that is all a type says");
  }
  const auto found = dtype(text(element.span), element.span);
  if (!found) return std::nullopt;
  ir::TypeAnnotation type;
  type.dtype = *found;
  type.span = annotation.span;
  type.is_scalar = !shaped;
  type.donated = donated;
  if (!shaped) return type;
  const Expr& sizes = module_[annotation.b];
  const bool tuple = sizes.kind == ExprKind::Tuple;
  const uint32_t count = tuple ? sizes.count : sizes.kind == ExprKind::Invalid ? 0 : 1;
  if (count > static_cast<uint32_t>(max_rank)) {
    return problem(annotation.span, fmt::format("the type has {} dimensions", count),
                   fmt::format("tensors have at most {}", max_rank));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const ExprId id = tuple ? module_.elements[sizes.first + i] : annotation.b;
    const auto size = size_argument(id);
    if (!size && module_[id].kind == ExprKind::String) {
      const std::string& written = module_.strings[module_[id].first];
      types::DimSyntaxError wrong;
      types::parse_dim(written, &wrong);
      return problem(module_[id].span, fmt::format("'{}' is not a size", written.substr(0, 64)),
                     fmt::format("at character {}: {}; a size is made of integers, names, + - * // %, min and max",
                                 wrong.begin + 1, wrong.reason));
    }
    if (!size) {
      return problem(module_[id].span, "the size is neither an integer nor a string",
                     "strings name sizes that are known when the program runs");
    }
    const std::vector<std::string> symbols = size->symbols();
    const auto is_long = [](const std::string& symbol) { return symbol.size() > Lexer::max_name; };
    if (const auto found_long = std::find_if(symbols.begin(), symbols.end(), is_long); found_long != symbols.end()) {
      return problem(
          module_[id].span,
          fmt::format("the size {}... has a name of {} characters", found_long->substr(0, 32), found_long->size()),
          fmt::format("names have at most {} characters", Lexer::max_name));
    }
    if (const auto constant = size->as_constant(); constant && *constant < 0) {
      return problem(module_[id].span, fmt::format("size {} is negative", *constant), "sizes are 0 or more");
    }
    type.shape.push_back(*size);
  }
  return type;
}

}  // namespace codetta::frontend
