// SPDX-License-Identifier: Apache-2.0
// An untyped function as text of the language: one assignment a value, literals in place.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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
  const std::string tensor = dtype + "[" + (type.shape.empty() ? "()" : sizes_text(type.shape, true)) + "]";
  return type.donated ? "donated[" + tensor + "]" : tensor;
}

bool is_symbol(std::string_view spelling) { return !spelling.empty() && !base::is_identifier(spelling); }

// The functions that branches and loops of `function` name.
std::vector<const Function*> callees_of(const Function& function) {
  std::vector<const Function*> out;
  for (const Value& value : function.values) {
    if (const auto* branches = std::get_if<CondAttr>(&value.attr))
      out.insert(out.end(), {branches->then_function.get(), branches->otherwise_function.get()});
    if (const auto* loop = std::get_if<WhileAttr>(&value.attr))
      out.insert(out.end(), {loop->condition_function.get(), loop->body_function.get()});
  }
  return out;
}

// What one text holds before its last function.
struct Text {
  std::string out;
  std::map<std::string, std::string> names;  // of a function that is there, by its own name and what follows that
  std::map<std::string, int> numbers;        // how often a name was asked for
  std::set<std::string, std::less<>> taken;  // by functions, and by what keeps its name: parameters and outputs

  explicit Text(const Function& last) : taken{last.name} {
    for (const Parameter& parameter : last.parameters) taken.insert(parameter.name);
    for (const Output& output : last.outputs) taken.insert(output.name);
  }
};

class FunctionPrinter {
 public:
  explicit FunctionPrinter(const Function& function) : function_(function), names_(function.values.size()) {}

  // From the parameters on, without "def NAME". Functions that branches and loops name go into `text` first.
  std::string run(Text& text) {
    for (const Function* callee : callees_of(function_)) {
      if (!callees_.contains(callee)) callees_[callee] = print_callee(*callee, text);
    }
    for (const auto& [printed, name] : text.names) taken_.insert(name);
    return body();
  }

 private:
  // Prints a function, once, unless an equal one is there; the name that calls it.
  static std::string print_callee(const Function& callee, Text& text) {
    const std::string printed = FunctionPrinter(callee).run(text);
    const auto [known, fresh] = text.names.try_emplace(callee.name + printed);
    std::string& name = known->second;
    if (!fresh) return name;
    do {
      const int number = ++text.numbers[callee.name];
      name = number == 1 ? callee.name : fmt::format("{}_{}", callee.name, number);
    } while (!text.taken.insert(name).second);
    text.out += fmt::format("def {}{}\n\n", name, printed);
    return name;
  }

