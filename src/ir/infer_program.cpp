// SPDX-License-Identifier: Apache-2.0
// Types of what only programs have: reading and writing by indices, branches, loops, and code of the user.
#include <fmt/format.h>

#include <algorithm>

#include "base/keywords.hpp"
#include "base/text.hpp"
#include "ir/analyses.hpp"
#include "ir/infer.hpp"
#include "ir/kernel_names.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using diag::Code;

std::string note(const OperandNames& names, std::span<const OperandFacts> operands, size_t i) {
  return fmt::format("{} is {}", names(i), to_string(*operands[i].type));
}

bool is_one_element(const TensorType& type) {
  return std::all_of(type.shape.begin(), type.shape.end(), [](const Dim& dim) { return dim == Dim::constant(1); });
}

MaybeComplaint check_indices(Op op, std::span<const OperandFacts> operands, size_t along, const OperandNames& names) {
  const TensorType& type = *operands[1].type;
  if (types::is_float(type.dtype) || types::is_bool(type.dtype)) {
    return Complaint{
        Code::operand_kind,
        fmt::format("the indices of {} are {}, not integers", types::op_info(op).name, dtype_name(type.dtype)),
        note(names, operands, 1), "pass integers, or cast them to i64", 1};
  }
  const LiteralAttr* literal = operands[1].literal;
  const Dim& size = operands[0].type->shape[along];
  if (literal == nullptr) return std::nullopt;
  if (literal->i >= 0 && (!size.is_constant() || literal->i < *size.as_constant())) return std::nullopt;
  return Complaint{Code::layout_mismatch,
                   fmt::format("index {} is out of range for dim {} of {}, whose size is {}", literal->i, along,
                               names(0), size.to_string()),
                   "indices count from 0 and are not taken from the end",
                   size.is_constant() ? fmt::format("use an index from 0 to {}", *size.as_constant() - 1)
                                      : std::string("use an index from 0 on"),
                   1};
}

// x with the dims of `indices` in the place of dim `along`.
std::vector<Dim> taken_shape(const TensorType& x, const TensorType& indices, size_t along) {
  std::vector<Dim> shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(along));
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(along) + 1, x.shape.end());
  return shape;
}

// gather, scatter: one index an element, inside of x along all other dims.
MaybeComplaint check_elementwise_indices(Op op, std::span<const OperandFacts> operands, size_t along,
                                         const OperandNames& names) {
  const TensorType &x = *operands[0].type, &indices = *operands[1].type;
  bool fits = indices.shape.size() == x.shape.size();
  for (size_t d = 0; fits && d < x.shape.size(); ++d)
    fits = d == along || types::is_non_negative(x.shape[d] - indices.shape[d]);
  if (fits) return std::nullopt;
  return Complaint{Code::layout_mismatch,
                   fmt::format("the indices of {} have the shape {}, which does not fit {}", types::op_info(op).name,
                               types::to_string(indices.shape), types::to_string(x.shape)),
                   fmt::format("{}, {}", note(names, operands, 0), note(names, operands, 1)),
                   fmt::format("there is one index an element: as many dims, none larger but dim {}", along), 1};
}

// The dtype of x with values put into it. Weak numbers yield.
Inference put_result(Op op, std::span<const OperandFacts> operands, Attr attr, bool computes,
                     const OperandNames& names) {
  const TensorType &x = *operands[0].type, &values = *operands[2].type;
  const DType dtype = x.weak ? values.dtype : x.dtype;
  const bool kind_fits = !values.weak || x.weak || types::is_float(x.dtype) || !types::is_float(values.dtype);
  if ((!x.weak && !values.weak && x.dtype != values.dtype) || !kind_fits) {
    return Complaint{
        Code::operand_kind,
        fmt::format("{} puts {} into {}", types::op_info(op).name, dtype_name(values.dtype), dtype_name(x.dtype)),
        fmt::format("{}, {}", note(names, operands, 0), note(names, operands, 2)),
        fmt::format("write cast({}, {})", names(2), dtype_name(x.dtype)), 2};
  }
  if (computes && types::is_bool(dtype)) {
    return Complaint{Code::operand_kind, fmt::format("{} cannot add or compare booleans", types::op_info(op).name),
                     note(names, operands, 0), "cast to i32 first", 0};
  }
  const bool weak = x.weak && values.weak;
  return Inferred{{dtype, weak, x.shape}, std::move(attr), dtype, !weak};
}

