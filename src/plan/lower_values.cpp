// SPDX-License-Identifier: Apache-2.0
// Element-wise values: instances of what depends on the accumulator, demand-driven evaluation of what does not.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "plan/lowering.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;
using types::OpRule;

Result<void> Lowering::lower_dependent(NodeId node) {
  const types::OpInfo& info = types::op_info(graph_.node(node).op);
  if (info.rule == OpRule::layout) return lower_layout(node);
  if (info.rule == OpRule::reduce) return lower_reduction(node);
  if (!info.elementwise()) {
    return reject(diag::Code::position_conflict, node, "this reads the accumulator at other places than it lies at")
        .reason(fmt::format("{} of {}", info.name, ir::to_string(graph_.type(node))))
        .help("store the accumulator, and read it in a second step");
  }
  return lower_elementwise(node);
}

// Two dims may not move along with one another: x[1, n] against its transpose has elements off the diagonal, too.
bool independent(const Location& at) {
  std::vector<IndexTerm> terms;
  for (const Index& index : at) {
    for (const IndexTerm& term : index.terms) {
      for (const IndexTerm& other : terms) {
        if (other.axis != term.axis) continue;
        const bool apart = (other.extent != 0 && term.div >= other.div * other.extent) ||
                           (term.extent != 0 && other.div >= term.div * term.extent);
        if (!apart) return false;
      }
      terms.push_back(term);
    }
  }
  return true;
}

namespace {

// Elements that the instances hold together; none when a size is symbolic.
std::optional<int64_t> count_elements(const std::vector<Instance>& instances) {
  int64_t count = 0;
  for (const Instance& instance : instances) {
    int64_t product = 1;
    for (const Index& index : instance.at) {
      for (const IndexTerm& term : index.terms) {
        if (term.extent == 0) return std::nullopt;
        product *= term.extent;
      }
    }
    count += product;
  }
  return count;
}

}  // namespace

Result<void> Lowering::lower_elementwise(NodeId node) {
  CODETTA_CHECK_OK(combine(node));
  const auto& instances = instances_[node];
  int64_t size = 1;
  bool known = true;
  for (const Dim& dim : graph_.type(node).shape) {
    known = known && dim.is_constant();
    size *= dim.as_constant().value_or(1);
  }
  const auto count = count_elements(instances);
  const bool misses = known && size != 0 && count && *count != size;
  const bool tied = std::any_of(instances.begin(), instances.end(),
                                [](const Instance& instance) { return !independent(instance.at); });
  if (instances.empty() || misses || tied) {
    return reject(diag::Code::position_conflict, node, "the accumulator is needed at two positions at once")
        .reason(
            "the operands of this expression hold different elements of the accumulator, such as x and its transpose")
        .help("store one of them and combine in a second step");
  }
  return {};
}

namespace {
// Which dims of `at` are already fixed by an operand: a default Index in a dim of size != 1 means "not yet".
bool merge(Location& at, const Location& operand, const std::vector<Dim>& operand_shape, std::vector<bool>& known) {
  const size_t skip = at.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i) {
    if (operand_shape[i] == Dim::constant(1)) continue;
    if (known[skip + i] && !(at[skip + i] == operand[i])) return false;
    at[skip + i] = operand[i];
    known[skip + i] = true;
  }
  return true;
}
}  // namespace

// All consistent choices of one instance per dependent operand, in operand order.
Result<void> Lowering::combine(NodeId node) {
  const auto operands = graph_.operands(node);
  const auto& shape = graph_.type(node).shape;
  struct Combination {
    Location at;
    std::vector<bool> known;
    std::vector<std::optional<ValueRef>> values;
  };
  std::vector<Combination> choices{
      {Location(shape.size()), std::vector<bool>(shape.size()), std::vector<std::optional<ValueRef>>(operands.size())}};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!dependent(operands[i])) continue;
    std::vector<Combination> next;
    for (const Combination& choice : choices) {
      for (const Instance& instance : instances_[operands[i]]) {
        Combination extended = choice;
        if (!merge(extended.at, instance.at, graph_.type(operands[i]).shape, extended.known)) continue;
        extended.values[i] = instance.value;
        next.push_back(std::move(extended));
      }
    }
    choices = std::move(next);
  }
  for (Combination& choice : choices) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (choice.known[d] || shape[d] == Dim::constant(1)) continue;
      const size_t from_end = shape.size() - 1 - d;
      const auto& accumulator = root_shape_;
      const bool same = from_end < accumulator.size() && shape[d] == accumulator[accumulator.size() - 1 - from_end];
      if (!same || (ways_ > 1 && from_end == 0)) {
        return reject(diag::Code::position_conflict, node, "this value does not lie in the accumulator's space")
            .reason(fmt::format("dim {} of {} has no accumulator element", d, ir::to_string(graph_.type(node))))
            .help("broadcast reduced values only against values of the accumulator's shape");
      }
      choice.at[d] = root(from_end);
    }
    std::vector<ValueRef> values(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (choice.values[i]) {
        values[i] = *choice.values[i];
      } else {
        CODETTA_TRY(values[i], value_at(operands[i], broadcast_location(choice.at, graph_.type(operands[i]).shape)));
      }
    }
    CODETTA_TRY(const ValueRef value, emit_op(node, values, choice.at));
    instances_[node].push_back({std::move(choice.at), value});
  }
  return {};
}