  std::string body() {
    reserve_names();
    std::vector<std::string> parameters;
    for (const Parameter& parameter : function_.parameters) {
      std::string text = parameter.name;
      if (parameter.type) text += ": " + type_text(*parameter.type);
      parameters.push_back(std::move(text));
    }
    out_ = fmt::format("({}):\n", base::join(parameters, ", "));
    find_sizes();
    find_merged();
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
    if (!name.empty()) return name;
    const auto size = size_of_.find(id.index());  // read back, it gives the symbol its name
    return name = fresh_name(size != size_of_.end() ? size->second : function_[id].name);
  }
  // Values that are sizes, by their symbols; variables leave the names of all symbols alone then.
  void find_sizes() {
    for (const Value& value : function_.values) {
      const auto* size = std::get_if<SizeAttr>(&value.attr);
      if (size == nullptr) continue;
      size_of_.emplace(value.operands[0].index(), size->symbol);
      value_of_.emplace(size->symbol, value.operands[0]);
    }
    // A branch names sizes of around it.
    const bool inside = function_.parameters.empty() || !function_.parameters[0].type;
    for (size_t i = 0; inside && i < function_.values.size(); ++i) {
      for (std::string& symbol : symbols_of(function_.values[i].attr)) {
        if (value_of_.find(symbol) == value_of_.end()) taken_.insert(std::move(symbol));
      }
    }
    if (size_of_.empty()) return;
    for (const Parameter& parameter : function_.parameters) {
      if (!parameter.type) continue;
      for (const Dim& dim : parameter.type->shape) {
        for (std::string& symbol : dim.symbols()) taken_.insert(std::move(symbol));
      }
    }
  }
  // As sizes_text of symbols as strings; where a value says a size, its name does.
  std::string sizes(const std::vector<Dim>& dims) {
    std::vector<std::string> parts;
    for (const Dim& dim : dims) {
      const std::vector<std::string> symbols = dim.symbols();
      if (std::none_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return value_of_.contains(s); })) {
        parts.push_back(sizes_text({dim}, true));
        continue;
      }
      std::string text;
      const std::string printed = dim.to_string();
      for (size_t at = 0; at < printed.size();) {
        size_t end = at;
        while (end < printed.size() && (std::isalnum(static_cast<unsigned char>(printed[end])) || printed[end] == '_'))
          ++end;
        const auto value = value_of_.find(printed.substr(at, end - at));
        if (end == at) ++end;
        text += value != value_of_.end() ? name_of(value->second) : printed.substr(at, end - at);
        at = end;
      }
      parts.push_back(std::move(text));
    }
    return base::join(parts, ", ");
  }
  std::string reference(ValueId id) {
    if (const auto* literal = std::get_if<LiteralAttr>(&function_[id].attr)) return number_text(*literal);
    return name_of(id);
  }
  // The reduction of sum(x, axis="row", keepdim=False), which is a squeeze of it: an epilogue has no other squeeze.
  const Value* reduction_of(const Value& value) const {
    const auto* reshape = std::get_if<ReshapeAttr>(&value.attr);
    if (reshape == nullptr || reshape->form != ReshapeForm::Squeeze || !function_.is_epilogue()) return nullptr;
    const Value& operand = function_[value.operands[0]];
    return types::op_info(operand.op).is_reduction() ? &operand : nullptr;
  }
  // Reductions that are written with their squeeze, and nowhere else.
  void find_merged() {
    std::vector<uint32_t> uses(function_.values.size(), 0);
    for (const Output& output : function_.outputs) ++uses[output.value.index()];
    for (const Value& value : function_.values) {
      for (const ValueId operand : value.operands) ++uses[operand.index()];
    }
    merged_.assign(function_.values.size(), false);
    for (const Value& value : function_.values) {
      if (reduction_of(value) != nullptr) merged_[value.operands[0].index()] = uses[value.operands[0].index()] == 1;
    }
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
    std::string item = slice.start == Dim::constant(0) ? ":" : sizes({slice.start}) + ":";
    if (slice.bound == SliceBound::Stop) item += sizes({slice.count});
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
        arguments = sizes(reshape->shape);
      } else {
        arguments += fmt::format(", ({}{})", sizes(reshape->shape), reshape->shape.size() == 1 ? "," : "");
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
    if (const auto* place = std::get_if<DeviceAttr>(&value.attr))
      arguments += fmt::format(", {}", static_cast<int32_t>(place->device));
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
    if (const Value* reduction = reduction_of(value)) {
      std::string text = expression(*reduction);
      text.pop_back();
      return text + ", keepdim=False)";
    }
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
    if (value.op == Op::literal || value.op == Op::size_value || merged_[id.index()]) return;
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
  std::map<uint32_t, std::string> size_of_;               // by value that is a size: its symbol
  std::map<std::string, ValueId, std::less<>> value_of_;  // by symbol
  std::vector<bool> merged_;
  uint32_t next_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const Function& function) {
  Text text(function);
  const std::string printed = FunctionPrinter(function).run(text);
  return fmt::format("{}def {}{}", text.out, function.name.empty() ? "epilogue" : function.name, printed);
}

}  // namespace codetta::ir
