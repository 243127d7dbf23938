// SPDX-License-Identifier: Apache-2.0
// Matrix products: sums of exact products, and how far a kernel's accumulation may be from them:
//   gamma(r K + extra) sum |a| |b|, r roundings for each product (types/targets.def); 0 where nothing can round
//   (exactness.hpp).
#pragma once

#include "oracle/evaluator_elementwise.hpp"
#include "oracle/factor.hpp"

namespace codetta::oracle {

// The stored matrices that an item of the result multiplies.
struct BatchItem {
  size_t a = 0, b = 0;
};
inline std::vector<BatchItem> batch_items(const Sizes& a, const Sizes& b, const Sizes& out) {
  const auto head = [](const Sizes& s) { return Sizes(s.begin(), s.end() - 2); };
  std::vector<BatchItem> items;
  for_each_broadcast<2>(head(out), {head(a), head(b)}, [&](size_t, const auto& at) {
    items.push_back({at[0], at[1]});
  });
  return items;
}
inline size_t stored_items(const Sizes& operand) {
  size_t items = 1;
  for (size_t d = 0; d + 2 < operand.size(); ++d) items *= static_cast<size_t>(operand[d]);
  return items;
}

template <class T>
bool all_points(const Block<T>& block) {  // a product with NaN is certain, too
  return std::all_of(block.reals.begin(), block.reals.end(),
                     [](const Real<T>& x) { return x.lo == x.hi || x.is_nan(); });
}

template <class T>
template <class Visit>
void Evaluator<T>::for_each_slice(ir::NodeId a, ir::NodeId b, int64_t step, Visit&& visit) {
  const int64_t k = blocks_[a.index()].axes.locals().back();
  Block<T> room_a, room_b;
  int64_t from = 0;
  do {
    const int64_t to = std::min(k, from + step);
    const auto slice = [&](ir::NodeId id, size_t from_end, Block<T>& room) -> Slice<T> {
      const Block<T>& block = blocks_[id.index()];
      const auto first = static_cast<size_t>(from), count = static_cast<size_t>(to - from);
      if (!in_parts_[id.index()]) return {&block, first, count, static_cast<size_t>(k)};
      load_part(id, block.axes.rank() - from_end, from, to, room);
      return {&room, 0, count, count};
    };
    const Slice<T> of_a = slice(a, 1, room_a), of_b = slice(b, 2, room_b);
    visit(of_a, of_b);
    from = to;
  } while (from < k);
}

template <class T>
void Evaluator<T>::matmul_real(ir::NodeId of_a, ir::NodeId of_b, int64_t step, Block<T>& out) {
  const Block<T>&a = blocks_[of_a.index()], &b = blocks_[of_b.index()];
  const Sizes sa = a.axes.locals(), sb = b.axes.locals(), so = out.axes.locals();
  const auto m = static_cast<size_t>(so[so.size() - 2]), n = static_cast<size_t>(so.back()),
             k = static_cast<size_t>(sa.back());
  const DType d = out.dtype;
  // The operand with more bits decides which instruction multiplies.
  const DType operand = types::bits(a.dtype) >= types::bits(b.dtype) ? a.dtype : b.dtype;
  const DType deciding = d == DType::f64 ? DType::f64 : a.dtype == b.dtype ? operand : DType::f32;
  const types::AccumulationModel model = problem_.options.accumulation && d != DType::f64
                                             ? *problem_.options.accumulation
                                             : types::accumulation_model(problem_.options.isa, deciding);
  const T roundings = T(model.roundings) * T(k) + T(model.extra_roundings) + 1;
  const auto whole_run = static_cast<size_t>(problem_.options.product_run);
  const size_t run = whole_run == 0 ? k : std::min(k, whole_run);
  const bool both_fp8 = types::is_fp8(a.dtype) && types::is_fp8(b.dtype);
  const T coarse = d == DType::f32 && both_fp8 ? T(problem_.options.product_rounding) * T(run) : T(0);
  const T relative = gamma<T>(roundings, T(types::unit_roundoff(d))) + coarse;
  const T own = gamma<T>(T(k) + 2, unit_of<T>);
  const bool rounds = d == DType::f32 && a.dtype == DType::f32 && problem_.options.factor_rounding > 0;
  const T off = rounds ? T(problem_.options.factor_rounding) : T(0), rounded = off * (2 + off);
  const T absolute = T(k) * T(types::min_subnormal(d));
  // A rounded factor has bits down to 2^-136 (TF32's least), or none below f32's normal numbers; so has what a second
  // one makes up for.
  const T flush = std::max(T(model.flush_below), rounds ? T(0x1p-126) : T(0));

  // What is read in parts is as the input has it.
  Factor<T> fa({true, stored_items(sa), m}, in_parts_[of_a.index()] || all_points(a), flush);
  Factor<T> fb({false, stored_items(sb), n}, in_parts_[of_b.index()] || all_points(b), flush);
  const bool points = fa.points && fb.points;
  const std::vector<BatchItem> items = batch_items(sa, sb, so);
  Sums<T> sums;
  // An item of the result, from its sums at `from`.
  const auto finish = [&](size_t item, size_t from) {
    for (size_t i = 0; i < m && goes_on(static_cast<int64_t>(n)); ++i) {
      for (size_t j = 0; j < n; ++j) {
        const size_t line_a = items[item].a * m + i, line_b = items[item].b * n + j, at = from + i * n + j;
        const T c = sums.sum[at], s = sums.most[at];
        Real<T>& r = out.reals[(item * m + i) * n + j];
        const unsigned flags = k == 0 ? 0u : unsigned{fa.flags[line_a]} | fb.flags[line_b];
        if ((fa.nan[line_a] | fb.nan[line_b]) != 0) {  // whatever the other factor is
          r = Real<T>::point(std::numeric_limits<T>::quiet_NaN());
          continue;
        }
        if (!std::isfinite(s) || !std::isfinite(c)) {
          r = points && (c != c || std::isinf(c)) ? Real<T>::point(c) : Real<T>::anything(flags & ambiguous);
          // A partial sum may overflow against an infinity that follows.
          if (sums.within.empty() || sums.within[at] > T(types::max_finite(d))) r.flags |= may_be_nan;
          if (flush > 0 && (fa.tiny[line_a] | fb.tiny[line_b]) != 0) r.flags |= may_be_nan;  // 0 * inf, if flushed
          continue;
        }
        const int lowest = k == 0 ? 0 : fa.lowest[line_a] + fb.lowest[line_b];
        const bool normal = flush == 0 || lowest >= -126;
        // Sums that keep fewer bits than f32 are exact only where those hold every term.
        const bool kept = coarse == 0 || s * T(problem_.options.product_rounding) <= std::ldexp(T(1), lowest);
        if (points && normal && !rounds && kept && exact_sum(s, lowest, d)) {
          r = {c, c, static_cast<uint8_t>(flags)};
          continue;
        }
        // A partial sum may overflow; of more roundings than a bound can be of, nothing is known.
        if (!(s * (1 + rounded) * (1 + relative) <= T(types::max_finite(d)))) {
          r = Real<T>::anything(flags);
          continue;
        }
        T error = s * (relative + 2 * own + rounded * (1 + relative)) + absolute;
        if (!points) error += std::max(T(0), s - sums.plain[at]) * (1 + 4 * unit_of<T>);
        if (flush > 0) error += flush * (2 * T(k) + fa.size[line_a] + fb.size[line_b]);
        r = {nearest(c - error, d), nearest(c + error, d), static_cast<uint8_t>(flags)};
      }
    }
  };
  // Of slices, the sums of all items are kept.
  const bool whole = step >= static_cast<int64_t>(k);
  if (!whole) sums.clear(items.size() * m * n, points);
  for_each_slice(of_a, of_b, step, [&](const Slice<T>& slice_a, const Slice<T>& slice_b) {
    fa.take(slice_a);
    fb.take(slice_b);
    if (!points) fa.keep_magnitudes(), fb.keep_magnitudes();
    for (size_t item = 0; item < items.size(); ++item) {
      if (whole) sums.clear(m * n, points);
      if (!sums.add(fa, items[item].a, fb, items[item].b, slice_a.count, whole ? 0 : item * m * n, *problem_.pulse))
        return;  // run() tells
      if (whole) finish(item, 0);
    }
  });
  for (size_t item = 0; item < items.size() && !whole; ++item) finish(item, item * m * n);
}

template <class T>
void Evaluator<T>::matmul_int(ir::NodeId of_a, ir::NodeId of_b, int64_t step, Block<T>& out) {
  const Sizes sa = blocks_[of_a.index()].axes.locals(), sb = blocks_[of_b.index()].axes.locals(),
              so = out.axes.locals();
  const auto m = static_cast<size_t>(so[so.size() - 2]), n = static_cast<size_t>(so.back());
  const Lines rows{true, stored_items(sa), m}, columns{false, stored_items(sb), n};
  const std::vector<BatchItem> items = batch_items(sa, sb, so);
  std::vector<uint64_t> row(n);
  std::vector<uint8_t> vague(n);
  std::fill(out.ints.begin(), out.ints.end(), Int::point(0));
  for_each_slice(of_a, of_b, step, [&](const Slice<T>& a, const Slice<T>& b) {
    for (size_t item = 0; item < items.size(); ++item) {
      for (size_t i = 0; i < m; ++i) {
        if (!problem_.pulse->beats(static_cast<int64_t>(n * a.count))) return;  // run() tells
        std::fill(row.begin(), row.end(), 0);
        std::fill(vague.begin(), vague.end(), uint8_t{0});
        for (size_t p = 0; p < a.count; ++p) {
          const Int& x = a.block->ints[rows.at(a, items[item].a, i, p)];
          const Int* y = &b.block->ints[columns.at(b, items[item].b, 0, p)];
          for (size_t j = 0; j < n; ++j) {
            row[j] += static_cast<uint64_t>(x.lo) * static_cast<uint64_t>(y[j].lo);
            vague[j] |= static_cast<uint8_t>((x.lo != x.hi) | (y[j].lo != y[j].hi));
          }
        }
        Int* to = &out.ints[(item * m + i) * n];
        for (size_t j = 0; j < n; ++j) {
          to[j].lo = static_cast<int64_t>(static_cast<uint64_t>(to[j].lo) + row[j]);
          to[j].flags |= vague[j];  // until all slices are there
        }
      }
    }
  });
  for (Int& x : out.ints)
    x = x.flags != 0 ? any_int(out.dtype, 0) : Int::point(wrapped(static_cast<uint64_t>(x.lo), out.dtype));
}

template <class T>
void Evaluator<T>::load_part(ir::NodeId id, size_t dim, int64_t from, int64_t to, Block<T>& part) {
  part.dtype = graph_.type(id).dtype;
  part.axes = blocks_[id.index()].axes;
  std::vector<int64_t> picked;
  for (int64_t i = from; i < to; ++i) picked.push_back(part.axes.global(dim, i));
  part.axes.picks[dim] = std::make_shared<const std::vector<int64_t>>(std::move(picked));
  const auto count = static_cast<size_t>(part.axes.count());
  if (part.real()) {
    part.reals.resize(count);
  } else {
    part.ints.resize(count);
  }
  load(id, part);
}

// As many steps along K at a time as are held, where an operand is read in parts: each is read once, and no part of an
// operand has more than part_elements elements, or, where K is 1 of many lines, than the result.
template <class T>
void Evaluator<T>::matmul(ir::NodeId id, Block<T>& out) {
  const ir::NodeId a = graph_.operands(id)[0], b = graph_.operands(id)[1];
  if (out.axes.count() == 0) return;
  const int64_t k = blocks_[a.index()].axes.locals().back();
  int64_t step = std::max<int64_t>(1, k);
  for (const ir::NodeId operand : {a, b}) {
    if (!in_parts_[operand.index()]) continue;
    const int64_t lines = blocks_[operand.index()].axes.count() / k;
    step = std::min(step, std::max<int64_t>(1, part_elements / lines));
  }
  if (out.real()) {
    matmul_real(a, b, step, out);
  } else {
    matmul_int(a, b, step, out);
  }
}

}  // namespace codetta::oracle
