// SPDX-License-Identifier: Apache-2.0
// The loop over the nodes, leaves, and the conversion of outputs to what is stored.
#pragma once

#include "oracle/evaluator_compare.hpp"
#include "oracle/evaluator_control.hpp"
#include "oracle/evaluator_indexed.hpp"
#include "oracle/evaluator_layout.hpp"
#include "oracle/evaluator_matmul.hpp"
#include "oracle/evaluator_reduce.hpp"

namespace codetta::oracle {

template <class T>
typename Evaluator<T>::Strided Evaluator<T>::strided(ir::NodeId id) const {
  if (graph_.node(id).op == Op::input) {
    const auto& view = std::get<TensorView>(problem_.inputs[graph_.attr_as<ir::InputAttr>(id).parameter]);
    Strided tensor{static_cast<const unsigned char*>(view.data()), view.dtype(), {}};
    for (int d = 0; d < view.rank(); ++d) tensor.strides.push_back(view.stride(d));
    return tensor;
  }
  Strided tensor = strided(graph_.operands(id)[0]);
  if (graph_.node(id).op == Op::permute) {
    Sizes strides;
    for (const int32_t d : graph_.attr_as<ir::PermuteAttr>(id).order)
      strides.push_back(tensor.strides[static_cast<size_t>(d)]);
    tensor.strides = strides;
    return tensor;
  }
  const auto& slice = graph_.attr_as<ir::SliceAttr>(id);
  int64_t& stride = tensor.strides[static_cast<size_t>(slice.dim)];
  tensor.data += slice.start.evaluate(problem_.symbols.values).value_or(0) * stride * types::byte_size(tensor.dtype);
  stride *= slice.step;
  return tensor;
}

template <class T>
void Evaluator<T>::load(ir::NodeId id, Block<T>& out) {
  if (!given_.empty()) {
    out = given_[graph_.attr_as<ir::InputAttr>(id).parameter];
    return;
  }
  const auto take = [&](size_t i, const void* p, DType from) {
    if (from != out.dtype) {
      const types::Scalar s = types::convert(types::Scalar::load(p, from), out.dtype);
      if (out.real()) {
        out.reals[i] = Real<T>::point(T(s.as_f64()));
      } else {
        out.ints[i] = Int::point(static_cast<int64_t>(s.payload()));
      }
    } else if (out.real()) {
      out.reals[i] = Real<T>::point(T(types::load_f64(p, from)));
    } else {
      out.ints[i] =
          Int::point(types::is_bool(from) ? int64_t{types::load_i64(p, from) != 0} : types::load_i64(p, from));
    }
  };
  if (graph_.node(id).op == Op::input) {
    const OracleInput& input = problem_.inputs[graph_.attr_as<ir::InputAttr>(id).parameter];
    if (const auto* scalar = std::get_if<types::Scalar>(&input)) {
      unsigned char bytes[8] = {};
      scalar->store(bytes);
      return take(0, bytes, scalar->dtype());
    }
  }
  const Strided tensor = strided(id);
  const int64_t element = types::byte_size(tensor.dtype);
  const Axes& axes = out.axes;
  for_each_row(axes.locals(), [&](int64_t position, const Sizes& at) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < axes.rank(); ++d) base += axes.global(d, at[d]) * tensor.strides[d];
    const size_t last = axes.rank() - 1;
    const int64_t inner = axes.rank() == 0 ? 1 : axes.local(last);
    for (int64_t j = 0; j < inner && goes_on_at(j, inner); ++j) {
      const int64_t offset = axes.rank() == 0 ? 0 : base + axes.global(last, j) * tensor.strides[last];
      take(static_cast<size_t>(position + j), tensor.data + offset * element, tensor.dtype);
    }
  });
}

template <class T>
void Evaluator<T>::load_literal(ir::NodeId id, Block<T>& out) {
  const auto& literal = graph_.attr_as<ir::LiteralAttr>(id);
  using Kind = ir::LiteralAttr::Kind;
  const types::Scalar s = literal.kind == Kind::Float  ? types::Scalar::from_f64(literal.f)
                          : literal.kind == Kind::Bool ? types::Scalar::from_bool(literal.i != 0)
                                                       : types::Scalar::from_i64(literal.i);
  const types::Scalar converted = types::convert(s, out.dtype);
  if (out.real()) {
    out.reals[0] = Real<T>::point(T(converted.as_f64()));
  } else {
    out.ints[0] = Int::point(static_cast<int64_t>(converted.payload()));
  }
}

template <class T>
void Evaluator<T>::count_index(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  const size_t from_end = op == Op::col_index ? 1 : op == Op::row_index ? 2 : 3;
  const size_t dim = out.axes.rank() - from_end;
  for (size_t i = 0; i < out.ints.size(); ++i) out.ints[i] = Int::point(out.axes.global(dim, static_cast<int64_t>(i)));
}