MaybeComplaint value_shape(Op op, std::span<const OperandFacts> operands, const std::vector<Dim>& wanted,
                           const OperandNames& names) {
  if (operands[2].type->shape == wanted) return std::nullopt;
  return Complaint{
      Code::layout_mismatch,
      fmt::format("the values of {} have the shape {}, needed {}", types::op_info(op).name,
                  types::to_string(operands[2].type->shape), types::to_string(wanted)),
      fmt::format("{}, {}, {}", note(names, operands, 0), note(names, operands, 1), note(names, operands, 2)),
      "there is one value for each place; repeat values with expand", 2};
}

// "result 1 of then", "carried value 1 (acc)".
MaybeComplaint differ(std::string headline, const std::string& one, const TensorType& a, const std::string& other,
                      const TensorType& b) {
  const bool dtypes = a.dtype != b.dtype && a.shape == b.shape;
  return Complaint{Code::branch_mismatch, std::move(headline),
                   fmt::format("{} is {}, {} is {}", one, to_string(a), other, to_string(b)),
                   dtypes
                       ? fmt::format("cast one to the other's element type, such as cast(x, {})", dtype_name(b.dtype))
                       : "make the shapes equal, for example with reshape or expand",
                   -1};
}

MaybeComplaint check_graph(const GraphRef& graph, std::string_view who, std::span<const OperandFacts> operands) {
  const auto wrong = [&](std::string reason) {
    return Complaint{Code::graph_node, fmt::format("the graph of {} does not fit the operands", who), std::move(reason),
                     "its inputs are the operands, in order, with their types", -1};
  };
  if (!graph) return wrong("there is none");
  if (graph->inputs().size() != operands.size())
    return wrong(fmt::format("it has {} inputs, there are {} operands", graph->inputs().size(), operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    const TensorType& inner = graph->type(graph->inputs()[i].node);
    if (graph->inputs()[i].is_scalar || !(inner == *operands[i].type))
      return wrong(fmt::format("input {} is {}, the operand {}", i, to_string(inner), to_string(*operands[i].type)));
  }
  for (const GraphOutput& output : graph->outputs()) {
    const TensorType& type = graph->type(output.node);
    if (type.weak || output.dtype != type.dtype)
      return wrong(
          fmt::format("output {} is {} and stored as {}", output.name, to_string(type), dtype_name(output.dtype)));
  }
  return std::nullopt;
}

// What leaves a branch or a loop has sizes that are known around it.
MaybeComplaint check_leaves(const GraphRef& graph, std::string_view who) {
  const SizeSources sizes = size_sources(*graph);
  if (sizes.sources.empty()) return std::nullopt;
  for (size_t i = 0; i < graph->outputs().size(); ++i) {
    const TensorType& type = graph->type(graph->outputs()[i].node);
    for (const Dim& dim : type.shape) {
      for (const std::string& symbol : dim.symbols()) {
        if (sizes.find(symbol) == nullptr) continue;
        return Complaint{Code::size_value, fmt::format("result {} of {} has the size {}", i, who, dim.to_string()),
                         fmt::format("it is {}, and {} is computed inside of {}: around it nobody knows it",
                                     to_string(type), symbol, who),
                         "return a size that is known outside, with zeros behind what counts: concat(y, zeros(n - k, "
                         "8), dim=0)",
                         -1};
      }
    }
  }
  return std::nullopt;
}

MaybeComplaint check_predicate(const TensorType& type, const std::string& name, std::string_view who, int operand) {
  if (types::is_bool(type.dtype) && is_one_element(type)) return std::nullopt;
  return Complaint{Code::predicate, fmt::format("{} of {} is {}", name, who, to_string(type)),
                   "one boolean decides for all elements",
                   types::is_bool(type.dtype) ? "reduce it to one element, or use where to decide for each element"
                                              : "compare first, as in `sum(x) > 0`",
                   operand};
}

Inference infer_cond(std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  const CondAttr& branches = *std::get_if<CondAttr>(&attr);
  if (MaybeComplaint complaint = check_predicate(*operands[0].type, names(0), "cond", 0)) return *complaint;
  for (const auto& [graph, who] : {std::pair(branches.then, "then"), std::pair(branches.otherwise, "otherwise")}) {
    if (MaybeComplaint complaint = check_graph(graph, who, operands.subspan(1))) return *complaint;
  }
  if (MaybeComplaint complaint = check_leaves(branches.then, "the first branch")) return *complaint;
  if (MaybeComplaint complaint = check_leaves(branches.otherwise, "the second branch")) return *complaint;
  const auto &then = branches.then->outputs(), &otherwise = branches.otherwise->outputs();
  if (then.size() != otherwise.size()) {
    return Complaint{Code::branch_mismatch,
                     fmt::format("one branch of cond has {} results, the other {}", then.size(), otherwise.size()),
                     "both branches give the same results", "return as many values from both", -1};
  }
  for (size_t i = 0; i < then.size(); ++i) {
    const TensorType &a = branches.then->type(then[i].node), &b = branches.otherwise->type(otherwise[i].node);
    if (a == b) continue;
    return *differ(fmt::format("result {} of cond differs between the branches", i), "in the first branch it", a,
                   "in the second it", b);
  }
  TensorType type = branches.then->type(then[0].node);
  return Inferred{std::move(type), std::move(attr), DType::f32, false};
}

Inference infer_while(std::span<const OperandFacts> operands, Attr attr) {
  const WhileAttr& loop = *std::get_if<WhileAttr>(&attr);
  for (const auto& [graph, who] : {std::pair(loop.condition, "the condition"), std::pair(loop.body, "the body")}) {
    if (MaybeComplaint complaint = check_graph(graph, who, operands)) return *complaint;
  }
  const auto &tests = loop.condition->outputs(), &next = loop.body->outputs();
  if (tests.size() != 1) {
    return Complaint{Code::predicate, fmt::format("the condition of while_loop has {} results", tests.size()),
                     "it says whether the loop goes on", "return one boolean from it", -1};
  }
  const TensorType& test = loop.condition->type(tests[0].node);
  if (MaybeComplaint complaint = check_predicate(test, "the condition", "while_loop", -1)) return *complaint;
  if (next.size() != operands.size()) {
    return Complaint{
        Code::branch_mismatch,
        fmt::format("the body of while_loop returns {} values, {} are carried", next.size(), operands.size()),
        "what the body returns is carried to its next run", "return each carried value once, in order", -1};
  }
  if (MaybeComplaint complaint = check_leaves(loop.body, "the loop's body")) return *complaint;
  for (size_t i = 0; i < next.size(); ++i) {
    const TensorType& type = loop.body->type(next[i].node);
    if (type == *operands[i].type) continue;
    return *differ(fmt::format("carried value {} ({}) changes its type", i, loop.body->inputs()[i].name),
                   "after a run it", type, "before the loop it", *operands[i].type);
  }
  TensorType type = *operands[0].type;
  return Inferred{std::move(type), std::move(attr), DType::f32, false};
}

Inference infer_size(const OperandFacts& operand, Attr attr, const OperandNames& names) {
  const TensorType& type = *operand.type;
  const bool integer = !types::is_float(type.dtype) && !types::is_bool(type.dtype);
  if (!integer || !type.shape.empty()) {
    return Complaint{Code::size_value, fmt::format("{} cannot be a size", names(0)),
                     fmt::format("it is {}; a size comes from one integer, a value without dims", to_string(type)),
                     !integer ? fmt::format("write cast({}, i64)", names(0))
                              : "take one element, such as lengths[0], or reduce with keepdim=False",
                     0};
  }
  if (!base::is_identifier(std::get_if<SizeAttr>(&attr)->symbol))
    return Complaint{Code::graph_node, "a size has no name", "symbols are identifiers", "name it", -1};
  return Inferred{{DType::i64, false, {}}, std::move(attr), DType::i64, false};
}

Inference infer_device(const OperandFacts& operand, Attr attr) {
  const uint32_t device = std::get_if<DeviceAttr>(&attr)->device;
  if (device >= max_devices) {
    return Complaint{Code::device_number, fmt::format("there is no device {}", static_cast<int32_t>(device)),
                     fmt::format("a program has {} devices at most, counted from 0", max_devices),
                     "count the program's devices from 0; which of the machine's they are, a context says "
                     "(ContextOptions::devices, --devices)",
                     -1};
  }
  TensorType type = *operand.type;
  const DType dtype = type.dtype;
  return Inferred{std::move(type), std::move(attr), dtype, false};
}

}  // namespace

