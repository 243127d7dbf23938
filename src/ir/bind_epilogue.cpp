// SPDX-License-Identifier: Apache-2.0
// bind_epilogue: matmul(A, B), then the epilogue's values, typed by what its parameters are bound to.
#include <fmt/format.h>

#include <algorithm>

#include "ir/bind.hpp"
#include "ir/bind_arguments.hpp"
#include "ir/bind_values.hpp"
#include "ir/infer.hpp"
#include "ir/print.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using diag::Code;

// The accumulator's dims, from the last to the first, as numbers and as they appear in types.
struct Space {
  std::vector<Dim> dims;       // [batch,] m, n
  std::vector<int64_t> sizes;  // the same
  Dim k;
  bool symbolic = false;
};

bool has_layout(const Function& function) {
  return std::any_of(function.values.begin(), function.values.end(),
                     [](const Value& value) { return types::op_info(value.op).rule == types::OpRule::layout; });
}

Space make_space(const EpilogueFunction& function, const GemmFacts& facts) {
  Space space;
  space.symbolic = !has_layout(function);
  const auto dim = [&](const char* name, int64_t size) {
    if (space.symbolic) return Dim::symbol(name);
    return Dim::constant(size);
  };
  if (facts.batched) {
    space.dims.push_back(dim("batch", facts.batch));
    space.sizes.push_back(facts.batch);
  }
  space.dims.push_back(dim("m", facts.m));
  space.dims.push_back(dim("n", facts.n));
  space.sizes.insert(space.sizes.end(), {facts.m, facts.n});
  space.k = dim("k", facts.k);
  return space;
}

Result<void> check_facts(const EpilogueFunction& function, const GemmFacts& facts) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"batch", facts.batch}, {"m", facts.m}, {"n", facts.n}, {"k", facts.k}};
  for (const auto& [name, size] : sizes) {
    if (size >= 0) continue;
    return diag::error(Code::gemm_size, fmt::format("the GEMM has {} = {}", name, size))
        .at(function.source, {})
        .reason("sizes are 0 or more")
        .help("check the shapes of A and B");
  }
  if (const MaybeComplaint complaint = check_accumulator(facts.a, facts.b, facts.accumulator)) {
    return diag::error(complaint->code, complaint->headline)
        .at(function.source, {})
        .reason(complaint->reason)
        .help(complaint->help);
  }
  return {};
}

// Where parameter `index` is used first: its name in the expression, else its declaration.
diag::Span first_use(const EpilogueFunction& function, size_t index) {
  for (const Value& value : function.values) {
    if (std::find(value.operands.begin(), value.operands.end(), ValueId(index)) == value.operands.end()) continue;
    if (value.span.known()) return narrow(function.source, value.span, function.parameters[index].name);
    break;
  }
  return function.parameters[index].span;
}

