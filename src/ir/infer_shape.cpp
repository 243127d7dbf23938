// SPDX-License-Identifier: Apache-2.0
// Shapes of results: broadcasting, reductions, layout ops, matmul. Sizes are symbolic; what can't be proven is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/checked.hpp"
#include "base/text.hpp"
#include "ir/infer.hpp"

namespace codetta::ir {
namespace {

using diag::Code;

bool is_one(const Dim& dim) { return dim == Dim::constant(1); }

// "64 columns", "1 row".
std::string count_of(const Dim& size, size_t rank, size_t from_end) {
  return fmt::format("{} {}", size.to_string(), dim_noun(rank, from_end, is_one(size)));
}

// Of two operands that don't fit, the one to blame: the one with fewer dims, else the second.
std::pair<size_t, size_t> blame(std::span<const OperandFacts> operands, size_t first, size_t second) {
  const bool first_smaller = operands[first].type->shape.size() < operands[second].type->shape.size();
  return first_smaller ? std::pair(first, second) : std::pair(second, first);
}

MaybeComplaint bad_attr(std::string headline, std::string reason, std::string help, int operand = 0) {
  return Complaint{Code::layout_mismatch, std::move(headline), std::move(reason), std::move(help), operand};
}

std::string type_note(const OperandNames& names, const TensorType& type, size_t operand = 0) {
  return fmt::format("{} is {}", names(operand), to_string(type));
}

Dim product(const std::vector<Dim>& shape) {
  Dim count = Dim::constant(1);
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

}  // namespace

std::optional<int32_t> normalized_dim(int32_t dim, size_t rank) {
  const auto size = static_cast<int32_t>(rank);
  if (dim < -size || dim >= size) return std::nullopt;
  return dim < 0 ? dim + size : dim;
}

MaybeComplaint no_such_dim(std::string_view who, int32_t dim, const TensorType& type, const OperandNames& names,
                           Code code) {
  const size_t rank = type.shape.size();
  return Complaint{code, fmt::format("{} along dim {}, but {} has {}", who, dim, names(0), count_dims(rank)),
                   type_note(names, type),
                   rank == 0 ? std::string("a scalar has no dims")
                             : fmt::format("use a dim from {} to {}", -static_cast<int64_t>(rank), rank - 1),
                   0};
}

std::string count_dims(size_t rank) { return rank == 1 ? "1 dim" : fmt::format("{} dims", rank); }

std::string dim_noun(size_t rank, size_t from_end, bool singular) {
  if (from_end == 0) return singular ? "column" : "columns";
  if (from_end == 1) return singular ? "row" : "rows";
  if (from_end == 2 && rank <= 3) return singular ? "batch item" : "batch items";
  return fmt::format("{} in dim {}", singular ? "element" : "elements", rank - 1 - from_end);
}

namespace {

// "[:, None, None, :]": dims of size 1 with which `small` broadcasts to `large`, whose dims it has in their order.
// Of several places the last ones count, where scores have what a mask of keys says. Empty where none fit.
std::string placed_in(const std::vector<Dim>& small, const std::vector<Dim>& large) {
  std::vector<std::string_view> places;  // from the last one on
  size_t left = small.size();
  for (size_t d = large.size(); d-- > 0 && left > 0;) {
    const bool here = is_one(small[left - 1]) || small[left - 1] == large[d];
    places.emplace_back(here ? ":" : "None");
    if (here) --left;
  }
  if (left > 0 || places.size() == small.size()) return {};
  std::reverse(places.begin(), places.end());
  return fmt::format("[{}]", fmt::join(places, ", "));
}

}  // namespace

MaybeComplaint broadcast(std::span<const OperandFacts> operands, const OperandNames& names, std::vector<Dim>& out) {
  size_t rank = 0;
  for (const OperandFacts& operand : operands) rank = std::max(rank, operand.type->shape.size());
  out.assign(rank, Dim::constant(1));
  for (size_t from_end = 0; from_end < rank; ++from_end) {
    Dim& size = out[rank - 1 - from_end];
    size_t decided_by = operands.size();
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::vector<Dim>& shape = operands[i].type->shape;
      if (from_end >= shape.size()) continue;
      const Dim& dim = shape[shape.size() - 1 - from_end];
      if (is_one(dim) || dim == size) continue;
      if (decided_by == operands.size()) {
        size = dim;
        decided_by = i;
        continue;
      }
      const auto [bad, other] = blame(operands, decided_by, i);
      const auto size_of = [&](size_t operand) {
        const std::vector<Dim>& s = operands[operand].type->shape;
        return s[s.size() - 1 - from_end];
      };
      const Dim bad_size = size_of(bad), other_size = size_of(other);
      const bool fewer = operands[bad].type->shape.size() < operands[other].type->shape.size();
      const size_t small = fewer ? bad : other, large = fewer ? other : bad;
      const std::string placed = placed_in(operands[small].type->shape, operands[large].type->shape);
      const std::string help =
          base::is_identifier(names(small))
              ? fmt::format("write {}{}, which has its dims where {} has them", names(small), placed, names(large))
              : fmt::format("write {} behind {}, which puts its dims where {} has them", placed, names(small),
                            names(large));
      return Complaint{
          Code::shape_mismatch,
          fmt::format("{} has {} but {} has {}", names(bad), count_of(bad_size, rank, from_end), names(other),
                      other_size.to_string()),
          fmt::format("{} and {} do not broadcast: from the right, sizes must be equal or 1",
                      types::to_string(operands[bad].type->shape), types::to_string(operands[other].type->shape)),
          placed.empty()
              ? fmt::format("make both {} {}, or one of them 1", other_size.to_string(), dim_noun(rank, from_end))
              : help,
          static_cast<int>(bad)};
    }
  }
  return std::nullopt;
}

MaybeComplaint reduce_shape(const TensorType& operand, ReduceAttr& attr, const OperandNames& names,
                            std::vector<Dim>& out) {
  const size_t rank = operand.shape.size();
  const auto last = static_cast<int32_t>(rank) - 1;
  if (attr.axis == ReduceAxis::Dims) {
    for (int32_t& dim : attr.dims) {
      const std::optional<int32_t> fixed = normalized_dim(dim, rank);
      if (!fixed) return no_such_dim("reduction", dim, operand, names, Code::reduction_axis);
      dim = *fixed;
    }
    std::sort(attr.dims.begin(), attr.dims.end());
    const auto twice = std::adjacent_find(attr.dims.begin(), attr.dims.end());
    if (twice != attr.dims.end()) {
      return Complaint{Code::reduction_axis, fmt::format("reduction names dim {} twice", *twice),
                       type_note(names, operand), "name each dim once", -1};
    }
    if (attr.dims.empty()) {
      return Complaint{Code::reduction_axis, "reduction names no dim", type_note(names, operand),
                       "name at least one dim, or leave dim= out", -1};
    }
  } else {
    const size_t needed = attr.axis == ReduceAxis::Column ? 2 : 1;
    if (rank < needed) {
      const char* what = attr.axis == ReduceAxis::Row ? "row" : attr.axis == ReduceAxis::Column ? "column" : "all";
      return Complaint{Code::reduction_axis,
                       rank == 0 ? fmt::format("{} is a scalar and cannot be reduced", names(0))
                                 : fmt::format("{} reduction of {}, which has no rows", what, names(0)),
                       type_note(names, operand),
                       rank == 0 ? "use the scalar itself" : "bind it with two dims, such as [1, n]", 0};
    }
    attr.dims.clear();
    if (attr.axis == ReduceAxis::Row) attr.dims = {last};
    if (attr.axis == ReduceAxis::Column) attr.dims = {last - 1};
    if (attr.axis == ReduceAxis::All) {
      for (int32_t dim = 0; dim <= last; ++dim) attr.dims.push_back(dim);
    }
    attr.axis = ReduceAxis::Dims;
  }
  out = operand.shape;
  for (const int32_t dim : attr.dims) out[static_cast<size_t>(dim)] = Dim::constant(1);
  return std::nullopt;
}

MaybeComplaint permute_shape(const TensorType& operand, PermuteAttr& attr, const OperandNames& names,
                             std::vector<Dim>& out) {
  const size_t rank = operand.shape.size();
  std::vector<bool> seen(rank, false);
  bool valid = attr.order.size() == rank;
  for (size_t i = 0; valid && i < rank; ++i) {
    const std::optional<int32_t> dim = normalized_dim(attr.order[i], rank);
    valid = dim.has_value() && !seen[static_cast<size_t>(*dim)];
    if (!valid) break;
    seen[static_cast<size_t>(*dim)] = true;
    attr.order[i] = *dim;
  }
  if (!valid) {
    return bad_attr(fmt::format("({}) is not an order of the dims of {}", fmt::join(attr.order, ", "), names(0)),
                    type_note(names, operand),
                    fmt::format("name each dim from 0 to {} once", rank == 0 ? 0 : rank - 1));
  }
  out.clear();
  for (const int32_t dim : attr.order) out.push_back(operand.shape[static_cast<size_t>(dim)]);
  return std::nullopt;
}

namespace {

// The shape that a Squeeze or Unsqueeze means.
MaybeComplaint resolve_form(const TensorType& operand, ReshapeAttr& attr, const OperandNames& names) {
  const bool squeeze = attr.form == ReshapeForm::Squeeze;
  const size_t rank = operand.shape.size() + (squeeze ? 0 : attr.dims.size());
  std::vector<bool> chosen(rank, false);
  for (const int32_t dim : attr.dims) {
    const std::optional<int32_t> at = normalized_dim(dim, rank);
    if (!at) {
      if (squeeze) return no_such_dim("squeeze", dim, operand, names, Code::layout_mismatch);
      return bad_attr(fmt::format("unsqueeze puts a dim at {}, but the result has {}", dim, count_dims(rank)),
                      type_note(names, operand),
                      fmt::format("use a dim from {} to {}", -static_cast<int64_t>(rank), rank - 1));
    }
    if (chosen[static_cast<size_t>(*at)]) {
      return bad_attr(fmt::format("{} names dim {} twice", squeeze ? "squeeze" : "unsqueeze", *at),
                      type_note(names, operand), "name each dim once");
    }
    chosen[static_cast<size_t>(*at)] = true;
  }
  attr.shape.clear();
  size_t from = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (!squeeze) {
      attr.shape.push_back(chosen[d] ? Dim::constant(1) : operand.shape[from++]);
    } else if (!chosen[d]) {
      attr.shape.push_back(operand.shape[d]);
    } else if (!is_one(operand.shape[d])) {
      return bad_attr(fmt::format("squeeze drops dim {}, whose size is {}", d, operand.shape[d].to_string()),
                      type_note(names, operand), "only dims of size 1 can be dropped; use reshape to merge dims");
    }
  }
  attr.form = ReshapeForm::Shape;
  attr.dims.clear();
  return std::nullopt;
}

// A bound below 0 counts from the end.
bool from_end(const Dim& bound) {
  const std::optional<int64_t> high = bound.upper_bound();
  return high && *high <= 0 && !(bound == Dim::constant(0));
}

MaybeComplaint bad_bound(std::string what, const Dim& bound, const Dim& size, size_t along, const TensorType& operand,
                         const OperandNames& names, bool stepped) {
  const bool known = bound.is_constant() && size.is_constant();
  return Complaint{Code::slice_bounds,
                   fmt::format("the slice {} {}, but dim {} of {} has the size {}", what, bound.to_string(), along,
                               names(0), size.to_string()),
                   fmt::format("{}; {}", type_note(names, operand),
                               known     ? "bounds are not clamped"
                               : stepped ? "with a step, 0 <= start <= stop <= size has to be shown for all sizes"
                                         : "0 <= start <= stop <= size does not hold where there are elements"),
                   known ? fmt::format("use bounds from {} to {}", (-size).to_string(), size.to_string())
                         : std::string(stepped ? "slice without a step first, and take every n-th element of that"
                                               : "write bounds in terms of the size, such as size // 2"),
                   0};
}

}  // namespace

