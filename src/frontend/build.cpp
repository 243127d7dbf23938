// SPDX-License-Identifier: Apache-2.0
// FunctionBuilder, and the checks of a finished function.
#include "frontend/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace codetta::frontend {

using diag::Code;
using diag::Span;
using ir::LiteralAttr;
using types::Op;

namespace {

// Of an attribute and of the functions of branches and loops in it, which name sizes of around them.
void add_symbols(const ir::Attr& attr, std::set<std::string>& symbols) {
  for (std::string& symbol : ir::symbols_of(attr)) symbols.insert(std::move(symbol));
  std::vector<const ir::Function*> functions;
  if (const auto* branches = std::get_if<ir::CondAttr>(&attr))
    functions = {branches->then_function.get(), branches->otherwise_function.get()};
  if (const auto* loop = std::get_if<ir::WhileAttr>(&attr))
    functions = {loop->condition_function.get(), loop->body_function.get()};
  for (const ir::Function* function : functions) {
    if (function == nullptr) continue;
    for (const ir::Value& value : function->values) add_symbols(value.attr, symbols);
  }
}

}  // namespace

ValueId FunctionBuilder::parameter(std::string name, Span span, std::optional<ir::TypeAnnotation> type) {
  ir::Value value;
  value.op = Op::input;
  value.attr = ir::InputAttr{static_cast<uint32_t>(function_.parameters.size())};
  value.span = span;
  value.name = name;
  if (type) {
    for (const ir::Dim& size : type->shape) {
      for (std::string& symbol : size.symbols()) {
        seen_.insert(symbol);
        symbols_->insert(std::move(symbol));
      }
    }
  }
  ranks_.push_back(type ? static_cast<int>(type->shape.size()) : -1);
  value.site = site_;
  function_.parameters.push_back({std::move(name), span, std::move(type), site_});
  function_.values.push_back(std::move(value));
  return ValueId(function_.values.size() - 1);
}

// Beyond i64.
static bool is_unsigned(const ir::ExactLiteral& number) {
  return number.kind == LiteralAttr::Kind::Int && !number.beyond && number.i > INT64_MAX && number.i <= UINT64_MAX;
}

ValueId FunctionBuilder::parameter(std::string name, Span span, int rank) {
  const ValueId id = parameter(std::move(name), span);
  ranks_.back() = rank;
  return id;
}

ValueId FunctionBuilder::literal(LiteralAttr attr, Span span) {
  // A text can say only one NaN; machines make others, such as that of inf - inf.
  if (attr.kind == LiteralAttr::Kind::Float && std::isnan(attr.f)) attr.f = std::numeric_limits<double>::quiet_NaN();
  return op(Op::literal, {}, attr, span);
}

ValueId FunctionBuilder::unary(Op op_kind, ValueId x, Span span) {
  if (op_kind == Op::input) return x;
  if (op_kind == Op::neg) {
    if (const auto* literal_attr = std::get_if<LiteralAttr>(&function_[x].attr)) {
      LiteralAttr negated = *literal_attr;
      if (negated.kind == LiteralAttr::Kind::Float) {
        negated.f = -negated.f;
        return literal(negated, span);
      }
      if (negated.kind == LiteralAttr::Kind::Int && negated.i != std::numeric_limits<int64_t>::min()) {
        negated.i = -negated.i;
        return literal(negated, span);
      }
    }
  }
  return op(op_kind, {x}, {}, span);
}

ValueId FunctionBuilder::op(Op op_kind, std::vector<ValueId> operands, ir::Attr attr, Span span) {
  const int rank = result_rank(op_kind, operands, attr);
  return op(op_kind, std::move(operands), std::move(attr), span, rank);
}