ValueRef Lowering::literal_value(NodeId node) {
  const auto& literal = graph_.attr_as<ir::LiteralAttr>(node);
  const DType type = register_type(node);
  const bool is_float = literal.kind == ir::LiteralAttr::Kind::Float;
  if (type == DType::f32) {
    const float value = is_float ? static_cast<float>(literal.f) : static_cast<float>(literal.i);
    return recorder_.literal(type, std::bit_cast<uint32_t>(value));
  }
  if (type == DType::f64) {
    return recorder_.literal(type, std::bit_cast<uint64_t>(is_float ? literal.f : static_cast<double>(literal.i)));
  }
  return recorder_.literal(type, static_cast<uint64_t>(literal.i));
}

namespace {
// Whether values decide about a place.
bool given(const Location& at) {
  return std::any_of(at.begin(), at.end(), [](const Index& index) { return index.value.has_value(); });
}
// Operations that follow an index by more than sums.
bool needs_place(Op op) { return op == Op::reshape || types::op_info(op).is_reduction(); }
}  // namespace

// A value that does not depend on the accumulator, at a place in its own index space. Iterative: operand trees can be
// deep.
Result<ValueRef> Lowering::value_at(NodeId start, const Location& start_at) {
  struct Frame {
    NodeId node;
    Location at;
    std::vector<ValueRef> values;
  };
  std::vector<Frame> stack;
  stack.push_back({start, start_at, {}});
  ValueRef last = 0;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const auto key = std::make_pair(frame.node.index(), frame.at);
    const auto known = known_.find(key);
    const auto operands = graph_.operands(frame.node);
    const Op op = graph_.node(frame.node).op;
    if (known != known_.end()) {
      last = known->second;
    } else if (op == Op::literal) {
      last = literal_value(frame.node);
    } else if (const auto leaf = leaf_of(frame.node)) {
      CODETTA_TRY(last, load_at(*leaf, frame.at));
    } else if (op == Op::input) {  // the product's own A or B is read by the epilogue
      return reject(diag::Code::operand_is_factor, frame.node,
                    "a factor of the product is read by its epilogue under the same name")
          .help("bind the tensor to an epilogue parameter of its own");
    } else if (needs_place(op) && given(frame.at)) {
      return reject(diag::Code::operand_join, frame.node, "a part of a join is needed at places that values decide")
          .reason(fmt::format("{} works on whole dims", types::op_info(op).name))
          .help("store the part beforehand");
    } else if (types::op_info(op).is_reduction() && !matmul_) {
      if (frame.values.empty()) {
        CODETTA_TRY(Location from, reduced_at(frame.node, frame.at));
        stack.push_back({operands[0], std::move(from), {}});
        continue;
      }
      CODETTA_TRY(const Location from, reduced_at(frame.node, frame.at));
      CODETTA_TRY(last, reduce_here(frame.node, from, frame.values[0]));
    } else if (op == Op::take || op == Op::gather) {
      if (frame.values.empty()) {
        Location indices = frame.at;
        if (op == Op::take) {  // the dims of the indices stand where the dim was
          const auto first = frame.at.begin() + graph_.attr_as<ir::TakeAttr>(frame.node).dim;
          indices.assign(first, first + static_cast<ptrdiff_t>(graph_.type(operands[1]).shape.size()));
        }
        stack.push_back({operands[1], std::move(indices), {}});
        continue;
      }
      CODETTA_TRY(last, gathered(frame.node, frame.at, frame.values[0]));
    } else if (types::op_info(op).rule == OpRule::index) {
      const size_t from_end = op == Op::col_index ? 1 : op == Op::row_index ? 2 : 3;
      const Index index = frame.at.size() >= from_end ? frame.at[frame.at.size() - from_end] : Index{};
      CODETTA_TRY(last, position_value(frame.node, index));
    } else if (types::op_info(op).is_reduction()) {
      return reject(diag::Code::operand_reduction, frame.node, "a reduction of an operand alone cannot be fused")
          .reason("it does not depend on accum, so no tile of the product holds what it needs")
          .help("reduce the operand beforehand and bind the result");
    } else if (op == Op::join) {
      const auto part = part_of(frame.node, frame.at);
      const bool chosen = part && part->quotient.terms.empty();
      const auto ways = static_cast<int64_t>(operands.size());
      if (!part && selects(frame.node, frame.at)) {
        if (frame.values.size() < operands.size()) {
          const size_t next = frame.values.size();
          stack.push_back({operands[next], part_at(frame.node, next, frame.at), {}});
          continue;
        }
        last = select_part(frame.node, frame.at, frame.values);
      } else if (!part || (chosen ? part->quotient.constant >= ways : matmul_.has_value())) {
        return reject(diag::Code::operand_join, frame.node, "which part of this join is needed depends on the element")
            .help("bind the joined tensor as one operand, or join values of the accumulator instead");
      } else if (frame.values.size() < (chosen ? 1 : operands.size())) {
        const size_t next = chosen ? static_cast<size_t>(part->quotient.constant) : frame.values.size();
        Location at = frame.at;
        at[static_cast<size_t>(graph_.attr_as<ir::JoinAttr>(frame.node).dim)] = part->remainder;
        stack.push_back({operands[next], std::move(at), {}});
        continue;
      } else {
        last = choose_part(frame.node, part->quotient, frame.values);
      }
    } else if (frame.values.size() < operands.size()) {
      const size_t i = frame.values.size();
      CODETTA_TRY(Location at, operand_location(frame.node, i, frame.at));
      stack.push_back({operands[i], std::move(at), {}});
      continue;
    } else if (types::op_info(op).rule == OpRule::layout) {
      last = frame.values[0];
    } else {
      CODETTA_TRY(last, emit_op(frame.node, frame.values, frame.at));
    }
    known_.emplace(key, last);
    stack.pop_back();
    if (!stack.empty()) stack.back().values.push_back(last);
  }
  return last;
}