std::string joined_sizes(const std::vector<int64_t>& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

Error misfit(const EpilogueFunction& function, size_t index, const BoundArgument& bound, const Space& space,
             std::string headline, std::string help) {
  return diag::error(Code::shape_mismatch, std::move(headline))
      .at(function.source, first_use(function, index), describe(bound))
      .reason(fmt::format("{} does not broadcast to the accumulator's {}: from the right, sizes must be equal or 1",
                          to_string(bound.shape), joined_sizes(space.sizes)))
      .help(std::move(help));
}

Error wrong_size(const EpilogueFunction& function, size_t index, const BoundArgument& bound, const Space& space,
                 size_t from_end) {
  const std::string& name = bound.name;
  const int rank = bound.shape.rank();
  const int64_t size = bound.shape[rank - 1 - static_cast<int>(from_end)];
  const int64_t wanted = space.sizes[space.sizes.size() - 1 - from_end];
  const int64_t rows = space.sizes[space.sizes.size() - 2];
  const std::string noun = dim_noun(space.sizes.size(), from_end, size == 1);
  std::string help;
  if (rank == 1 && size == rows) {
    help = fmt::format("a vector is a row of {} elements; for one value per row bind it as shape (M, 1), here ({}, 1)",
                       wanted, rows);
  } else if (from_end == 0 && rank == 1) {
    help = fmt::format("bind a {} of {} elements", name, wanted);
    if (size > 0 && wanted % size == 0) help += fmt::format(", or split `accum` in {}", wanted / size);
  } else {
    help = fmt::format("bind a {} of {} {}, or of 1", name, wanted, dim_noun(space.sizes.size(), from_end));
  }
  return misfit(function, index, bound, space,
                fmt::format("{} has {} {} but the accumulator has {}", name, size, noun, wanted), std::move(help));
}

// With symbolic sizes every operand must broadcast to the accumulator; its dims are then the accumulator's or 1.
Result<TensorType> operand_type(const EpilogueFunction& function, size_t index, const BoundArgument& bound,
                                const Space& space) {
  TensorType type{bound.dtype, false, {}};
  if (bound.is_scalar) return type;
  const int rank = bound.shape.rank();
  if (rank > max_rank) {
    return misfit(function, index, bound, space, fmt::format("{} has more than {} dims", bound.name, max_rank),
                  "bind a tensor of fewer dims");
  }
  for (int i = 0; i < rank; ++i) {
    if (bound.shape[i] < 0) {
      return misfit(function, index, bound, space,
                    fmt::format("{} has the size {} in dim {}", bound.name, bound.shape[i], i), "sizes are 0 or more");
    }
  }
  if (space.symbolic && static_cast<size_t>(rank) > space.dims.size()) {
    return misfit(function, index, bound, space,
                  fmt::format("{} has {} dims but the accumulator has {}", bound.name, rank, space.dims.size()),
                  fmt::format("bind {} with at most {} dims", bound.name, space.dims.size()));
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t size = bound.shape[i];
    if (!space.symbolic || size == 1) {
      type.shape.push_back(Dim::constant(size));
      continue;
    }
    const auto from_end = static_cast<size_t>(rank - 1 - i);
    const size_t at = space.dims.size() - 1 - from_end;
    if (size != space.sizes[at]) return wrong_size(function, index, bound, space, from_end);
    type.shape.push_back(space.dims[at]);
  }
  return type;
}

// What a GEMM kernel of its own would store: D's dtype, or what the operands promote to.
DType stored_accumulator(const EpilogueFunction& function, const MatchedArguments& matched, const GemmFacts& facts) {
  for (size_t i = 0; i < matched.outputs.size(); ++i) {
    if (function.outputs[i].name == "D") return matched.outputs[i].dtype;
  }
  return facts.a == facts.b ? facts.a : facts.accumulator;
}

// The product and the epilogue's values in the builder; their nodes by output.
Result<std::vector<NodeId>> add_values(const EpilogueFunction& function, const MatchedArguments& matched,
                                       const GemmFacts& facts, GraphBuilder& builder) {
  CODETTA_CHECK_OK(check_dependences(function));
  const Space space = make_space(function, facts);
  const Dim &m = space.dims[space.dims.size() - 2], &n = space.dims.back();
  std::vector<Dim> a_shape{m, space.k}, b_shape{space.k, n};
  if (facts.batched) {
    a_shape.insert(a_shape.begin(), space.dims[0]);
    b_shape.insert(b_shape.begin(), space.dims[0]);
  }
  const NodeId operands[] = {builder.add_input("A", {facts.a, false, std::move(a_shape)}),
                             builder.add_input("B", {facts.b, false, std::move(b_shape)})};
  ValueBinder binder(function, builder, {space.dims, facts.round_as_unfused});
  for (size_t i = 1; i < function.parameters.size(); ++i) {
    const BoundArgument& bound = *matched.parameters[i];
    CODETTA_TRY(TensorType type, operand_type(function, i, bound, space));
    binder.set(ValueId(i),
               builder.add_input(bound.name, std::move(type), bound.is_scalar, function.parameters[i].span));
  }
  const diag::Span span = function.parameters[0].span;
  CODETTA_TRY(NodeId accumulator, builder.add(Op::matmul, operands, MatmulAttr{facts.accumulator}, span, "accum"));
  const DType stored = stored_accumulator(function, matched, facts);
  if (facts.round_as_unfused && types::is_float(stored) && types::is_float(facts.accumulator) &&
      stored != facts.accumulator) {
    const NodeId from[] = {accumulator};
    CODETTA_TRY(accumulator, builder.add(Op::cast, from, CastAttr{stored}, span, "accum"));
  }
  binder.set(ValueId(size_t{0}), accumulator);
  CODETTA_CHECK_OK(binder.run());
  std::vector<NodeId> nodes;
  for (const Output& output : function.outputs) {
    CODETTA_TRY(const NodeId node, binder.node(output.value));
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

Result<Graph> bind_epilogue(const EpilogueFunction& function, const std::vector<BoundArgument>& arguments,
                            const GemmFacts& facts) {
  CODETTA_CHECK_OK(check_facts(function, facts));
  CODETTA_TRY(const MatchedArguments matched, match_arguments(function, arguments, facts));
  GraphBuilder builder(function.source);
  CODETTA_TRY(const std::vector<NodeId> nodes, add_values(function, matched, facts, builder));
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const Output& output = function.outputs[i];
    CODETTA_CHECK_OK(check_output(function, output, matched.outputs[i], builder.type(nodes[i]), facts));
    builder.add_output(output.name, nodes[i], matched.outputs[i].dtype);
  }
  return std::move(builder).finish();
}

Result<std::vector<EpilogueOutput>> epilogue_outputs(const EpilogueFunction& function,
                                                     const std::vector<BoundArgument>& arguments,
                                                     const GemmFacts& facts) {
  CODETTA_CHECK_OK(check_facts(function, facts));
  CODETTA_TRY(const MatchedArguments matched, match_operands(function, arguments));
  GraphBuilder builder(function.source);
  CODETTA_TRY(const std::vector<NodeId> nodes, add_values(function, matched, facts, builder));
  std::vector<EpilogueOutput> outputs;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const TensorType& type = builder.type(nodes[i]);
    outputs.push_back({function.outputs[i].name, type.dtype, Dims(sizes_of(type.shape, facts))});
  }
  return outputs;
}

}  // namespace codetta::ir
