// SPDX-License-Identifier: Apache-2.0
// Matching of names, the rules for D, and what outputs may be bound to.
#include "ir/bind_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "diag/display.hpp"

namespace codetta::ir {
using diag::Code;

const BoundArgument* find_argument(const std::vector<BoundArgument>& arguments, const std::string& name) {
  for (const BoundArgument& argument : arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

namespace {

bool is_output(const Function& function, const std::string& name) {
  return std::any_of(function.outputs.begin(), function.outputs.end(), [&](const Output& o) { return o.name == name; });
}
bool is_operand(const Function& function, const std::string& name) {
  return std::any_of(function.parameters.begin(), function.parameters.end(),
                     [&](const Parameter& p) { return p.name == name && name != "accum"; });
}

// A name that a caller gives may be anything.
std::string shown(const std::string& name) { return diag::displayable(name.substr(0, 64)); }

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(shown(name));
  return texts.empty() ? "nothing" : base::join(texts, ", ");
}

std::vector<std::string> output_names(const Function& function) {
  std::vector<std::string> names;
  for (const Output& output : function.outputs) names.push_back(output.name);
  return names;
}

// As many as the front end tells of a text.
constexpr size_t max_errors = 20;

struct GivenNames {
  std::vector<std::string> given, unknown;  // unknown: of no operand and no output
};

Diagnostic missing(const EpilogueFunction& function, const std::string& name, diag::Span span, bool output,
                   const GivenNames& names) {
  const std::string near = diag::nearest(name, names.unknown);
  return diag::error(
             Code::argument_missing,
             fmt::format("Argument {} is not provided in the kwargs of the EpilogueArguments constructor", name))
      .at(function.source, span)
      .about(name)
      .reason(fmt::format("{} is {} of the epilogue; provided: {}", name, output ? "an output" : "an operand",
                          listed(names.given)))
      .help(near.empty() ? output ? fmt::format("bind {} to the tensor that receives it", name)
                                  : fmt::format("bind {} to a tensor or a scalar", name)
                         : fmt::format("did you mean {} where {} is provided?", name, near))
      .diagnostic();
}

Diagnostic unexpected(const EpilogueFunction& function, const std::vector<std::string>& unknown) {
  std::vector<std::string> known = output_names(function);
  for (size_t i = function.parameters.size(); i-- > 1;) known.insert(known.begin(), function.parameters[i].name);
  std::string help =
      unknown.size() == 1 ? "remove it, or use it in the epilogue" : "remove them, or use them in the epilogue";
  if (unknown.size() == 1) {
    const std::string near = diag::nearest(unknown[0], known);
    if (!near.empty()) help = fmt::format("did you mean {}?", near);
  }
  const diag::Span span = function.parameters.empty() ? diag::Span{} : function.parameters[0].span;
  return diag::error(Code::argument_unexpected,
                     fmt::format("Unexpected keyword arguments for epilogue: {}", listed(unknown)))
      .at(function.source, span)
      .about(unknown[0])
      .reason(fmt::format("operands and outputs of the epilogue are: {}", listed(known)))
      .help(std::move(help))
      .diagnostic();
}

// Where the function names it; unknown where it does not.
diag::Span span_of(const EpilogueFunction& function, const std::string& name) {
  for (const Parameter& parameter : function.parameters) {
    if (parameter.name == name) return parameter.span;
  }
  for (const Output& output : function.outputs) {
    if (output.name == name) return output.span;
  }
  return {};
}

GivenNames names_of(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments,
                    std::vector<Diagnostic>& errors) {
  GivenNames names;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name;
    if (find_argument(arguments, name) != &arguments[i]) {
      errors.push_back(
          diag::error(Code::argument_duplicate, fmt::format("argument {} is provided twice", shown(name)))
              .at(function.source, span_of(function, name))
              .about(name)
              .reason(fmt::format("as {} and as {}", describe(*find_argument(arguments, name)), describe(arguments[i])))
              .help("provide each name once")
              .diagnostic());
      continue;
    }
    names.given.push_back(name);
    if (!is_operand(function, name) && !is_output(function, name)) names.unknown.push_back(name);
  }
  return names;
}

// By parameter; null for accum and for what is missing.
std::vector<const BoundArgument*> operands_of(const EpilogueFunction& function,
                                              const std::vector<BoundArgument>& arguments, const GivenNames& names,
                                              std::vector<Diagnostic>& errors) {
  std::vector<const BoundArgument*> operands(function.parameters.size(), nullptr);
  for (size_t i = 1; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    operands[i] = find_argument(arguments, parameter.name);
    if (operands[i] == nullptr && errors.size() < max_errors)
      errors.push_back(missing(function, parameter.name, parameter.span, false, names));
  }
  return operands;
}

bool same_binding(const BoundArgument& a, const BoundArgument& b) {
  return a.dtype == b.dtype && a.shape == b.shape && !a.is_scalar;
}

// By value: does it depend on a parameter or on an index?
std::vector<bool> depends_on_something(const Function& function) {
  std::vector<bool> depends(function.values.size(), false);
  for (size_t i = 0; i < function.values.size(); ++i) {
    const Value& value = function.values[i];
    depends[i] = value.op == Op::input || types::op_info(value.op).rule == types::OpRule::index;
    for (const ValueId operand : value.operands) depends[i] = depends[i] || depends[operand.index()];
  }
  return depends;
}

}  // namespace

std::string describe(const BoundArgument& argument) {
  return argument.is_scalar ? fmt::format("{} scalar", dtype_name(argument.dtype))
                            : fmt::format("{}{}", dtype_name(argument.dtype), to_string(argument.shape));
}

Result<MatchedArguments> match_arguments(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments,
                                         const GemmFacts& facts) {
  std::vector<Diagnostic> errors;
  const bool returns_d = is_output(function, "D");
  if (facts.has_out && !returns_d) {
    const diag::Span span = function.outputs.empty() ? diag::Span{} : function.outputs[0].span;
    errors.push_back(
        diag::error(Code::output_d,
                    "D is expected to be a output node with 0 users to enable smem reuse between C and D, but got []")
            .at(function.source, span)
            .about("D")
            .reason(fmt::format("`out` of the GEMM is the view of output D, and the epilogue returns {}",
                                listed(output_names(function))))
            .help("return D, or leave `out` away")
            .diagnostic());
  }
  const GivenNames names = names_of(function, arguments, errors);
  MatchedArguments matched;
  matched.parameters = operands_of(function, arguments, names, errors);
  for (const Output& output : function.outputs) {
    const BoundArgument* bound = find_argument(arguments, output.name);
    if (output.name == "D" && facts.has_out) {
      const BoundArgument out{"D", false, facts.out, facts.out_shape};
      if (bound != nullptr && !same_binding(*bound, out)) {
        errors.push_back(diag::error(Code::output_d,
                                     fmt::format("`out` is {} but D is bound to {}", describe(out), describe(*bound)))
                             .at(function.source, output.span, describe(*bound))
                             .about("D")
                             .reason("`out` of the GEMM and output D are the same view")
                             .help("bind only one of them, or both to the same tensor")
                             .diagnostic());
      }
      matched.outputs.push_back(out);
    } else if (bound != nullptr) {
      matched.outputs.push_back(*bound);
      if (bound->is_scalar) {
        errors.push_back(diag::error(Code::output_binding, fmt::format("output {} is bound to a scalar", output.name))
                             .at(function.source, output.span, describe(*bound))
                             .about(output.name)
                             .reason("an output is written to memory")
                             .help(fmt::format("bind {} to a tensor; a single value has shape [] or [1]", output.name))
                             .diagnostic());
      }
    } else if (errors.size() < max_errors) {
      errors.push_back(missing(function, output.name, output.span, true, names));
    }
  }
  if (!names.unknown.empty()) errors.push_back(unexpected(function, names.unknown));
  if (!errors.empty()) return Error(std::move(errors));
  return matched;
}

Result<MatchedArguments> match_operands(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments) {
  std::vector<Diagnostic> errors;
  const GivenNames names = names_of(function, arguments, errors);
  MatchedArguments matched;
  matched.parameters = operands_of(function, arguments, names, errors);
  if (!names.unknown.empty()) errors.push_back(unexpected(function, names.unknown));
  if (!errors.empty()) return Error(std::move(errors));
  return matched;
}

Result<void> check_dependences(const EpilogueFunction& function) {
  const std::vector<bool> depends = depends_on_something(function);
  std::vector<bool> needed(function.values.size(), false);
  for (const Output& output : function.outputs) {
    needed[output.value.index()] = true;
    if (depends[output.value.index()]) continue;
    return diag::error(Code::output_constant, fmt::format("output '{}' is a constant", output.name))
        .at(function.source, output.span)
        .reason("it depends on no parameter")
        .help("compute it from accum, or fill the tensor before the call");
  }
  for (size_t i = function.values.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const ValueId operand : function.values[i].operands) needed[operand.index()] = true;
  }
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    if (needed[i]) continue;
    return diag::error(Code::operand_unused, fmt::format("operand '{}' is not used", function.parameters[i].name))
        .at(function.source, function.parameters[i].span)
        .reason("no output depends on it")
        .help(i == 0 ? "compute an output from accum" : "use it, or remove the parameter");
  }
  return {};
}