ValueId FunctionBuilder::op(Op op_kind, std::vector<ValueId> operands, ir::Attr attr, Span span, int rank) {
  if (operands.empty()) return append(op_kind, {}, std::move(attr), span, rank);
  std::optional<ir::ExactLiteral> exact;
  bool narrow = true;
  ValueId beyond;
  if (operands.size() <= 3) {
    std::vector<ir::ExactLiteral> literals;
    for (const ValueId operand : operands) {
      const auto literal = number(operand);
      if (!literal) break;
      narrow = narrow && literal->narrow().has_value();
      if (literal->beyond && !beyond.valid()) beyond = first_beyond_.at(operand.index());
      literals.push_back(*literal);
    }
    if (literals.size() == operands.size()) exact = ir::fold_exact(op_kind, literals);
  }
  if (!exact) {
    if (!numbers_.empty()) std::for_each(operands.begin(), operands.end(), [&](ValueId id) { check_number(id); });
    return append(op_kind, std::move(operands), std::move(attr), span, rank);
  }
  if (is_unsigned(*exact)) return unsigned_literal(static_cast<uint64_t>(exact->i), span);
  // Later stages compute in 64 bits: they get what they could not find.
  if (const auto value = exact->narrow(); value && !narrow) return literal(*value, span);
  const ValueId id = append(op_kind, std::move(operands), std::move(attr), span, rank);
  numbers_.emplace(id.index(), *exact);
  if (exact->beyond) first_beyond_.emplace(id.index(), beyond.valid() ? beyond : id);
  return id;
}

ValueId FunctionBuilder::unsigned_literal(uint64_t value, Span span) {
  const auto bits = static_cast<int64_t>(value);
  const ValueId id =
      append(Op::cast, {literal({LiteralAttr::Kind::Int, bits, 0}, span)}, ir::CastAttr{DType::u64}, span, 0);
  numbers_.emplace(id.index(), ir::ExactLiteral{LiteralAttr::Kind::Int, value, 0, false});
  return id;
}

std::optional<ir::ExactLiteral> FunctionBuilder::number(ValueId id) const {
  if (const auto* literal = std::get_if<LiteralAttr>(&function_[id].attr)) return ir::ExactLiteral::of(*literal);
  const auto found = numbers_.find(id.index());
  return found != numbers_.end() ? std::optional(found->second) : std::nullopt;
}

void FunctionBuilder::check_number(ValueId id) {
  const auto found = numbers_.find(id.index());
  if (found == numbers_.end() || found->second.narrow() || is_unsigned(found->second) || report_ == nullptr) return;
  const auto first = first_beyond_.find(id.index());
  const ir::Value& value = function_[first != first_beyond_.end() ? first->second : id];
  std::string help = "compute it with floats: a number with a point, such as 2.0, makes all of them floats";
  if (value.op == Op::pow) {
    const auto base = number(value.operands[0])->narrow(), exponent = number(value.operands[1])->narrow();
    if (base && exponent)
      help = fmt::format("write {0}{1}.0{2}**{3} for a float", base->i < 0 ? "(" : "", base->i, base->i < 0 ? ")" : "",
                         exponent->i);
  }
  const std::string headline = "integer does not fit";
  auto& error = value.site.known() ? report_->error(Code::number_overflow, value.site, headline)
                                   : report_->error(Code::number_overflow, value.span, headline);
  error.reason("arithmetic of integers gives one here that needs more than 64 bits").help(help);
}

ValueId FunctionBuilder::append(Op op_kind, std::vector<ValueId> operands, ir::Attr attr, Span span, int rank) {
  ranks_.push_back(rank);
  ir::Value value;
  value.op = op_kind;
  value.operands = std::move(operands);
  if (!sources_.empty() || !defined_outside_.empty()) {
    std::set<std::string> symbols;
    add_symbols(attr, symbols);
    bool computed = false;
    for (const std::string& symbol : symbols) {
      const auto source = sources_.find(symbol);
      if (source != sources_.end()) value.sizes.push_back(source->second);
      computed = computed || defines(symbol);
    }
    if (auto* slice = std::get_if<ir::SliceAttr>(&attr)) slice->checked = computed;
  }
  value.attr = std::move(attr);
  value.span = span;
  value.site = site_;
  function_.values.push_back(std::move(value));
  return ValueId(function_.values.size() - 1);
}