Result<ValueRef> Lowering::load_at(size_t leaf, const Location& at) {
  const NodeId node = scope_.leaves[leaf].node;
  const ir::TensorType& type = graph_.type(node);
  Inst inst;
  inst.type = inst.aux = register_type(node);
  inst.kind = scope_.leaves[leaf].is_scalar ? Inst::Kind::Scalar : Inst::Kind::Load;
  inst.index = argument_of_input_[leaf];
  if (inst.kind == Inst::Kind::Load) {
    if (given(at)) return load_gathered(node, leaf, at, std::nullopt, 0);
    CODETTA_TRY(inst.index, make_operand(argument_of_input_[leaf], type.dtype, at, type.shape, false, node));
  }
  return recorder_.add(inst);
}

// Loads operand 0 where the index says: it lies in memory.
Result<ValueRef> Lowering::gathered(NodeId node, const Location& at, ValueRef index) {
  const NodeId table = graph_.operands(node)[0];
  const auto leaf = leaf_of(table);
  if (!leaf) {
    return reject(diag::Code::position_conflict, node, "what is read by indices is not in memory")
        .reason(ir::to_string(graph_.type(table)) + " would be computed anew for each index")
        .help("compute it in a kernel in front");
  }
  const auto& shape = graph_.type(table).shape;
  const auto dim = static_cast<size_t>(graph_.attr_as<ir::TakeAttr>(node).dim);
  const size_t extra = graph_.node(node).op == Op::take ? at.size() + 1 - shape.size() : 1;
  Location from(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != dim) from[d] = at[d < dim ? d : d + extra - 1];
  }
  if (recorder_.type(index) == DType::u64)  // beyond 63 bits: out of range all the same, and not negative
    index = recorder_.op(Op::minimum, DType::u64, {index, recorder_.literal(DType::u64, INT64_MAX)}, DType::u64);
  return load_gathered(node, *leaf, from, dim, recorder_.convert(index, DType::i64));
}

