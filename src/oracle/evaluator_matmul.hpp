// SPDX-License-Identifier: Apache-2.0
// Matrix products: sums of exact products, and how far a kernel's accumulation may be from them:
//   gamma(r K + extra) sum |a| |b|, r roundings for each product (types/targets.def); 0 where nothing can round
//   (exactness.hpp).
#pragma once

#include "oracle/evaluator_elementwise.hpp"
#include "oracle/exactness.hpp"

namespace codetta::oracle {

// Offsets of the matrices that batch item `item` of the result multiplies.
struct BatchItem {
  size_t a = 0, b = 0;
};
inline std::vector<BatchItem> batch_items(const Sizes& a, const Sizes& b, const Sizes& out) {
  const auto head = [](const Sizes& s) { return Sizes(s.begin(), s.end() - 2); };
  const Sizes batch = head(out);
  std::vector<BatchItem> items;
  for_each_broadcast<2>(batch, {head(a), head(b)}, [&](size_t, const auto& at) { items.push_back({at[0], at[1]}); });
  const auto a_size = static_cast<size_t>(a[a.size() - 2] * a.back()),
             b_size = static_cast<size_t>(b[b.size() - 2] * b.back());
  for (BatchItem& item : items) item.a *= a_size, item.b *= b_size;
  return items;
}

// One operand as the loops want it.
template <class T>
struct Factor {
  std::vector<T> middle, most;  // most: |middle| + radius
  std::vector<uint8_t> flags;   // OR by row of A or column of B, per item of the stored batch
  std::vector<int> lowest;      // lowest bit, likewise
  bool points = true, finite = true, flagged = false;
};

// `lines`: rows of A, columns of B. `stride`: of one step along k; `line_stride`: from line to line.
template <class T>
Factor<T> make_factor(const Block<T>& block, size_t lines, size_t k, size_t line_stride, size_t stride) {
  Factor<T> f;
  const size_t n = block.reals.size();
  f.middle.resize(n);
  f.most.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Real<T>& x = block.reals[i];
    f.middle[i] = x.middle();
    f.most[i] = std::abs(f.middle[i]) + x.radius() * (1 + 4 * unit_of<T>);
    f.points = f.points && (x.lo == x.hi || x.is_nan());  // a product with NaN is certain, too
    f.finite = f.finite && std::isfinite(x.lo) && std::isfinite(x.hi);
    f.flagged = f.flagged || x.flags != 0;
  }
  const size_t per_item = lines * k, items = per_item == 0 ? 0 : n / per_item;
  for (size_t item = 0; item < items; ++item) {
    for (size_t line = 0; line < lines; ++line) {
      Quantum quantum;
      uint8_t flags = 0;
      for (size_t i = 0; i < k; ++i) {
        const Real<T>& x = block.reals[item * per_item + line * line_stride + i * stride];
        if (f.points) quantum.take(x.lo);
        flags |= x.flags;
      }
      f.lowest.push_back(quantum.lowest);
      f.flags.push_back(flags);
    }
  }
  return f;
}

// Without infinities and NaN: c, sum |a||b| with radii, and without (when they differ).
template <class T>
void multiply(const T* a, const T* b, T* c, size_t m, size_t n, size_t k) {
  constexpr size_t block = 64;
  for (size_t k0 = 0; k0 < k; k0 += block) {
    const size_t k1 = std::min(k, k0 + block);
    for (size_t i = 0; i < m; ++i) {
      T* row = c + i * n;
      for (size_t p = k0; p < k1; ++p) {
        const T x = a[i * k + p];
        const T* y = b + p * n;
        for (size_t j = 0; j < n; ++j) row[j] += x * y[j];
      }
    }
  }
}