std::optional<ir::Dim> FunctionBuilder::no_size(Span span, std::string reason, std::string help) {
  if (report_ == nullptr) return std::nullopt;
  const std::string headline = "the value cannot be a size";
  auto& error = site_.known() ? report_->error(Code::size_value, site_, headline)
                              : report_->error(Code::size_value, span, headline);
  error.reason(std::move(reason)).help(std::move(help));
  return std::nullopt;
}

// A few operations on the same values, such as lengths[0] written twice.
bool FunctionBuilder::same(ValueId a, ValueId b, int depth) const {
  constexpr int most_depth = 4;
  constexpr size_t most_operands = 3;
  if (a == b) return true;
  const ir::Value &x = function_[a], &y = function_[b];
  if (depth == most_depth || x.op != y.op || x.operands.size() != y.operands.size()) return false;
  const types::OpRule rule = types::op_info(x.op).rule;
  if (x.op == Op::input || rule == types::OpRule::control || rule == types::OpRule::external) return false;
  if (x.operands.size() > most_operands || !(x.attr == y.attr)) return false;
  for (size_t i = 0; i < x.operands.size(); ++i) {
    if (!same(x.operands[i], y.operands[i], depth + 1)) return false;
  }
  return true;
}

std::optional<ir::Dim> FunctionBuilder::size_of(ValueId id, Span span) {
  while (function_[id].op == Op::to_device) id = function_[id].operands[0];  // sizes are read wherever they lie
  if (const auto* literal = std::get_if<LiteralAttr>(&function_[id].attr)) {
    if (literal->kind == LiteralAttr::Kind::Int) return ir::Dim::constant(literal->i);
    return no_size(span, "it is no integer", "sizes count elements: write an integer");
  }
  if (const auto exact = number(id); exact && is_unsigned(*exact))
    return no_size(span, "sizes are at most 9223372036854775807", "write a smaller number");
  if (rank(id) > 0) {
    return no_size(
        span,
        fmt::format("it has {} dim{}, and a size is one integer without dims", rank(id), rank(id) == 1 ? "" : "s"),
        "take one element, such as lengths[0], or reduce with keepdim=False");
  }
  if (const auto known = symbol_of_value_.find(id.index()); known != symbol_of_value_.end())
    return ir::Dim::symbol(known->second);
  for (const auto& [value, symbol] : symbol_of_value_) {
    if (same(id, ValueId(value))) return ir::Dim::symbol(symbol);
  }
  const std::string wanted = function_[id].name.empty() ? "size" : function_[id].name;
  std::string symbol = wanted;
  for (int n = 2; !symbols_->insert(symbol).second; ++n) symbol = fmt::format("{}_{}", wanted, n);
  seen_.insert(symbol);
  const ValueId source = append(Op::size_value, {id}, ir::SizeAttr{symbol}, span, 0);
  sources_.emplace(symbol, source);
  symbol_of_value_.emplace(id.index(), symbol);
  return ir::Dim::symbol(symbol);
}

void FunctionBuilder::define_sizes(ValueId call, const std::vector<ir::TensorType>& results) {
  for (const ir::TensorType& type : results) {
    for (const ir::Dim& size : type.shape) {
      const auto symbol = size.as_symbol();
      if (!symbol || seen_.find(*symbol) != seen_.end()) continue;
      if (!symbols_->emplace(*symbol).second) {  // texts say it otherwise (Lowerer::name_sizes)
        no_size(function_[call].span, fmt::format("{} is a size of another branch or loop already", *symbol),
                fmt::format("name it otherwise, such as {}_2", *symbol));
        return;
      }
      seen_.emplace(*symbol);
      sources_.emplace(*symbol, call);
    }
  }
}

