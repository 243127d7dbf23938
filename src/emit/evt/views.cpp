// SPDX-License-Identifier: Apache-2.0
#include "emit/evt/views.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ir/report.hpp"
#include "types/dtype.hpp"
#include "types/overlap.hpp"

namespace codetta::emit::evt {
namespace {

// Row-major without gaps: only then a reshape is another view.
std::optional<std::vector<Dim>> dense_strides(const View& view, const std::vector<Dim>& shape) {
  Dim expected = Dim::constant(1);
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (!is(view.shape[i], 1) && !(view.strides[i] == expected)) return std::nullopt;
    expected = expected * view.shape[i];
  }
  return row_major_strides(shape);
}

// Dims of size 1 come and go.
std::optional<std::vector<Dim>> regrouped(const View& view, const std::vector<Dim>& shape) {
  std::vector<Dim> strides;
  size_t from = 0;
  for (const Dim& size : shape) {
    while (from < view.shape.size() && is(view.shape[from], 1) && !is(size, 1)) ++from;
    if (is(size, 1)) {
      strides.push_back(Dim::constant(1));
      if (from < view.shape.size() && is(view.shape[from], 1)) ++from;
    } else if (from < view.shape.size() && view.shape[from] == size) {
      strides.push_back(view.strides[from++]);
    } else {
      return std::nullopt;
    }
  }
  while (from < view.shape.size() && is(view.shape[from], 1)) ++from;
  if (from != view.shape.size()) return std::nullopt;
  return strides;
}

int64_t power_of_two_in(int64_t value) { return value == 0 ? int64_t{1} << 30 : value & -value; }

}  // namespace