std::string public_name_defect(std::string_view name) {
  // Of Python, and those that would clash with what emitted code uses itself.
  static constexpr std::string_view words[] = {"as",     "assert", "async", "await",   "def",   "del",
                                               "elif",   "except", "False", "finally", "from",  "global",
                                               "import", "in",     "is",    "lambda",  "None",  "nonlocal",
                                               "pass",   "raise",  "True",  "with",    "yield", "main"};
  constexpr size_t max_length = 255;
  if (name.empty()) return "it is empty";
  if (name.size() > max_length)
    return fmt::format("it has {} characters, at most {} are taken", name.size(), max_length);
  if (!base::is_identifier(name)) return "it is not an identifier: letters, digits and _, no digit first";
  if (base::is_c_keyword(name) || std::find(std::begin(words), std::end(words), name) != std::end(words))
    return "it is a keyword of C, C++ or Python";
  // Reserved for the C and C++ implementation.
  if (name.starts_with("_") || name.find("__") != std::string_view::npos)
    return "names with a leading or a double underscore are reserved in C and C++";
  return "";
}

Inference infer_indexed(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  const TensorType &x = *operands[0].type, &indices = *operands[1].type;
  auto* const take = std::get_if<TakeAttr>(&attr);
  auto* const put = std::get_if<IndexPutAttr>(&attr);
  auto* const scatter = std::get_if<ScatterAttr>(&attr);
  int32_t& dim = take != nullptr ? take->dim : put != nullptr ? put->dim : scatter->dim;
  const std::optional<int32_t> fixed = normalized_dim(dim, x.shape.size());
  if (!fixed) return *no_such_dim(types::op_info(op).name, dim, x, names, Code::layout_mismatch);
  dim = *fixed;
  const auto along = static_cast<size_t>(dim);
  if (MaybeComplaint complaint = check_indices(op, operands, along, names)) return *complaint;
  if (op == Op::take)
    return Inferred{{x.dtype, x.weak, taken_shape(x, indices, along)}, std::move(attr), x.dtype, false};
  if (op == Op::index_put) {
    if (MaybeComplaint complaint = value_shape(op, operands, taken_shape(x, indices, along), names)) return *complaint;
    const bool computes = put->accumulate;
    return put_result(op, operands, std::move(attr), computes, names);
  }
  if (MaybeComplaint complaint = check_elementwise_indices(op, operands, along, names)) return *complaint;
  if (op == Op::gather) return Inferred{{x.dtype, x.weak, indices.shape}, std::move(attr), x.dtype, false};
  if (MaybeComplaint complaint = value_shape(op, operands, indices.shape, names)) return *complaint;
  const bool computes = scatter->reduce != ScatterReduce::None;
  return put_result(op, operands, std::move(attr), computes, names);
}