MaybeComplaint slice_shape(const TensorType& operand, SliceAttr& attr, const OperandNames& names,
                           std::vector<Dim>& out) {
  const std::optional<int32_t> dim = normalized_dim(attr.dim, operand.shape.size());
  if (!dim) return no_such_dim("slice", attr.dim, operand, names, Code::layout_mismatch);
  attr.dim = *dim;
  const auto along = static_cast<size_t>(*dim);
  const Dim& size = operand.shape[along];
  if (attr.step < 1) {
    return Complaint{Code::slice_bounds, fmt::format("the slice has the step {}", attr.step),
                     "a slice runs forward, by 1 or more",
                     "reverse with take(x, max(arange(n), dim=0) - arange(n), dim=...)", 0};
  }
  Dim stop;
  const Dim step = Dim::constant(attr.step);
  // Empty slices end where they start; the last element of others lies inside.
  const auto counted_stop = [&] {
    if (attr.count == Dim::constant(0)) return attr.start;
    return attr.start + (attr.count - Dim::constant(1)) * step + Dim::constant(1);
  };
  // What cannot be shown is checked in a run, of bounds from values and of others. Bounds from values never count from
  // the end, and others that hold for no sizes but 0 are a mistake.
  const bool stepped = attr.step != 1;
  bool checked = attr.checked;
  const auto shown = [&](const Dim& distance) {
    if (types::is_non_negative(distance)) return true;
    if (stepped || distance.is_constant() || (!attr.checked && from_end(distance))) return false;
    checked = true;
    return true;
  };
  const auto bad = [&](std::string what, const Dim& bound) {
    return bad_bound(std::move(what), bound, size, along, operand, names, stepped);
  };
  if (attr.checked && stepped) return bad("has a step, and starts at", attr.start);
  if (attr.checked && attr.bound != SliceBound::Count) {
    for (const Dim* bound : {&attr.start, attr.bound == SliceBound::Stop ? &attr.count : &attr.start}) {
      if (bound->is_constant() || !from_end(*bound)) continue;
      return Complaint{Code::size_value,
                       fmt::format("the bound {} counts from the end for some values", bound->to_string()),
                       "of 0 it would be the start of the dim, as in Python",
                       fmt::format("write {}", (size + *bound).to_string()), 0};
    }
  }
  // Of all of a dim nothing has to be shown: tensors have sizes of 0 or more, as x[1:] of a run that came to
  // x[1:][::2], and of every third element the last one is there, whatever the floors of x[::2][::3] say.
  bool whole = attr.start == Dim::constant(0) && attr.step <= INT32_MAX;  // sums of sizes and steps have 64 bits
  if (attr.bound == SliceBound::Count) {
    whole = whole && attr.count == floordiv(size + Dim::constant(attr.step - 1), step);
    if (!whole && !shown(attr.count)) return bad("takes", attr.count);
    stop = whole ? size : counted_stop();
  } else {
    if (from_end(attr.start)) attr.start = size + attr.start;
    stop = attr.bound == SliceBound::Open ? size : from_end(attr.count) ? size + attr.count : attr.count;
    whole = whole && stop == size;
  }
  if (!shown(attr.start)) return bad("starts at", attr.start);
  if (!shown(size - stop)) return bad("ends at", stop);
  if (attr.bound != SliceBound::Count) {
    if (!whole && !shown(stop - attr.start)) {
      const bool known = attr.start.is_constant() && stop.is_constant();
      return bad(fmt::format("{} at {}, before its start", known || !stepped ? "ends" : "may end", stop.to_string()),
                 attr.start);
    }
    attr.count = floordiv(stop - attr.start + Dim::constant(attr.step - 1), step);
    attr.bound = SliceBound::Count;
    // The count alone stays in the graph, and is verified again. What is shown of the stop does not always follow from
    // it: not always through two floors, nor where a large step overflows the bounds of symbols.
    if (const Dim end = counted_stop(); !whole && !shown(size - end)) return bad("ends at", end);
  }
  attr.checked = checked;
  out = operand.shape;
  out[along] = attr.count;
  return std::nullopt;
}

