// SPDX-License-Identifier: Apache-2.0
// Sizes as expressions, and subscripts: x[a:b, :, ::2], x[..., i], x[None].
#include <fmt/format.h>

#include <algorithm>

#include "frontend/lower_impl.hpp"
#include "types/dim_substitute.hpp"

namespace codetta::frontend {

using ast::Expr;
using ast::ExprId;
using ast::ExprKind;
using diag::Code;
using diag::Span;
using types::Op;

namespace {

constexpr int max_size_depth = 100;

}  // namespace

// A symbol of the entry's parameter types, or of what a function returned, that no variable hides.
bool Lowerer::is_size(std::string_view name) const {
  const bool own = scope_ != nullptr && (scope_->sizes.contains(name) || scope_->named.contains(name));
  return (own || symbols_.find(name) != symbols_.end() || builder_.defines_by_call(name)) &&
         (scope_ == nullptr || !scope_->definitions.contains(name));
}

std::optional<ir::Dim> Lowerer::size_argument(ExprId id, bool values) {
  size_reported_ = false;
  size_trouble_.clear();
  return size_part(id, values && program_ && scope_ != nullptr, 0);
}

// k, lengths[0], sum(mask, keepdim=False).
std::optional<ir::Dim> Lowerer::size_from_value(ExprId id, int depth) {
  const Expr& expr = module_[id];
  ValueId value;
  if (expr.kind == ExprKind::Name) {
    const auto found = scope_->values.find(text(expr.span));
    if (found == scope_->values.end()) return std::nullopt;
    scope_->read.emplace(text(expr.span));
    value = found->second;
  } else if ((expr.kind == ExprKind::Subscript || expr.kind == ExprKind::Call) &&
             size_depth_ + depth <= max_size_depth) {
    size_depth_ += depth + 1;
    value = evaluate_one(*scope_, id);
    size_depth_ -= depth + 1;
  } else {
    return std::nullopt;
  }
  std::optional<ir::Dim> size;
  if (value.valid()) size = builder_.size_of(value, expr.span);
  size_reported_ = !size;
  return size;
}

// 64, n, 2*n, n // 8, min(n, 4), "n // 8".
std::optional<ir::Dim> Lowerer::size_part(ExprId id, bool values, int depth) {
  if (const auto constant = integer_argument(id)) return ir::Dim::constant(*constant);
  const Expr& expr = module_[id];
  if (depth > max_size_depth) return std::nullopt;
  const auto part = [&](ExprId child) { return size_part(child, values, depth + 1); };
  std::optional<ir::Dim> size;
  if (expr.kind == ExprKind::String) {
    types::DimSyntaxError problem;
    size = types::parse_dim(module_.strings[expr.first], &problem);
    if (size && values) size = size_of_text(*size, expr.span);
  } else if (expr.kind == ExprKind::Name && is_size(text(expr.span))) {
    std::string symbol(text(expr.span));
    if ((size = named_size(symbol))) return size;
    if (scope_ != nullptr) {
      if (const auto own = scope_->sizes.find(symbol); own != scope_->sizes.end()) symbol = own->second;
    }
    size = ir::Dim::symbol(std::move(symbol));
  } else if (expr.kind == ExprKind::Unary && expr.op != Op::logical_not) {
    size = part(expr.a);
    if (size && expr.op == Op::neg) size = -*size;
  } else if (expr.kind == ExprKind::Binary) {
    const auto a = part(expr.a), b = a ? part(expr.b) : a;
    if (!a || !b) return std::nullopt;
    if (expr.op == Op::add) size = *a + *b;
    if (expr.op == Op::sub) size = *a - *b;
    if (expr.op == Op::mul) size = *a * *b;
    if (expr.op == Op::floordiv) size = floordiv(*a, *b);
    if (expr.op == Op::mod) size = mod(*a, *b);
  } else if (is_least_or_most(expr)) {
    const std::string_view callee = module_.name_of(expr.a);
    for (uint32_t i = 0; i < expr.count; ++i) {
      const ast::Argument& argument = module_.arguments[expr.first + i];
      const auto next = argument.keyword.known() ? std::nullopt : part(argument.value);
      if (!next) return std::nullopt;
      size = i == 0 ? *next : callee == "min" ? min(*size, *next) : max(*size, *next);
    }
  } else if (values) {
    size = size_from_value(id, depth);
  }
  if (size && size->fault() != types::DimFault::none) {
    if (size_trouble_.empty()) size_trouble_ = to_string(size->fault()), size_trouble_at_ = expr.span;
    return std::nullopt;
  }
  return size;
}

bool Lowerer::size_is_told(Code code) {
  if (!size_reported_ && !size_trouble_.empty()) {
    report_.error(code, size_trouble_at_, fmt::format("the size {} has no value", text(size_trouble_at_)))
        .reason(size_trouble_)
        .help("divide by a size that is not 0, and keep the numbers of a size within 64 bits");
    size_reported_ = true;
    size_told_at_ = size_trouble_at_;
  }
  return size_reported_;
}

ir::Dim Lowerer::size_of_text(const ir::Dim& size, Span span) {
  if (scope_ == nullptr || size.is_constant()) return size;
  return types::substitute(size, [&](std::string_view symbol) -> std::optional<ir::Dim> {
    // A name of the function's own hides the size that a type around it names.
    if (auto known = scope_->definitions.contains(symbol) ? std::nullopt : named_size(symbol)) {
      for (const std::string& each : known->symbols()) scope_->value_sizes.insert(each);
      return known;
    }
    if (symbols_.find(symbol) != symbols_.end()) return std::nullopt;
    const auto known = scope_->sizes.find(symbol);
    const auto named = [&]() -> std::optional<ir::Dim> {
      return known == scope_->sizes.end() ? std::nullopt : std::optional(ir::Dim::symbol(known->second));
    };
    if (known != scope_->sizes.end() && scope_->own_sizes.contains(known->second)) return named();
    const auto found = scope_->values.find(symbol);
    if (found == scope_->values.end() || !found->second.valid() || builder_.rank(found->second) != 0) return named();
    scope_->read.emplace(symbol);
    auto value = builder_.size_of(found->second, span);
    if (!value) return value;
    for (const std::string& each : value->symbols()) scope_->value_sizes.insert(each);
    return value;
  });
}

void Lowerer::name_sizes(PendingCall& call) {
  if (call.builtin->lowering != Lowering::CallExtern) return;
  const CallArgument& form = call.arguments.back();
  if (form.kind != CallArgument::Kind::Text || form.text != "alloc") return;
  std::map<std::string, ir::Dim, std::less<>> renamed;
  const auto name = [&](std::string_view symbol) {
    if (symbols_.find(symbol) != symbols_.end() || renamed.find(symbol) != renamed.end()) return;
    if (scope_->own_sizes.contains(symbol) || scope_->value_sizes.contains(symbol)) return;
    std::string said(symbol);  // or what a calling function's size is called
    for (const auto& [text, known] : scope_->sizes) {
      if (known == symbol) said = text;
    }
    // No text says a name that is made up here.
    const auto taken = [&](const std::string& made) {
      return builder_.has_symbol(made) || symbols_.find(made) != symbols_.end() ||
             (made != said && module_.source->text().find(made) != std::string_view::npos);
    };
    std::string own = said;
    for (int n = 2; taken(own); ++n) own = fmt::format("{}_{}", said, n);
    renamed.emplace(symbol, ir::Dim::symbol(own));
    scope_->own_sizes.insert(own);
    scope_->sizes.insert_or_assign(std::move(said), std::move(own));
  };
  for (const CallArgument& argument : call.arguments) {
    for (const ir::TensorType& type : argument.types) {
      for (const ir::Dim& size : type.shape) {
        if (const auto symbol = size.as_symbol()) name(*symbol);
      }
    }
  }
  for (CallArgument& argument : call.arguments) {
    for (ir::TensorType& type : argument.types) {
      for (ir::Dim& size : type.shape) {
        size = types::substitute(size, [&](std::string_view symbol) -> std::optional<ir::Dim> {
          const auto own = renamed.find(symbol);
          return own == renamed.end() ? std::nullopt : std::optional(own->second);
        });
      }
    }
  }
}

// min(n, 4), of sizes: a reduction names its dim.
bool Lowerer::is_least_or_most(const Expr& expr) const {
  if (expr.kind != ExprKind::Call || expr.count < 2) return false;
  const std::string_view callee = module_.name_of(expr.a);
  bool named = false;
  for (uint32_t i = 0; i < expr.count; ++i) named = named || module_.arguments[expr.first + i].keyword.known();
  return (callee == "min" || callee == "max") && !named;
}

void Lowerer::bad_subscript(Span span, std::string headline, std::string reason, std::string help) {
  report_.error(Code::subscript, span, std::move(headline)).reason(std::move(reason)).help(std::move(help));
}

// Start, stop and step of one item; `whole`: it is a plain colon.
bool Lowerer::slice_item(const Expr& item, ir::SliceAttr& attr, bool& whole) {
  const auto bound = [&](uint32_t i) { return module_.elements[item.first + i]; };
  const auto read = [&](ExprId id, ir::Dim& out) {
    if (!id.valid() || module_[id].kind == ExprKind::None) return true;
    if (auto size = size_argument(id)) {
      out = std::move(*size);
      return true;
    }
    if (module_[id].kind != ExprKind::Invalid && !size_is_told(Code::subscript)) {
      bad_subscript(
          module_[id].span, "the bound of a slice is not a size",
          "bounds are integers, sizes of the parameters' types, single integers that the program computes, and "
          "arithmetic on them",
          "write x[1:n // 2]; for places that are computed use take(x, indices)");
    }
    return false;
  };
  const bool open = !bound(1).valid() || module_[bound(1)].kind == ExprKind::None;
  attr.bound = open ? ir::SliceBound::Open : ir::SliceBound::Stop;
  ir::Dim step = ir::Dim::constant(1);
  if (!read(bound(0), attr.start) || !read(bound(1), attr.count) || !read(bound(2), step)) return false;
  const auto constant = step.as_constant();
  if (!constant || *constant < 1) {
    bad_subscript(module_[bound(2)].span,
                  constant ? fmt::format("the slice has the step {}", *constant) : std::string("the step is a symbol"),
                  "a slice runs forward, by a step of 1 or more that is written as a number",
                  "reverse with take(x, max(arange(n), dim=0) - arange(n), dim=...)");
    return false;
  }
  attr.step = *constant;
  const auto from_value = [&](const ir::Dim& bound_) {
    const auto symbols = bound_.symbols();
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return builder_.defines(s); });
  };
  if (attr.step != 1 && (from_value(attr.start) || from_value(attr.count))) {
    report_.error(Code::size_value, module_[bound(2)].span, fmt::format("the slice has the step {}", attr.step))
        .reason("a bound of it comes from a value, and such slices take every element")
        .help("slice first, and take every n-th element in a slice of its own");
    return false;
  }
  whole = open && attr.start == ir::Dim::constant(0) && attr.step == 1;
  return true;
}

