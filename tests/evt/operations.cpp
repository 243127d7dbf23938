// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include <deque>
#include <map>

#include "types/op.hpp"

namespace codetta::evt_tests {
namespace {

struct Form {
  std::string body, arguments;
};

// Where calling the spelling with as many operands is not the text.
const std::map<std::string_view, Form>& forms() {
  static const std::map<std::string_view, Form> table{
      {"input", {"D = accum + X", "X=f16[M,N]"}},
      {"literal", {"D = accum * 3.0", ""}},
      {"logical_and", {"D = where((accum > 0.0) & (accum < 1.0), accum, 0.0)", ""}},
      {"logical_or", {"D = where((accum > 0.0) | (accum < -1.0), accum, 0.0)", ""}},
      {"logical_xor", {"D = where((accum > 0.0) ^ (accum < 1.0), accum, 0.0)", ""}},
      {"logical_not", {"D = where(~(accum > 0.0), accum, 0.0)", ""}},
      {"where", {"D = where(accum > X, accum, X)", "X=f16[M,N]"}},
      {"clamp", {"D = clamp(accum, min=-1.0, max=1.0)", ""}},
      {"neg", {"D = -accum", ""}},
      {"gelu_tanh", {"D = gelu(accum, approximate=\"tanh\")", ""}},
      {"dgelu_tanh", {"D = dgelu(accum, approximate=\"tanh\")", ""}},
      {"softplus", {"D = softplus(accum)", ""}},
      {"elu", {"D = elu(accum)", ""}},
      {"leaky_relu", {"D = leaky_relu(accum)", ""}},
      {"cast", {"D = cast(accum, bf16)", ""}},
      {"dropout", {"D = dropout(accum, p, 7)", "p=scalar:0.5"}},
      {"row_index", {"D = accum + row_index()", ""}},
      {"col_index", {"D = accum + col_index()", ""}},
      {"batch_index", {"D = accum + batch_index()", ""}},
      {"permute", {"D = accum + permute(X, (1, 0))", "X=f16[N,M]"}},
      {"reshape", {"D = accum + reshape(X, (1, 384))", "X=f16[N]"}},
      {"split", {"left, right = split(accum, 2, dim=-1)\n    D = left * right", "half"}},
      {"join", {"D = join(accum, accum, dim=-1)", "double"}},
      {"matmul", {"D = accum", ""}},
  };
  return table;
}

std::vector<Case> make_cases() {
  static std::deque<std::string> texts;
  const auto keep = [&](std::string text) -> std::string_view { return texts.emplace_back(std::move(text)); };
  std::vector<Case> cases;
  for (const types::OpInfo& op : types::all_ops()) {
    if (op.program_only()) continue;
    std::string body, arguments, problem, returns = "D", parameters;
    const auto form = forms().find(op.name);
    if (form != forms().end()) {
      body = form->second.body;
      arguments = form->second.arguments;
    } else if (op.is_reduction()) {
      body = "D = accum\n    r = " + std::string(op.spelling) + "(accum, axis=\"row\")";
      arguments = "r=f32[M,1]";
      returns = "D, r";
    } else {
      const bool word = (op.spelling[0] >= 'a' && op.spelling[0] <= 'z');
      if (op.arity == 1) body = "D = " + std::string(op.spelling) + "(accum)";
      if (op.arity == 2)
        body = word ? "D = " + std::string(op.spelling) + "(accum, X)" : "D = accum " + std::string(op.spelling) + " X";
      if (op.arity == 3) body = "D = " + std::string(op.spelling) + "(accum, X, accum)";
      if (op.rule == types::OpRule::compare) body = "D = where(accum " + std::string(op.spelling) + " X, 1.0, accum)";
      if (op.arity > 1) arguments = "X=f16[M,N]";
    }
    if (arguments.starts_with("X=")) parameters = ", X";
    if (arguments.starts_with("p=")) parameters = ", p";
    if (op.name == "batch_index") problem = "batch=2";
    const std::string d = arguments == "half"     ? "D=f16[M,192]"
                          : arguments == "double" ? "D=f16[M,768]"
                          : problem.empty()       ? "D=f16[M,N]"
                                                  : "D=f16[batch,M,N]";
    if (arguments == "half" || arguments == "double") arguments.clear();
    cases.push_back({op.name, keep(problem), keep(arguments + " " + d),
                     keep("def f(accum" + parameters + "):\n    " + body + "\n    return " + returns + "\n")});
  }
  return cases;
}

}  // namespace

const std::vector<Case>& operation_cases() {
  static const std::vector<Case> cases = make_cases();
  return cases;
}

}  // namespace codetta::evt_tests