Result<ValueRef> Lowering::load_gathered(NodeId node, size_t leaf, const Location& at, std::optional<size_t> taken,
                                         ValueRef index) {
  const ir::TensorType& type = graph_.type(scope_.leaves[leaf].node);
  Inst inst;
  inst.kind = Inst::Kind::LoadAt;
  inst.type = inst.aux = register_type(scope_.leaves[leaf].node);
  for (size_t d = 0; d < at.size(); ++d) {
    if (d != taken && !at[d].value) continue;
    if (inst.arity == 4) {
      return reject(diag::Code::index_terms, node, "too many dims of this value are read at computed indices")
          .reason("a kernel takes four")
          .help("store it beforehand");
    }
    inst.in[inst.arity++] = d == taken ? index : recorder_.index_value(at[d]);
  }
  CODETTA_TRY(inst.index, make_operand(argument_of_input_[leaf], type.dtype, at, type.shape, false, node, taken));
  return recorder_.add(inst);
}

bool Lowering::selects(NodeId node, const Location& at) const {
  const auto& join = graph_.attr_as<ir::JoinAttr>(node);
  return scope_.selected != nullptr && (*scope_.selected)[node.index()] && !join.interleave && !matmul_ && !at.empty();
}

// Where a part is needed, which may be in front of it or behind it: there its nearest element is read and not taken.
Location Lowering::part_at(NodeId node, size_t part, const Location& at) {
  const auto d = static_cast<size_t>(graph_.attr_as<ir::JoinAttr>(node).dim);
  const auto operands = graph_.operands(node);
  Location from = at;
  if (graph_.type(operands[part]).shape[d] == Dim::constant(1)) {
    from[d] = Index{};
    return from;
  }
  Dim start = Dim::constant(0);
  for (size_t p = 0; p < part; ++p) start = start + graph_.type(operands[p]).shape[d];
  ValueRef place = recorder_.index_value(at[d]);
  if (!(start == Dim::constant(0)))
    place = recorder_.op(Op::sub, DType::i64, {place, recorder_.size(start)}, DType::i64);
  from[d] = Index{};
  from[d].value = place;
  return from;
}

ValueRef Lowering::select_part(NodeId node, const Location& at, const std::vector<ValueRef>& parts) {
  const auto d = static_cast<size_t>(graph_.attr_as<ir::JoinAttr>(node).dim);
  const auto operands = graph_.operands(node);
  const DType type = register_type(node);
  const ValueRef place = recorder_.index_value(at[d]);
  std::vector<Dim> ends;
  for (const NodeId operand : operands) {
    const Dim& size = graph_.type(operand).shape[d];
    ends.push_back(ends.empty() ? size : ends.back() + size);
  }
  ValueRef value = recorder_.convert(parts.back(), type);
  for (size_t p = parts.size() - 1; p-- > 0;) {
    const ValueRef here = recorder_.op(Op::lt, DType::boolean, {place, recorder_.size(ends[p])}, DType::i64);
    value = recorder_.op(Op::where, type, {here, recorder_.convert(parts[p], type), value}, type);
  }
  return value;
}

// Which part of a join an index falls in, and where there; none where parts differ in size or the form has no answer.
std::optional<Division> Lowering::part_of(NodeId node, const Location& at) const {
  const auto& join = graph_.attr_as<ir::JoinAttr>(node);
  const auto d = static_cast<size_t>(join.dim);
  const auto operands = graph_.operands(node);
  const Dim& size = graph_.type(operands[0]).shape[d];
  for (NodeId part : operands) {
    if (!(graph_.type(part).shape[d] == size)) return std::nullopt;
  }
  auto division =
      divide(at[d], join.interleave ? static_cast<int64_t>(operands.size()) : size.as_constant().value_or(0));
  if (division && join.interleave) std::swap(division->quotient, division->remainder);
  if (division && division->quotient.is_symbolic()) return std::nullopt;
  return division;
}