template <class T>
void Evaluator<T>::evaluate(ir::NodeId id) {
  Block<T>& out = blocks_[id.index()];
  const types::OpInfo& info = types::op_info(graph_.node(id).op);
  out.dtype = graph_.type(id).dtype;
  out.axes = axes_of(problem_, id, picks_);
  const auto count = static_cast<size_t>(out.axes.count());
  // Even of no elements: other results may have some.
  if (info.rule == types::OpRule::control) return control(id, out);
  if (info.rule == types::OpRule::external) return external(id, out);
  if (in_parts_[id.index()]) return;
  if (info.rule != types::OpRule::cast) {
    if (out.real()) {
      out.reals.resize(count);
    } else {
      out.ints.resize(count);
    }
  }
  if (count == 0) return;
  switch (info.rule) {
    case types::OpRule::special:
      return info.op == Op::input ? load(id, out) : load_literal(id, out);
    case types::OpRule::index:
      return count_index(id, out);
    case types::OpRule::arith:
    case types::OpRule::logical:
      return out.real() ? elementwise_real(id, out) : elementwise_int(id, out);
    case types::OpRule::real:
      return info.op == Op::dropout ? dropout(id, out) : elementwise_real(id, out);
    case types::OpRule::compare:
      return compare(id, out);
    case types::OpRule::select:
      return select(id, out);
    case types::OpRule::cast:
      return cast(id, out);
    case types::OpRule::reduce:
      return reduce(id, out);
    case types::OpRule::layout:
      return in_parts_[graph_.operands(id)[0].index()] ? load(id, out) : layout(id, out);
    case types::OpRule::matmul:
      return matmul(id, out);
    case types::OpRule::indexed:
      return indexed(id, out);
    case types::OpRule::control:
    case types::OpRule::external:
      break;
  }
}

template <class T>
Result<void> Evaluator<T>::run(std::span<const ir::NodeId> roots) {
  const std::vector<ir::NodeId> order = ir::topological_order(graph_, roots);
  in_parts_ = read_in_parts(problem_, roots, picks_);
  std::vector<uint32_t> last(graph_.size(), 0);
  for (const ir::NodeId id : order) {
    for (const ir::NodeId operand : graph_.operands(id)) last[operand.index()] = id.index();
    if (const auto too = also_read(id)) last[too->index()] = id.index();
  }
  for (const ir::NodeId root : roots) last[root.index()] = UINT32_MAX;
  for (const ir::NodeId id : order) {
    evaluate(id);
    const auto elements = static_cast<int64_t>(blocks_[id.index()].reals.size() + blocks_[id.index()].ints.size());
    if (!problem_.pulse->beats(64 * (1 + elements)) && !failure_) failure_ = stopped_error();
    if (failure_) return *std::move(failure_);
    for (const ir::NodeId operand : graph_.operands(id)) {
      if (last[operand.index()] == id.index()) blocks_[operand.index()] = {};
    }
    if (const auto too = also_read(id); too && last[too->index()] == id.index()) blocks_[too->index()] = {};
  }
  return {};
}

template <class T>
ExpectedElement expected_real(const Real<T>& x, DType to) {
  ExpectedElement e;
  e.may_be_nan = (x.flags & may_be_nan) != 0;
  e.ambiguous = (x.flags & ambiguous) != 0;
  e.value = static_cast<double>(x.middle());
  e.bound = x.is_nan() ? 0 : static_cast<double>(x.radius());
  if (types::is_float(to)) {
    e.low = x.is_nan() ? static_cast<double>(x.lo) : static_cast<double>(stored(x.lo, to));
    e.high = x.is_nan() ? static_cast<double>(x.hi) : static_cast<double>(stored(x.hi, to));
    return e;
  }
  const Int i = real_to_int(x, to, [](T v) { return to_nearest_integer(v); });
  e.exact_low = i.lo;
  e.exact_high = i.hi;
  e.ambiguous = i.flags != 0;
  e.may_be_nan = false;
  e.low = static_cast<double>(widened(i.lo, to));
  e.high = static_cast<double>(widened(i.hi, to));
  return e;
}

template <class T>
ExpectedElement expected_int(const Int& x, DType from, DType to) {
  if (types::is_float(to)) {
    Block<T> in, out;
    in.dtype = from;
    in.ints = {x};
    out.dtype = to;
    convert_block(in, out);
    ExpectedElement e = expected_real(out.reals[0], to);
    e.ambiguous = x.flags != 0;
    return e;
  }
  const Int i = convert_int(x, from, to);
  ExpectedElement e;
  e.exact_low = i.lo;
  e.exact_high = i.hi;
  e.low = static_cast<double>(widened(i.lo, to));
  e.high = static_cast<double>(widened(i.hi, to));
  e.value = e.low / 2 + e.high / 2;
  e.bound = e.high / 2 - e.low / 2;
  e.ambiguous = i.flags != 0;
  return e;
}

template <class T>
Result<std::vector<PassOutput>> run_pass(const Problem& problem, std::span<const size_t> outputs, const Picks& picks) {
  const ir::Graph& graph = *problem.graph;
  std::vector<ir::NodeId> roots;
  for (const size_t o : outputs) roots.push_back(graph.outputs()[o].node);
  Evaluator<T> evaluator(problem, picks);
  CODETTA_CHECK_OK(evaluator.run(roots));
  std::vector<PassOutput> results;
  for (const size_t o : outputs) {
    const Block<T>& block = evaluator.block(graph.outputs()[o].node);
    PassOutput& result = results.emplace_back();
    result.output = o;
    result.axes = block.axes;
    const DType to = graph.outputs()[o].dtype;
    result.given = block.given && to == block.dtype;  // what is converted is compared
    result.elements.reserve(static_cast<size_t>(block.axes.count()));
    for (const Real<T>& x : block.reals) result.elements.push_back(expected_real(x, to));
    for (const Int& x : block.ints) result.elements.push_back(expected_int<T>(x, block.dtype, to));
  }
  return results;
}

}  // namespace codetta::oracle