MaybeComplaint broadcast_shape(const TensorType& operand, ReshapeAttr& attr, const OperandNames& names,
                               std::vector<Dim>& out) {
  const std::string wanted = types::to_string(attr.shape);
  const size_t rank = operand.shape.size();
  const auto misfit = [&](std::string reason) {
    return bad_attr(fmt::format("cannot expand {} to {}", types::to_string(operand.shape), wanted), std::move(reason),
                    "from the right, each size stays or grows from 1");
  };
  if (attr.form != ReshapeForm::Shape || attr.shape.size() < rank || attr.shape.size() > static_cast<size_t>(max_rank))
    return misfit(fmt::format("{}; the result needs {} to {} dims", type_note(names, operand), rank, max_rank));
  for (size_t d = 0; d < attr.shape.size(); ++d) {
    Dim& size = attr.shape[d];
    const size_t fresh = attr.shape.size() - rank;
    if (size == Dim::constant(-1) && d >= fresh) size = operand.shape[d - fresh];
    if (const std::optional<int64_t> constant = size.as_constant(); constant && *constant < 0)
      return misfit(fmt::format("{} is not a size of a new dim", *constant));
    if (d < fresh || is_one(operand.shape[d - fresh]) || operand.shape[d - fresh] == size) continue;
    return misfit(fmt::format("{}; dim {} is {}, not {}", type_note(names, operand), d - fresh,
                              operand.shape[d - fresh].to_string(), size.to_string()));
  }
  out = attr.shape;
  return std::nullopt;
}