// t, count + 1, lengths[0]: what may say a place when the program runs.
bool Lowerer::is_computed(const Expr& item) const {
  const bool arithmetic = item.kind == ExprKind::Binary || item.kind == ExprKind::Call ||
                          item.kind == ExprKind::Subscript || (item.kind == ExprKind::Unary && item.op != Op::neg);
  return arithmetic || (item.kind == ExprKind::Name && scope_->values.contains(text(item.span)));
}

// Invalid, with a report, where it is not one integer.
ValueId Lowerer::computed_index(ExprId id) {
  if (size_depth_ >= max_size_depth) {
    bad_subscript(module_[id].span, "subscripts are nested too deeply",
                  fmt::format("at most {} stand inside of each other", max_size_depth), "name the inner ones first");
    return {};
  }
  ++size_depth_;
  const ValueId place = evaluate_one(*scope_, id);
  --size_depth_;
  if (!place.valid()) return {};
  if (const int rank = builder_.rank(place); rank != 0) {
    bad_subscript(module_[id].span, "the index is not an integer or a size",
                  rank > 0 ? fmt::format("it has {} dim{}, and one integer has none", rank, rank == 1 ? "" : "s")
                           : std::string("how many dims it has is not known"),
                  "for several places use take(x, indices)");
    return {};
  }
  return place;
}