std::vector<Dim> row_major_strides(const std::vector<Dim>& shape) {
  std::vector<Dim> strides(shape.size());
  Dim stride = Dim::constant(1);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

bool is_backward(const std::array<Dim, 3>& strides, const std::map<std::string, int64_t>& hints) {
  return std::any_of(strides.begin(), strides.end(),
                     [&](const Dim& stride) { return stride.evaluate(hints).value_or(0) < 0; });
}

bool has_tma_format(DType dtype) { return dtype != DType::i16; }

bool is_row_major(const std::array<Dim, 3>& strides) { return is(strides[1], 1); }

const Dim& extent_of(const Problem& problem, const std::array<Dim, 3>& strides) {
  return problem.shape[problem.shape.size() - (is_row_major(strides) ? 1 : 2)];
}

int access_elements(const std::array<Dim, 3>& strides, const Dim& extent, int bits,
                    const std::map<std::string, int64_t>& hints, bool& assumed) {
  int64_t together = 128 / bits;
  std::array<Dim, 3> multiples = strides;
  multiples[is_row_major(strides) ? 1 : 0] = extent;
  for (const Dim& multiple : multiples) {
    const auto constant = multiple.as_constant();
    if (constant) {
      together = std::min(together, power_of_two_in(*constant));
      continue;
    }
    int64_t proven = together;
    while (proven > 1 && !is(mod(multiple, Dim::constant(proven)), 0)) proven /= 2;
    const auto likely = multiple.evaluate(hints);
    const int64_t hinted = likely ? std::min(together, power_of_two_in(*likely)) : proven;
    if (hinted > proven) assumed = true;
    together = std::max(proven, hinted);
  }
  return static_cast<int>(together);
}

diag::ErrorBuilder Views::at(ir::NodeId node, std::string headline) const {
  auto error = diag::error(diag::Code::family_layout, std::move(headline));
  const ir::Graph& graph = *problem_.graph;
  if (graph.span(node).known()) error.at(graph.source(), graph.span(node));
  return error;
}

Error Views::not_dense(size_t operand, const std::vector<Dim>& shape, const std::vector<Dim>& strides, ir::NodeId node,
                       const std::string& why) const {
  return at(node,
            fmt::format(
                "Cannot create example tensor for {} with non-contiguous layout, received stride: {} and shape: {}",
                problem_.operands[operand].name, to_string(strides), to_string(shape)))
      .reason(why)
      .help("make a contiguous copy of it, or use a cuda target, whose kernels take any strides");
}

Result<View> Views::of(ir::NodeId node) const {
  const ir::Graph& graph = *problem_.graph;
  std::vector<ir::NodeId> chain;
  ir::NodeId from = node;
  while (graph.node(from).op != types::Op::input) {
    chain.push_back(from);
    from = graph.operands(from)[0];
  }
  std::string name;
  for (const ir::GraphInput& input : graph.inputs()) {
    if (input.node == from) name = input.name;
  }
  std::optional<size_t> operand;
  for (size_t i = 0; i < problem_.operands.size(); ++i) {
    if (problem_.operands[i].name == name && !problem_.operands[i].is_output) operand = i;
  }
  if (!operand) {
    return at(node, "Example input for " + name + " is not provided.")
        .reason("the strides of an operand decide which node loads it")
        .help("add an example tensor named " + name);
  }
  View view = View::of(problem_, *operand);
  for (size_t i = chain.size(); i-- > 0;) {
    const ir::NodeId step = chain[i];
    if (graph.node(step).op == types::Op::permute) {
      const auto& order = graph.attr_as<ir::PermuteAttr>(step).order;
      View next{view.operand, {}, {}};
      for (const int32_t dim : order) {
        next.shape.push_back(view.shape[static_cast<size_t>(dim)]);
        next.strides.push_back(view.strides[static_cast<size_t>(dim)]);
      }
      view = std::move(next);
    } else if (graph.node(step).op == types::Op::reshape) {
      const std::vector<Dim>& shape = graph.type(step).shape;
      auto strides = regrouped(view, shape);
      if (!strides) strides = dense_strides(view, shape);
      if (!strides) {
        return not_dense(view.operand, view.shape, view.strides, step,
                         "a reshape is part of the strides only where the elements lie row by row without gaps");
      }
      view = {view.operand, shape, *std::move(strides)};
    } else {
      return at(step, fmt::format("{} of {} has no strides that CUTLASS could load",
                                  types::op_info(graph.node(step).op).name, name))
          .reason("a visitor loads an operand by one stride a dimension, from its first element on")
          .help("bind the part that is needed as an operand of its own");
    }
  }
  return view;
}

Result<std::array<Dim, 3>> Views::loaded(const View& view, ir::NodeId node) const {
  std::array<Dim, 3> strides{};
  const size_t rank = problem_.shape.size();
  const std::string& name = problem_.operands[view.operand].name;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    const size_t from_end = view.shape.size() - 1 - i;
    const Dim& size = view.shape[i];
    if (from_end < rank && size == problem_.shape[rank - 1 - from_end] && !is(size, 1)) {
      strides[from_end == 0 ? 1 : from_end == 1 ? 0 : 2] = view.strides[i];
    } else if (!is(size, 1)) {
      return at(node, fmt::format("{} does not broadcast to the accumulator for all sizes", name))
          .reason(fmt::format("{} is {}, the accumulator {}", name, to_string(view.shape), to_string(problem_.shape)))
          .help("give sizes that are equal the same expression, or size 1");
    }
  }
  const bool rows = !is(strides[0], 0), columns = !is(strides[1], 0);
  if (columns && !rows && !is(strides[1], 1))
    return not_dense(view.operand, view.shape, view.strides, node,
                     "Sm90RowBroadcast and its like load one value a column from consecutive elements");
  if (rows && !columns && !is(strides[0], 1))
    return not_dense(view.operand, view.shape, view.strides, node,
                     "Sm90ColBroadcast and its like load one value a row from consecutive elements");
  if (rows && columns && !is(strides[0], 1) && !is(strides[1], 1))
    return not_dense(view.operand, view.shape, view.strides, node, "one of the last two strides must be 1");
  return strides;
}

Result<void> Views::apart(size_t operand, ir::NodeId node) const {
  const Operand& output = problem_.operands[operand];
  std::vector<int64_t> sizes, strides;
  for (size_t i = 0; i < output.shape.size(); ++i) {
    const auto size = output.shape[i].evaluate(problem_.hints), stride = output.strides[i].evaluate(problem_.hints);
    if (!size || !stride) return {};
    sizes.push_back(*size);
    strides.push_back(*stride);
  }
  const auto rank = static_cast<int>(sizes.size());
  if (!types::overlaps_itself({nullptr, types::byte_size(output.dtype), rank, sizes.data(), strides.data()})) return {};
  return at(node, fmt::format("output {} overlaps itself", output.name))
      .reason(fmt::format("with strides {} and shape {} several elements have one place, and their order is not fixed",
                          to_string(output.strides), to_string(output.shape)))
      .help("give it strides that leave each element a place of its own");
}