MaybeComplaint reshape_shape(const TensorType& operand, ReshapeAttr& attr, const OperandNames& names,
                             std::vector<Dim>& out) {
  if (attr.form != ReshapeForm::Shape) {
    if (MaybeComplaint complaint = resolve_form(operand, attr, names)) return complaint;
  }
  if (attr.shape.size() > static_cast<size_t>(max_rank)) {
    return bad_attr(fmt::format("reshape to {} dims", attr.shape.size()),
                    fmt::format("a tensor has at most {} dims", max_rank), "use fewer dims");
  }
  const Dim have = product(operand.shape);
  Dim known = Dim::constant(1);
  Dim* inferred = nullptr;
  for (Dim& dim : attr.shape) {
    if (dim == Dim::constant(-1)) {
      if (inferred != nullptr) {
        return bad_attr(fmt::format("reshape to {} leaves two sizes open", types::to_string(attr.shape)),
                        type_note(names, operand), "write -1 once at most");
      }
      inferred = &dim;
      continue;
    }
    const std::optional<int64_t> size = dim.as_constant();
    if (size && *size < 0) {
      return bad_attr(fmt::format("reshape to {} has the negative size {}", types::to_string(attr.shape), *size),
                      type_note(names, operand), "sizes are 0 or more; one may be -1 to be inferred");
    }
    known = known * dim;
  }
  const std::string wanted = types::to_string(attr.shape);
  if (inferred != nullptr) {
    const std::optional<Dim> rest = known == Dim::constant(0) ? std::nullopt : exact_quotient(have, known);
    if (!rest) {
      return bad_attr(
          fmt::format("cannot reshape {} to {}", types::to_string(operand.shape), wanted),
          fmt::format("{} has {} elements, which {} does not divide", names(0), have.to_string(), known.to_string()),
          "choose sizes whose product divides the number of elements");
    }
    if (rest->as_constant().value_or(0) < 0) {
      return bad_attr(fmt::format("reshape to {} has the negative size {}", wanted, rest->to_string()),
                      type_note(names, operand), "sizes are 0 or more, -1 infers one: write what they are");
    }
    *inferred = *rest;
  } else if (!(known == have)) {
    return bad_attr(fmt::format("cannot reshape {} to {}", types::to_string(operand.shape), wanted),
                    fmt::format("{} has {} elements, the new shape {}", names(0), have.to_string(), known.to_string()),
                    "keep the number of elements; one size may be -1");
  }
  out = attr.shape;
  return std::nullopt;
}

