// SPDX-License-Identifier: Apache-2.0
// An untyped function as text of the language: one assignment a value, literals in place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "ir/function.hpp"
#include "ir/print.hpp"

namespace codetta::ir {
namespace {

// Numbers as Python reads them; a literal that is negative needs parentheses before ** only, and gets them everywhere.
std::string number_text(const LiteralAttr& literal) {
  if (literal.kind == LiteralAttr::Kind::Bool) return literal.i != 0 ? "True" : "False";
  std::string text = literal.kind == LiteralAttr::Kind::Int ? std::to_string(literal.i) : base::format_real(literal.f);
  if (literal.kind == LiteralAttr::Kind::Float && std::isinf(literal.f)) text = literal.f < 0 ? "-inf" : "inf";
  if (literal.kind == LiteralAttr::Kind::Float && std::isnan(literal.f)) text = "nan";
  return text[0] == '-' ? "(" + text + ")" : text;
}

std::string tuple_text(const std::vector<int32_t>& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

// Sizes inside brackets or parentheses; symbols as strings.
std::string sizes_text(const std::vector<Dim>& sizes, bool strings) {
  std::vector<std::string> parts;
  for (const Dim& size : sizes)
    parts.push_back(strings && !size.is_constant() ? fmt::format("\"{}\"", size.to_string()) : size.to_string());
  return base::join(parts, ", ");
}

// f32 is a number, f32[()] a tensor without dims.
std::string type_text(const TypeAnnotation& type) {
  const std::string dtype(dtype_name(type.dtype));
  if (type.is_scalar) return dtype;
  return dtype + "[" + (type.shape.empty() ? "()" : sizes_text(type.shape, true)) + "]";
}

bool is_symbol(std::string_view spelling) { return !spelling.empty() && !base::is_identifier(spelling); }

class FunctionPrinter {
 public:
  explicit FunctionPrinter(const Function& function) : function_(function), names_(function.values.size()) {}

  // Functions that branches and loops name come first; `printed`: the texts of those that are there, by name.
  std::string run(std::map<std::string, std::string>& printed) {
    for (const Value& value : function_.values) {
      if (const auto* branches = std::get_if<CondAttr>(&value.attr)) {
        callees_[branches->then_function.get()] = print_callee(*branches->then_function, printed);
        callees_[branches->otherwise_function.get()] = print_callee(*branches->otherwise_function, printed);
      }
      if (const auto* loop = std::get_if<WhileAttr>(&value.attr)) {
        callees_[loop->condition_function.get()] = print_callee(*loop->condition_function, printed);
        callees_[loop->body_function.get()] = print_callee(*loop->body_function, printed);
      }
    }
    for (const auto& [name, text] : printed) taken_.insert(name);
    return std::move(before_) + body();
  }

 private:
  // Prints a function unless an equal one is there; the name that calls it.
  std::string print_callee(const Function& callee, std::map<std::string, std::string>& printed) {
    Function named = callee;
    for (int next = 2;; ++next) {
      std::string inner = FunctionPrinter(named).run(printed);
      const auto [at, fresh] = printed.emplace(named.name, inner);
      if (fresh) before_ += inner + "\n\n";
      if (fresh || at->second == inner) return named.name;
      named.name = fmt::format("{}_{}", callee.name, next);
    }
  }

  std::string body() {
    reserve_names();
    std::vector<std::string> parameters;
    for (const Parameter& parameter : function_.parameters) {
      std::string text = parameter.name;
      if (parameter.type) text += ": " + type_text(*parameter.type);
      parameters.push_back(std::move(text));
    }
    out_ = fmt::format("def {}({}):\n", function_.name.empty() ? "epilogue" : function_.name,
                       base::join(parameters, ", "));
    for (size_t i = function_.parameters.size(); i < function_.values.size(); ++i) assign(ValueId(i));
    std::vector<std::string> returned;
    for (const Output& output : function_.outputs) {
      if (names_[output.value.index()] != output.name)
        out_ += fmt::format("    {} = {}\n", output.name, reference(output.value));
      returned.push_back(output.name);
    }
    out_ += fmt::format("    return {}\n", base::join(returned, ", "));
    return std::move(out_);
  }

  // Outputs get their names first, then variables keep theirs where they are free.
  void reserve_names() {
    for (const types::OpInfo& info : types::all_ops()) taken_.emplace(info.spelling);
    taken_.insert({"inf", "nan"});
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      names_[i] = function_.parameters[i].name;
      taken_.insert(names_[i]);
    }
    for (const Output& output : function_.outputs) {
      taken_.insert(output.name);
      std::string& name = names_[output.value.index()];
      if (name.empty() && function_[output.value].op != Op::literal) name = output.name;
    }
  }
  std::string fresh_name(const std::string& wanted) {
    if (base::is_identifier(wanted) && taken_.insert(wanted).second) return wanted;
    for (;;) {
      std::string name = fmt::format("t{}", next_++);
      if (taken_.insert(name).second) return name;
    }
  }
  const std::string& name_of(ValueId id) {
    std::string& name = names_[id.index()];
    if (name.empty()) name = fresh_name(function_[id].name);
    return name;
  }
  std::string reference(ValueId id) {
    if (const auto* literal = std::get_if<LiteralAttr>(&function_[id].attr)) return number_text(*literal);
    return name_of(id);
  }
  std::string argument_list(const Value& value) {
    std::vector<std::string> arguments;
    for (const ValueId operand : value.operands) arguments.push_back(reference(operand));
    return base::join(arguments, ", ");
  }

  // x[:, 1:"n // 2":3], with colons for the dims before; x[..., 1:, :] where the dim counts from the end.
  std::string slice_text(const Value& value) {
    const auto& slice = *std::get_if<SliceAttr>(&value.attr);
    std::vector<std::string> items(static_cast<size_t>(std::max(slice.dim, 0)), ":");
    if (slice.dim < 0) items.emplace_back("...");
    std::string item = slice.start == Dim::constant(0) ? ":" : sizes_text({slice.start}, true) + ":";
    if (slice.bound == SliceBound::Stop) item += sizes_text({slice.count}, true);
    if (slice.step != 1) item += fmt::format(":{}", slice.step);
    items.push_back(std::move(item));
    for (int32_t dim = slice.dim; dim < -1; ++dim) items.emplace_back(":");
    return fmt::format("{}[{}]", reference(value.operands[0]), base::join(items, ", "));
  }

  std::string program_call(const Value& value) {
    const types::OpInfo& info = types::op_info(value.op);
    std::string name(info.spelling);
    std::string arguments = argument_list(value);
    if (const auto* reshape = std::get_if<ReshapeAttr>(&value.attr)) {
      const bool squeeze = reshape->form == ReshapeForm::Squeeze;
      if (reshape->form != ReshapeForm::Shape) {
        name = squeeze ? "squeeze" : "unsqueeze";
        arguments += ", " + tuple_text(reshape->dims);
      } else if (info.rule == types::OpRule::index) {
        name = "arange";
        arguments = sizes_text(reshape->shape, true);
      } else {
        arguments += fmt::format(", ({}{})", sizes_text(reshape->shape, true), reshape->shape.size() == 1 ? "," : "");
      }
    }
    if (const auto* take = std::get_if<TakeAttr>(&value.attr)) arguments += fmt::format(", dim={}", take->dim);
    if (const auto* put = std::get_if<IndexPutAttr>(&value.attr))
      arguments += fmt::format(", dim={}{}", put->dim, put->accumulate ? ", accumulate=True" : "");
    if (const auto* scatter = std::get_if<ScatterAttr>(&value.attr))
      arguments += fmt::format(", dim={}, reduce=\"{}\"", scatter->dim, to_string(scatter->reduce));
    if (const auto* branches = std::get_if<CondAttr>(&value.attr)) {
      const std::string functions = fmt::format("{}, {}", callees_.at(branches->then_function.get()),
                                                callees_.at(branches->otherwise_function.get()));
      const size_t comma = arguments.find(", ");
      arguments = comma == std::string::npos
                      ? fmt::format("{}, {}", arguments, functions)
                      : fmt::format("{}, {}{}", arguments.substr(0, comma), functions, arguments.substr(comma));
    }
    if (const auto* loop = std::get_if<WhileAttr>(&value.attr))
      arguments = fmt::format("{}, {}, {}", callees_.at(loop->condition_function.get()),
                              callees_.at(loop->body_function.get()), arguments);
    if (const auto* external = std::get_if<ExternAttr>(&value.attr))
      arguments =
          fmt::format("\"{}\", {}, {}{}", base::escape_json(external->symbol), arguments, out_text(external->results),
                      external->form == ExternForm::Alloc ? ", form=\"alloc\"" : "");
    if (const auto* kernel = std::get_if<UserKernelAttr>(&value.attr))
      arguments = fmt::format("\"{}\", {}, {}", base::escape_json(kernel->name), arguments, out_text(kernel->results));
    return fmt::format("{}({})", name, arguments);
  }

  static std::string out_text(const std::vector<TensorType>& results) {
    std::vector<std::string> texts;
    for (const TensorType& type : results) texts.push_back(fmt::format("\"{}\"", ir::to_string(type)));
    return texts.size() == 1 ? "out=" + texts[0] : fmt::format("out=({})", base::join(texts, ", "));
  }

  std::string expression(const Value& value) {
    const types::OpInfo& info = types::op_info(value.op);
    if (is_symbol(info.spelling)) {
      if (value.operands.size() == 1) return fmt::format("{}{}", info.spelling, reference(value.operands[0]));
      return fmt::format("{} {} {}", reference(value.operands[0]), info.spelling, reference(value.operands[1]));
    }
    if (value.op == Op::slice) return slice_text(value);
    if (types::op_info(value.op).program_only() || value.op == Op::reshape ||
        types::op_info(value.op).rule == types::OpRule::index)
      return program_call(value);
    std::string arguments = argument_list(value);
    if (value.op == Op::gelu_tanh || value.op == Op::dgelu_tanh) arguments += ", approximate=\"tanh\"";
    if (const auto* cast = std::get_if<CastAttr>(&value.attr))
      arguments += fmt::format(", {}", dtype_name(cast->dtype));
    if (const auto* reduce = std::get_if<ReduceAttr>(&value.attr)) {
      if (reduce->axis == ReduceAxis::Row) arguments += ", axis=\"row\"";
      if (reduce->axis == ReduceAxis::Column) arguments += ", axis=\"column\"";
      if (reduce->axis == ReduceAxis::Dims) {
        arguments += reduce->dims.size() == 1 ? fmt::format(", dim={}", reduce->dims[0])
                                              : fmt::format(", dim={}", tuple_text(reduce->dims));
      }
    }
    if (const auto* permute = std::get_if<PermuteAttr>(&value.attr)) arguments += ", " + tuple_text(permute->order);
    if (const auto* join = std::get_if<JoinAttr>(&value.attr)) {
      arguments += fmt::format(", dim={}{}", join->dim, join->interleave ? ", interleave=True" : "");
    }
    return fmt::format("{}({})", info.spelling, arguments);
  }

  void assign(ValueId id) {
    const Value& value = function_[id];
    if (value.op == Op::literal) return;
    if (value.op == Op::split) return assign_split(id);
    if (value.op == Op::result) return;  // stands with the first one
    if (const size_t results = result_count(value); results > 1) return assign_results(id, results);
    out_ += fmt::format("    {} = {}\n", name_of(id), expression(value));
  }

  static size_t result_count(const Value& value) {
    if (const auto* branches = std::get_if<CondAttr>(&value.attr)) return branches->then_function->outputs.size();
    if (const auto* loop = std::get_if<WhileAttr>(&value.attr)) return loop->body_function->outputs.size();
    return std::max<size_t>(1, result_types(value.attr).size());
  }

  void assign_results(ValueId id, size_t results) {
    std::vector<std::string> targets(results);
    targets[0] = name_of(id);
    for (size_t i = 0; i < function_.values.size(); ++i) {
      const auto* result = std::get_if<ResultAttr>(&function_.values[i].attr);
      if (result == nullptr || function_.values[i].operands[0] != id) continue;
      targets[static_cast<size_t>(result->index)] = name_of(ValueId(i));
    }
    for (std::string& target : targets) {
      if (target.empty()) target = "_";
    }
    out_ += fmt::format("    {} = {}\n", base::join(targets, ", "), expression(function_[id]));
  }

  // All parts of one split are assigned together, where the first of them stands.
  void assign_split(ValueId id) {
    const SplitAttr& split = *std::get_if<SplitAttr>(&function_[id].attr);
    const ValueId operand = function_[id].operands[0];
    const auto key = [](ValueId x, const SplitAttr& s) { return std::tuple(x.index(), s.ways, s.dim); };
    if (parts_.empty()) {
      for (size_t i = 0; i < function_.values.size(); ++i) {
        const auto* part = std::get_if<SplitAttr>(&function_.values[i].attr);
        if (part != nullptr) parts_[key(function_.values[i].operands[0], *part)].emplace_back(i);
      }
    }
    std::vector<ValueId>& parts = parts_[key(operand, split)];
    if (parts.empty()) return;  // written already
    std::vector<std::string> targets(static_cast<size_t>(split.ways));
    std::string copies;
    for (const ValueId part : parts) {
      std::string& target = targets[static_cast<size_t>(std::get_if<SplitAttr>(&function_[part].attr)->part)];
      if (target.empty()) {
        target = name_of(part);
      } else {  // the same part once more
        copies += fmt::format("    {} = {}\n", name_of(part), target);
      }
    }
    for (std::string& target : targets) {
      if (target.empty()) target = fresh_name("");
    }
    out_ += fmt::format("    {} = split({}, {}, dim={})\n", base::join(targets, ", "), reference(operand), split.ways,
                        split.dim) +
            copies;
    parts.clear();
  }

  const Function& function_;
  std::vector<std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::tuple<uint32_t, int32_t, int32_t>, std::vector<ValueId>> parts_;
  std::map<const Function*, std::string> callees_;
  uint32_t next_ = 0;
  std::string out_, before_;
};

}  // namespace

std::string print(const Function& function) {
  std::map<std::string, std::string> printed;
  return FunctionPrinter(function).run(printed);
}

}  // namespace codetta::ir