int FunctionBuilder::result_rank(Op op_kind, const std::vector<ValueId>& operands, const ir::Attr& attr) const {
  if (op_kind == Op::literal) return 0;
  if (const auto* permuted = std::get_if<ir::PermuteAttr>(&attr)) return static_cast<int>(permuted->order.size());
  if (const auto* reshaped = std::get_if<ir::ReshapeAttr>(&attr)) {
    const auto dims = static_cast<int>(reshaped->dims.size());
    if (reshaped->form == ir::ReshapeForm::Shape) return static_cast<int>(reshaped->shape.size());
    if (rank(operands[0]) < 0) return -1;
    return std::max(0, rank(operands[0]) + (reshaped->form == ir::ReshapeForm::Squeeze ? -dims : dims));
  }
  if (op_kind == Op::take) {
    const int x = rank(operands[0]), indices = rank(operands[1]);
    return x < 0 || indices < 0 ? -1 : x + indices - 1;
  }
  if (op_kind == Op::gather) return rank(operands[1]);
  if (op_kind == Op::index_put || op_kind == Op::scatter) return rank(operands[0]);
  int result = operands.empty() ? -1 : 0;
  for (const ValueId operand : operands) {
    const int operand_rank = rank(operand);
    if (operand_rank < 0) return -1;
    result = std::max(result, operand_rank);
  }
  return result;
}

void keep_reachable(ir::Function& function) {
  std::vector<char> needed(function.values.size(), 0);
  for (size_t i = 0; i < function.parameters.size(); ++i) needed[i] = 1;
  for (const ir::Output& output : function.outputs) needed[output.value.index()] = 1;
  for (size_t i = function.values.size(); i-- > 0;) {  // operands come before users
    if (needed[i] == 0) continue;
    for (const ValueId operand : function.values[i].operands) needed[operand.index()] = 1;
    for (const ValueId size : function.values[i].sizes) needed[size.index()] = 1;
  }
  std::vector<ValueId> renumbered(function.values.size());
  size_t count = 0;
  for (size_t i = 0; i < function.values.size(); ++i) {
    if (needed[i] == 0) continue;
    renumbered[i] = ValueId(count);
    if (count != i) function.values[count] = std::move(function.values[i]);
    for (ValueId& operand : function.values[count].operands) operand = renumbered[operand.index()];
    for (ValueId& size : function.values[count].sizes) size = renumbered[size.index()];
    ++count;
  }
  function.values.resize(count);
  for (ir::Output& output : function.outputs) output.value = renumbered[output.value.index()];
}

void finish_function(ir::Function& function, Report& report, CallSite whole) {
  std::vector<char> used(function.values.size(), 0);    // by an operation or as an output, needed or not
  std::vector<char> varies(function.values.size(), 0);  // depends on a parameter or an index
  for (size_t i = 0; i < function.values.size(); ++i) {
    const ir::Value& value = function.values[i];
    const bool source = value.op == Op::input || types::op_info(value.op).rule == types::OpRule::index;
    varies[i] = source ? 1 : 0;
    for (const ValueId operand : value.operands) {
      used[operand.index()] = 1;
      if (varies[operand.index()] != 0) varies[i] = 1;
    }
    if (!value.sizes.empty()) varies[i] = 1;
  }
  for (const ir::Output& output : function.outputs) {
    used[output.value.index()] = 1;
    if (varies[output.value.index()] != 0) continue;
    report.error(Code::output_constant, output.span, fmt::format("output '{}' is a constant", output.name))
        .at(output.site)
        .reason("it depends on no parameter")
        .help("compute it from accum, or fill the tensor before the call");
  }
  const std::vector<char> used_somewhere(used.begin(),
                                         used.begin() + static_cast<std::ptrdiff_t>(function.parameters.size()));
  keep_reachable(function);
  std::vector<char> needed(function.parameters.size(), 0);
  const auto mark = [&](ValueId id) {
    if (id.index() < needed.size()) needed[id.index()] = 1;
  };
  for (const ir::Value& value : function.values) std::for_each(value.operands.begin(), value.operands.end(), mark);
  for (const ir::Output& output : function.outputs) mark(output.value);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] != 0) continue;
    const ir::Parameter& parameter = function.parameters[i];
    report.error(Code::operand_unused, parameter.span, fmt::format("operand '{}' is not used", parameter.name))
        .at(parameter.site.known() ? parameter.site : whole)
        .reason(used_somewhere[i] != 0 ? "no output depends on it: what is computed from it is not returned"
                                       : "no output depends on it")
        .help(parameter.name == "accum" ? "compute an output from accum" : "use it, or remove the parameter");
  }
}

}  // namespace codetta::frontend