MaybeComplaint split_shape(const TensorType& operand, SplitAttr& attr, const OperandNames& names,
                           std::vector<Dim>& out) {
  const std::optional<int32_t> dim = normalized_dim(attr.dim, operand.shape.size());
  if (!dim) return no_such_dim("split", attr.dim, operand, names, Code::layout_mismatch);
  if (attr.ways < 1 || attr.part < 0 || attr.part >= attr.ways) {
    return bad_attr(fmt::format("part {} of a split in {}", attr.part, attr.ways), type_note(names, operand),
                    "split in at least one part");
  }
  attr.dim = *dim;
  const Dim size = operand.shape[static_cast<size_t>(*dim)];
  const Dim ways = Dim::constant(attr.ways);
  const std::optional<int64_t> constant = size.as_constant();
  if (constant && *constant % attr.ways != 0) {
    const auto padded = base::checked_round_up(*constant, attr.ways);
    return bad_attr(
        fmt::format("cannot split {} {} in {} equal parts", *constant,
                    dim_noun(operand.shape.size(), operand.shape.size() - 1 - static_cast<size_t>(*dim)), attr.ways),
        fmt::format("{}; {} is not divisible by {}", type_note(names, operand), *constant, attr.ways),
        padded ? fmt::format("pad to {}, or split in another number of parts", *padded)
               : std::string("split in another number of parts"));
  }
  out = operand.shape;
  out[static_cast<size_t>(*dim)] = floordiv(size, ways);
  return std::nullopt;
}