template <class T>
void Evaluator<T>::matmul_real(const Block<T>& a, const Block<T>& b, Block<T>& out) {
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
  const Factor<T> fa = make_factor(a, m, k, k, 1), fb = make_factor(b, n, k, 1, n);
  const bool points = fa.points && fb.points;
  std::vector<T> abs_a(fa.middle.size()), abs_b(fb.middle.size());
  for (size_t i = 0; i < abs_a.size(); ++i) abs_a[i] = std::abs(fa.middle[i]);
  for (size_t i = 0; i < abs_b.size(); ++i) abs_b[i] = std::abs(fb.middle[i]);

  const T roundings = T(model.roundings) * T(k) + T(model.extra_roundings) + 1;
  const T coarse = d == DType::f32 ? T(problem_.options.product_rounding) * T(k) : T(0);
  const T relative = gamma<T>(roundings, T(types::unit_roundoff(d))) + coarse;
  const T own = gamma<T>(T(k) + 2, unit_of<T>);
  const bool rounds = d == DType::f32 && deciding == DType::f32 && problem_.options.factor_rounding > 0;
  const T off = rounds ? T(problem_.options.factor_rounding) : T(0), rounded = off * (2 + off);
  const T absolute = T(k) * T(types::min_subnormal(d));
  const T flush = T(model.flush_below);
  const std::vector<BatchItem> items = batch_items(sa, sb, so);
  std::vector<T> sum(m * n), most(m * n), plain(points ? 0 : m * n);
  for (size_t item = 0; item < items.size(); ++item) {
    const BatchItem at = items[item];
    std::fill(sum.begin(), sum.end(), T(0));
    std::fill(most.begin(), most.end(), T(0));
    multiply(fa.middle.data() + at.a, fb.middle.data() + at.b, sum.data(), m, n, k);
    multiply(fa.most.data() + at.a, fb.most.data() + at.b, most.data(), m, n, k);
    if (!points) {
      std::fill(plain.begin(), plain.end(), T(0));
      multiply(abs_a.data() + at.a, abs_b.data() + at.b, plain.data(), m, n, k);
    }
    const size_t line_a = k == 0 ? 0 : at.a / k, line_b = k == 0 ? 0 : at.b / k;
    std::vector<T> size_a(flush > 0 ? m : 0), size_b(flush > 0 ? n : 0);
    std::vector<uint8_t> tiny_a(size_a.size()), tiny_b(size_b.size());  // something is there that is flushed
    const auto is_tiny = [&](T x) { return uint8_t{x != 0 && std::abs(x) < flush}; };
    for (size_t i = 0; i < size_a.size(); ++i) {
      for (size_t p = 0; p < k; ++p)
        size_a[i] += fa.most[at.a + i * k + p], tiny_a[i] |= is_tiny(fa.most[at.a + i * k + p]);
    }
    for (size_t p = 0; p < k && flush > 0; ++p) {
      for (size_t j = 0; j < n; ++j)
        size_b[j] += fb.most[at.b + p * n + j], tiny_b[j] |= is_tiny(fb.most[at.b + p * n + j]);
    }
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const T c = sum[i * n + j], s = most[i * n + j];
        Real<T>& r = out.reals[(item * m + i) * n + j];
        const unsigned flags = k == 0 ? 0u : unsigned{fa.flags[line_a + i]} | fb.flags[line_b + j];
        if (!std::isfinite(s) || !std::isfinite(c)) {
          r = points && (c != c || std::isinf(c)) ? Real<T>::point(c) : Real<T>::anything(flags & ambiguous);
          // A partial sum may overflow against an infinity that follows.
          T finite = 0;
          for (size_t p = 0; p < k; ++p) {
            const T product = fa.most[at.a + i * k + p] * fb.most[at.b + p * n + j];
            if (std::isfinite(product)) finite += product;
          }
          if (finite > T(types::max_finite(d))) r.flags |= may_be_nan;
          if (flush > 0 && (tiny_a[i] | tiny_b[j]) != 0) r.flags |= may_be_nan;  // 0 * inf where it is flushed
          continue;
        }
        const int lowest = k == 0 ? 0 : fa.lowest[line_a + i] + fb.lowest[line_b + j];
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
        if (!points) error += std::max(T(0), s - plain[i * n + j]) * (1 + 4 * unit_of<T>);
        if (flush > 0) error += flush * (2 * T(k) + size_a[i] + size_b[j]);
        r = {nearest(c - error, d), nearest(c + error, d), static_cast<uint8_t>(flags)};
      }
    }
  }
}