Result<std::array<Dim, 3>> Views::stored(size_t operand, ir::NodeId node) const {
  const Operand& output = problem_.operands[operand];
  const size_t rank = problem_.shape.size();
  if (output.shape.size() < 2 || output.shape.size() > rank ||
      !std::equal(output.shape.rbegin(), output.shape.rend(), problem_.shape.rbegin())) {
    return at(node, fmt::format("output {} has another shape than the accumulator", output.name))
        .reason(fmt::format("{} is {}, the accumulator {}", output.name, to_string(output.shape),
                            to_string(problem_.shape)))
        .help("bind a tensor of the accumulator's shape, said by the same expressions");
  }
  if (output.shape.size() < rank && !is(problem_.shape[0], 1)) {
    return at(node, fmt::format("output {} lacks the batch dimension", output.name))
        .reason(fmt::format("every one of the {} products would write the same elements, in no order",
                            problem_.shape[0].to_string()))
        .help("bind a tensor with a batch dimension");
  }
  CODETTA_CHECK_OK(apart(operand, node));
  const size_t last = output.shape.size() - 1;
  std::array<Dim, 3> strides{output.strides[last - 1], output.strides[last], last == 2 ? output.strides[0] : Dim()};
  if (is(output.shape[last], 1) && !is(strides[0], 1)) strides[1] = Dim::constant(1);
  if (!is(strides[0], 1) && !is(strides[1], 1))
    return not_dense(operand, output.shape, output.strides, node, "one of the last two strides must be 1");
  if (is(strides[0], 1) && is(strides[1], 1)) strides[0] = output.shape[last];  // one column: any row stride will do
  return strides;
}

Result<std::array<Dim, 3>> Views::reduced(size_t operand, Kind kind, ir::NodeId node) const {
  const Operand& output = problem_.operands[operand];
  CODETTA_CHECK_OK(apart(operand, node));
  std::array<Dim, 3> strides{};
  const size_t rank = problem_.shape.size();
  // The result's dims, from the end; a vector may also be bound to one without the reduced dim.
  for (size_t i = 0; i < output.shape.size(); ++i) {
    const size_t from_end = output.shape.size() - 1 - i;
    if (is(output.shape[i], 1)) continue;
    if (from_end == 0 && kind == Kind::RowReduce) strides[1] = output.strides[i];
    if (from_end == 0 && kind == Kind::ColumnReduce) strides[0] = output.strides[i];  // [M] instead of [M, 1]
    if (from_end == 1 && kind == Kind::ColumnReduce) {
      if (rank == 2 || output.shape.size() == 3 || output.shape[i] == problem_.shape[rank - 2])
        strides[0] = output.strides[i];
    }
    if (from_end == 2) strides[2] = output.strides[i];
  }
  const Dim& unit = kind == Kind::RowReduce ? strides[1] : strides[0];
  if (kind != Kind::ScalarReduce) {
    if (is(unit, 0)) (kind == Kind::RowReduce ? strides[1] : strides[0]) = Dim::constant(1);  // of size 1
    if (!is(unit, 1))
      return not_dense(operand, output.shape, output.strides, node,
                       "results of a reduction lie in consecutive elements");
  }
  return strides;
}

Result<void> Views::collective(size_t operand, const std::array<Dim, 3>& strides, ir::NodeId node) const {
  const Operand& tensor = problem_.operands[operand];
  const bool rows = !is(strides[0], 0), columns = !is(strides[1], 0);
  const auto wrong = [&](const std::string& why, const std::string& help = "pad its rows to a multiple of 16 bytes") {
    return Error(at(node, fmt::format("{} cannot be moved by TMA", tensor.name))
                     .reason(why)
                     .help(help + ", or use a cuda target, whose kernels take any strides"));
  };
  if (!rows || !columns) return wrong("it has one value for several elements");
  if (!has_tma_format(tensor.dtype)) {
    return at(node, fmt::format("{} cannot be moved by TMA", tensor.name))
        .reason(fmt::format("CUTLASS has no TMA format of {}", dtype_name(tensor.dtype)))
        .help("bind a tensor of i32, or use a cuda target");
  }
  if (is_backward(strides, problem_.hints))
    return wrong(
        fmt::format("one of its strides {} is negative, which tensor maps have none of", to_string(tensor.strides)),
        "copy it in the order in which it is read or written");
  const int bits = types::bits(tensor.dtype);
  bool assumed = false;
  const Dim& extent = extent_of(problem_, strides);
  if (access_elements(strides, extent, bits, problem_.hints, assumed) * bits >= 128) return {};
  const size_t outer = is_row_major(strides) ? 0 : 1;
  if (access_elements(strides, Dim(), bits, problem_.hints, assumed) * bits >= 128)
    return wrong(fmt::format("its {} have {} elements of {} bytes: not a multiple of 16 bytes, which CUTLASS asks for "
                             "however far they lie apart",
                             outer == 0 ? "rows" : "columns", extent.to_string(), bits / 8),
                 fmt::format("make {} a multiple of {}", outer == 0 ? "N" : "M", 128 / bits));
  return wrong(fmt::format("its {} lie {} elements of {} bytes apart, and its items {}: not multiples of 16 bytes",
                           outer == 0 ? "rows" : "columns", strides[outer].to_string(), bits / 8,
                           strides[2].to_string()));
}

}  // namespace codetta::emit::evt