ValueId Lowerer::subscript(const Expr& expr, ValueId object) {
  if (!program_) {
    bad_subscript(expr.span, "subscripts are not part of the language",
                  "an epilogue says what happens to one element; operands broadcast by their shape",
                  "bind an operand of shape (N,), (M, 1) or (1,); use split() for equal parts of a dimension");
    return {};
  }
  if (!object.valid()) return {};
  const Expr& items = module_[expr.b];
  const int rank = builder_.rank(object);
  int named = 0, fresh = 0, dots = 0;  // dims of x that items name, dims that None adds
  for (uint32_t i = 0; i < items.count; ++i) {
    const ExprKind kind = module_[module_.elements[items.first + i]].kind;
    ++(kind == ExprKind::None ? fresh : kind == ExprKind::Ellipsis ? dots : named);
    if (kind == ExprKind::Invalid) return {};
  }
  if (items.count == 0 || dots > 1 || rank < 0 || named > rank || rank + fresh > 2 * max_rank) {
    bad_subscript(expr.span,
                  items.count == 0 ? std::string("the subscript is empty")
                  : dots > 1       ? std::string("the subscript has '...' twice")
                  : rank < 0       ? std::string("a value whose number of dimensions is not known is sliced")
                                   : fmt::format("the subscript names {} dimensions", named + fresh),
                  rank < 0 ? "it depends on what is bound" : fmt::format("the value has {}", rank),
                  "write one item for each dimension; ... stands for those that stay");
    return {};
  }
  int32_t dim = 0, place = 0;  // in x, in the result
  ir::ReshapeAttr dropped, added;
  dropped.form = ir::ReshapeForm::Squeeze;
  added.form = ir::ReshapeForm::Unsqueeze;
  ValueId value = object;
  const auto slice = [&](const ir::SliceAttr& attr) { value = builder_.op(Op::slice, {value}, attr, expr.span); };
  const auto pass = [&](int32_t count) { dim += count, place += count; };
  for (uint32_t i = 0; i < items.count; ++i) {
    const ExprId id = module_.elements[items.first + i];
    const Expr& item = module_[id];
    ir::SliceAttr attr;
    attr.dim = dim;
    if (item.kind == ExprKind::None) {
      added.dims.push_back(place++);
    } else if (item.kind == ExprKind::Ellipsis) {
      pass(static_cast<int32_t>(rank - named));
    } else if (item.kind == ExprKind::Slice) {
      bool whole = false;
      if (!slice_item(item, attr, whole)) return {};
      if (!whole) slice(attr);
      pass(1);
    } else {
      const auto index = size_argument(id, false);
      const bool from_end = index && index->upper_bound().value_or(1) <= 0 && !(*index == ir::Dim::constant(0));
      if (!index && size_is_told(Code::subscript)) return {};
      if (!index && is_computed(item)) {
        const ValueId at = computed_index(id);
        if (!at.valid()) return {};
        value = builder_.op(Op::take, {value, at}, ir::TakeAttr{dim}, expr.span);  // which drops the dim
        continue;
      }
      if (!index || (from_end && !index->is_constant())) {
        bad_subscript(item.span, "the index is not an integer or a size",
                      "an index in brackets is an integer, a size or one integer that the program computes",
                      "for several places use take(x, indices)");
        return {};
      }
      attr.start = *index;
      attr.count = *index + ir::Dim::constant(1);
      attr.bound = *index == ir::Dim::constant(-1) ? ir::SliceBound::Open : ir::SliceBound::Stop;
      if (attr.bound == ir::SliceBound::Open) attr.count = {};
      slice(attr);
      dropped.dims.push_back(dim++);
    }
  }
  if (!dropped.dims.empty()) value = builder_.op(Op::reshape, {value}, std::move(dropped), expr.span);
  if (!added.dims.empty()) value = builder_.op(Op::reshape, {value}, std::move(added), expr.span);
  return value;
}

}  // namespace codetta::frontend