template <class T>
void Evaluator<T>::matmul_int(const Block<T>& a, const Block<T>& b, Block<T>& out) {
  const Sizes sa = a.axes.locals(), sb = b.axes.locals(), so = out.axes.locals();
  const auto m = static_cast<size_t>(so[so.size() - 2]), n = static_cast<size_t>(so.back()),
             k = static_cast<size_t>(sa.back());
  const std::vector<BatchItem> items = batch_items(sa, sb, so);
  std::vector<uint64_t> row(n);
  std::vector<uint8_t> vague(n);
  for (size_t item = 0; item < items.size(); ++item) {
    for (size_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), 0);
      std::fill(vague.begin(), vague.end(), uint8_t{0});
      for (size_t p = 0; p < k; ++p) {
        const Int& x = a.ints[items[item].a + i * k + p];
        const Int* y = &b.ints[items[item].b + p * n];
        for (size_t j = 0; j < n; ++j) {
          row[j] += static_cast<uint64_t>(x.lo) * static_cast<uint64_t>(y[j].lo);
          vague[j] |= static_cast<uint8_t>((x.lo != x.hi) | (y[j].lo != y[j].hi));
        }
      }
      for (size_t j = 0; j < n; ++j) {
        out.ints[(item * m + i) * n + j] =
            vague[j] != 0 ? any_int(out.dtype, 0) : Int::point(wrapped(row[j], out.dtype));
      }
    }
  }
}

template <class T>
Block<T> Evaluator<T>::part_of(ir::NodeId id, size_t dim, int64_t from, int64_t to) {
  Block<T> part;
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
  load_input(id, part);
  return part;
}

// Rows of A and columns of B, as many at a time as are held, where an operand is read in parts.
template <class T>
void Evaluator<T>::matmul(ir::NodeId id, Block<T>& out) {
  const ir::NodeId of_a = graph_.operands(id)[0], of_b = graph_.operands(id)[1];
  const Block<T>&a = blocks_[of_a.index()], &b = blocks_[of_b.index()];
  if (out.axes.count() == 0) return;
  const bool parts_a = in_parts_[of_a.index()], parts_b = in_parts_[of_b.index()];
  if (!parts_a && !parts_b) return product(a, b, out);
  const size_t row = out.axes.rank() - 2, col = row + 1, row_of_a = a.axes.rank() - 2, col_of_b = b.axes.rank() - 1;
  const int64_t rows = out.axes.local(row), cols = out.axes.local(col);
  const auto at_once = [](bool parts, const Block<T>& block, int64_t lines) {
    return parts ? std::max<int64_t>(1, lines * part_elements / block.axes.count()) : lines;
  };
  const int64_t row_step = at_once(parts_a, a, rows), col_step = at_once(parts_b, b, cols);
  for (int64_t i = 0; i < rows; i += row_step) {
    const int64_t i_end = std::min(rows, i + row_step);
    const Block<T> a_part = parts_a ? part_of(of_a, row_of_a, i, i_end) : Block<T>();
    for (int64_t j = 0; j < cols; j += col_step) {
      const int64_t j_end = std::min(cols, j + col_step);
      const Block<T> b_part = parts_b ? part_of(of_b, col_of_b, j, j_end) : Block<T>();
      Block<T> piece;
      piece.dtype = out.dtype;
      piece.axes = out.axes;
      piece.axes.picks[row] = std::make_shared<const std::vector<int64_t>>(static_cast<size_t>(i_end - i));
      piece.axes.picks[col] = std::make_shared<const std::vector<int64_t>>(static_cast<size_t>(j_end - j));
      const auto count = static_cast<size_t>(piece.axes.count());
      if (out.real()) {
        piece.reals.resize(count);
      } else {
        piece.ints.resize(count);
      }
      product(parts_a ? a_part : a, parts_b ? b_part : b, piece);
      const int64_t items = out.axes.count() / (rows * cols);
      size_t from = 0;
      for (int64_t item = 0; item < items; ++item) {
        for (int64_t r = i; r < i_end; ++r) {
          for (int64_t c = j; c < j_end; ++c, ++from) {
            const auto to = static_cast<size_t>((item * rows + r) * cols + c);
            if (out.real()) {
              out.reals[to] = piece.reals[from];
            } else {
              out.ints[to] = piece.ints[from];
            }
          }
        }
      }
    }
  }
}

}  // namespace codetta::oracle