std::vector<int64_t> sizes_of(const std::vector<Dim>& shape, const GemmFacts& facts) {
  const auto value_of = [&](std::string_view name) -> std::optional<int64_t> {
    return name == "m" ? facts.m : name == "n" ? facts.n : name == "k" ? facts.k : facts.batch;
  };
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) {
    const std::optional<int64_t> constant = dim.as_constant();
    sizes.push_back(constant ? *constant : dim.evaluate(value_of).value_or(-1));
  }
  return sizes;
}

Result<void> check_output(const EpilogueFunction& function, const Output& output, const BoundArgument& bound,
                          const TensorType& type, const GemmFacts& facts) {
  const std::vector<int64_t> sizes = sizes_of(type.shape, facts);
  // Leading dims that are 1 whatever the sizes are: they may be absent, and absent ones may be there as 1.
  size_t leading = 0;
  while (leading < type.shape.size() && type.shape[leading] == Dim::constant(1)) ++leading;
  const auto rank = static_cast<size_t>(bound.shape.rank());
  const size_t needed = sizes.size() - leading;
  const size_t most = std::max<size_t>(sizes.size(), facts.batched ? 3 : 2);
  bool fits = rank >= needed && rank <= most;
  for (size_t i = 0; fits && i < rank; ++i) {
    const int64_t size = bound.shape[static_cast<int>(rank - 1 - i)];
    fits = size == (i < needed ? sizes[sizes.size() - 1 - i] : 1);
  }
  if (fits) return {};
  const std::string value_shape = fmt::format("[{}]", fmt::join(sizes, ", "));
  std::string help = fmt::format("bind {} to a tensor of shape {}", output.name, value_shape);
  if (rank < needed && facts.batched && needed == 3) help += "; a batched GEMM has outputs with the batch dim";
  if (needed == 2 && rank == 1 && sizes.back() == 1) help += ", a column";
  return diag::error(Code::output_shape, fmt::format("{} is bound as {} but its value has shape {}", output.name,
                                                     to_string(bound.shape), value_shape))
      .at(function.source, output.span, describe(bound))
      .reason(leading == 0 ? std::string("every size must be equal")
                           : std::string("sizes must be equal; leading dims of size 1 may be left out"))
      .help(std::move(help));
}

}  // namespace codetta::ir