// One value: the part that is needed. Several: a choice by the element's index.
ValueRef Lowering::choose_part(NodeId node, const Index& which, const std::vector<ValueRef>& parts) {
  const DType type = register_type(node);
  ValueRef value = recorder_.convert(parts[0], type);
  if (parts.size() == 1) return value;
  const ValueRef index = recorder_.index_value(which);
  for (size_t i = 1; i < parts.size(); ++i) {
    const ValueRef number = recorder_.integer(static_cast<int64_t>(i));
    const ValueRef here = recorder_.op(Op::eq, DType::boolean, {index, number}, DType::i64);
    value = recorder_.op(Op::where, type, {here, recorder_.convert(parts[i], type), value}, type);
  }
  return value;
}

// Where an index is, as a value. What a kernel of the user's hands over has no sizes of its own beside those of its
// result.
Result<ValueRef> Lowering::position_value(NodeId node, const Index& at) {
  if (!at.is_symbolic() || !matmul_ || graph_.node(*matmul_).op == Op::matmul) return recorder_.index_value(at);
  return reject(diag::Code::symbolic_layout, node, "a position behind a symbolic start cannot be computed here")
      .reason(at.is_shifted() ? fmt::format("it starts at {}", at.shift.to_string())
                              : std::string("dims of symbolic sizes are merged there"))
      .help("compute the positions in front of the slice or the reshape");
}

Result<ValueRef> Lowering::extent_of(NodeId node, size_t dim) {
  const Dim& size = graph_.type(node).shape[dim];
  if (const auto constant = size.as_constant()) return recorder_.integer(*constant);
  Inst extent;
  extent.kind = Inst::Kind::Extent;
  extent.type = extent.aux = DType::i64;
  for (extent.index = 0; extent.index < 3; ++extent.index) {
    if (extents_[extent.index] == size) return recorder_.add(extent);
  }
  // Of an axis that dims fold into, the others of which have constant sizes.
  for (extent.index = 0; extent.index < 3; ++extent.index) {
    const auto times = exact_quotient(extents_[extent.index], size);
    const int64_t others = times ? times->as_constant().value_or(0) : 0;
    if (others > 0)
      return recorder_.op(Op::floordiv, DType::i64, {recorder_.add(extent), recorder_.integer(others)}, DType::i64);
  }
  return reject(diag::Code::symbolic_layout, node, "the size of a dim is not one of the kernel's")
      .reason(fmt::format("{} of {}", size.to_string(), ir::to_string(graph_.type(node))))
      .help("give the dim a constant size");
}

Result<ValueRef> Lowering::emit_op(NodeId node, const std::vector<ValueRef>& operands, const Location& at) {
  const Op op = graph_.node(node).op;
  const OpRule rule = types::op_info(op).rule;
  const DType type = register_type(node);
  Inst inst;
  inst.kind = Inst::Kind::Op;
  inst.op = op;
  inst.type = inst.aux = type;
  inst.arity = static_cast<uint8_t>(operands.size());
  if (rule == OpRule::cast) {
    inst.aux = graph_.attr_as<ir::CastAttr>(node).dtype;
    if (inst.aux == type && recorder_.type(operands[0]) == type) return operands[0];
    inst.in[0] = operands[0];
    return recorder_.add(inst);
  }
  DType compute = type;
  if (rule == OpRule::compare) {
    compute = recorder_.type(operands[0]);
    for (ValueRef value : operands) compute = types::join(compute, recorder_.type(value)).value_or(compute);
    inst.aux = compute;  // what is compared; the result is bool
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool keeps = (rule == OpRule::select && i == 0) || rule == OpRule::logical;
    ValueRef operand = operands[i];
    if (op == Op::dropout && i == 1)
      operand = recorder_.convert(operand, DType::f32);  // p is compared in f32 whatever x is
    const bool seed = op == Op::dropout && i == 2;
    inst.in[i] = keeps ? operand : recorder_.convert(operand, seed ? DType::i64 : compute);
  }
  if (op == Op::dropout) {  // the position of the element in the value's own shape, row-major
    const auto& shape = graph_.type(node).shape;
    ValueRef position = recorder_.integer(0);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != 0) {
        CODETTA_TRY(const ValueRef extent, extent_of(node, d));
        position = recorder_.op(Op::mul, DType::i64, {position, extent}, DType::i64);
      }
      CODETTA_TRY(const ValueRef index, position_value(node, at[d]));
      position = d == 0 ? index : recorder_.op(Op::add, DType::i64, {position, index}, DType::i64);
    }
    inst.in[3] = position;
    inst.arity = 4;
  }
  return recorder_.add(inst);
}

}  // namespace codetta::plan