MaybeComplaint join_shape(std::span<const OperandFacts> operands, JoinAttr& attr, const OperandNames& names,
                          std::vector<Dim>& out) {
  const TensorType& first = *operands[0].type;
  const std::optional<int32_t> dim = normalized_dim(attr.dim, first.shape.size());
  if (!dim) return no_such_dim("join", attr.dim, first, names, Code::layout_mismatch);
  attr.dim = *dim;
  const auto along = static_cast<size_t>(*dim);
  out = first.shape;
  for (size_t i = 1; i < operands.size(); ++i) {
    const std::vector<Dim>& shape = operands[i].type->shape;
    bool fits = shape.size() == out.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = (d == along && !attr.interleave) || shape[d] == first.shape[d];
    if (!fits) {
      return bad_attr(fmt::format("cannot join {} with {}", types::to_string(first.shape), types::to_string(shape)),
                      fmt::format("{}, {}", type_note(names, first), type_note(names, *operands[i].type, i)),
                      attr.interleave ? "interleaved parts have equal shapes"
                                      : fmt::format("parts have equal sizes in all dims but dim {}", *dim),
                      static_cast<int>(i));
    }
    out[along] = out[along] + shape[along];
  }
  const auto computed = [&](const OperandFacts& part) { return !part.type->shape[along].is_constant(); };
  if (is_one(out[along]) && std::any_of(operands.begin(), operands.end(), computed)) {
    return Complaint{Code::size_value, fmt::format("a run computes which part of dim {} has its one element", *dim),
                     fmt::format("{} and the others make up 1", type_note(names, first)),
                     "choose it with where, as in where(k > 0, x, 0.0)", 0};
  }
  return std::nullopt;
}

MaybeComplaint matmul_shape(std::span<const OperandFacts> operands, const OperandNames& names, std::vector<Dim>& out) {
  for (size_t i = 0; i < 2; ++i) {
    if (operands[i].type->shape.size() >= 2) continue;
    return Complaint{
        Code::matmul_shape,
        fmt::format("{} has {}; a matrix product needs two", names(i), count_dims(operands[i].type->shape.size())),
        type_note(names, *operands[i].type, i),
        i == 0 ? "reshape a row vector to [1, k]" : "reshape a column vector to [k, 1]", static_cast<int>(i)};
  }
  const std::vector<Dim>& a = operands[0].type->shape;
  const std::vector<Dim>& b = operands[1].type->shape;
  const Dim &inner_a = a[a.size() - 1], &inner_b = b[b.size() - 2];
  if (!(inner_a == inner_b)) {
    return Complaint{Code::matmul_shape,
                     fmt::format("{} has {} columns but {} has {} rows", names(0), inner_a.to_string(), names(1),
                                 inner_b.to_string()),
                     fmt::format("{} @ {}: the inner sizes must be equal", to_string(*operands[0].type),
                                 to_string(*operands[1].type)),
                     "transpose one side with permute, or use equal sizes", 1};
  }
  const size_t rank = std::max(a.size(), b.size());
  out.assign(rank, Dim::constant(1));
  for (size_t from_end = 2; from_end < rank; ++from_end) {
    const Dim one = Dim::constant(1);
    const Dim& x = from_end < a.size() ? a[a.size() - 1 - from_end] : one;
    const Dim& y = from_end < b.size() ? b[b.size() - 1 - from_end] : one;
    if (!(x == y) && !is_one(x) && !is_one(y)) {
      return Complaint{
          Code::matmul_shape,
          fmt::format("{} has {} batch items but {} has {}", names(0), x.to_string(), names(1), y.to_string()),
          fmt::format("{} @ {}: batch sizes must be equal or 1", to_string(*operands[0].type),
                      to_string(*operands[1].type)),
          "use equal batch sizes, or 1 to share one matrix", 1};
    }
    out[rank - 1 - from_end] = is_one(x) ? y : x;
  }
  out[rank - 2] = a[a.size() - 2];
  out[rank - 1] = b[b.size() - 1];
  return std::nullopt;
}

}  // namespace codetta::ir