Inference infer_control(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  if (op == Op::cond) return infer_cond(operands, std::move(attr), names);
  if (op == Op::while_loop) return infer_while(operands, std::move(attr));
  if (op == Op::size_value) return infer_size(operands[0], std::move(attr), names);
  if (op == Op::to_device) return infer_device(operands[0], std::move(attr));
  const int32_t index = std::get_if<ResultAttr>(&attr)->index;
  std::vector<TensorType> results;
  if (operands[0].attr != nullptr) results = result_types(*operands[0].attr);
  if (index < 1 || static_cast<size_t>(index) >= results.size()) {
    return Complaint{Code::graph_node,
                     fmt::format("result {} of a node that has {}", index, std::max<size_t>(results.size(), 1)),
                     "result 0 is the node itself; the others count from 1", "take a result that the node has", 0};
  }
  return Inferred{results[static_cast<size_t>(index)], std::move(attr), DType::f32, false};
}

Inference infer_external(Op op, Attr attr) {
  const auto* external = std::get_if<ExternAttr>(&attr);
  const auto* kernel = std::get_if<UserKernelAttr>(&attr);
  const std::string& name = external != nullptr ? external->symbol : kernel->name;
  std::string defect = public_name_defect(name);
  if (defect.empty() && kernel != nullptr) defect = taken_in_kernels(name);
  if (!defect.empty()) {
    return Complaint{Code::extern_name,
                     fmt::format("\"{}\" cannot name {}", base::escape_c(name.substr(0, 60)),
                                 external != nullptr ? "an extern function" : "a user kernel"),
                     defect, "use a plain C identifier; names are never rewritten", -1};
  }
  const std::vector<TensorType>& results = external != nullptr ? external->results : kernel->results;
  bool good = !results.empty();
  for (const TensorType& type : results) {
    good = good && !type.weak && types::is_valid(type.dtype) && type.shape.size() <= static_cast<size_t>(max_rank);
    for (const Dim& size : type.shape)
      good = good && size.fault() == types::DimFault::none && size.as_constant().value_or(0) >= 0;
  }
  if (!good) {
    return Complaint{Code::graph_node, fmt::format("{} has no valid result types", types::op_info(op).name),
                     results.empty() ? "there are none" : "a result has an unknown dtype or an impossible size",
                     "give the type of each result, such as f32[m, n]", -1};
  }
  TensorType first = results[0];
  return Inferred{std::move(first), std::move(attr), DType::f32, false};
}

}  // namespace codetta::ir
