// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/phases.hpp"
#include "runtime/cpu/units.hpp"

namespace codetta::runtime::cpu {
namespace {

// Where the partials of one result lie: `count` of them, `stride` apart.
struct Series {
  int64_t first, stride, count;
};
Series series_of(const Reduction& r, const ReductionGrid& g, int64_t i) {
  switch (r.axis) {
    case ReductionAxis::Row:
      return {i / g.rows * g.tile_cols * g.rows + i % g.rows, g.rows, g.tile_cols};
    case ReductionAxis::Column:
      return {i / g.cols * g.tile_rows * g.cols + i % g.cols, g.cols, g.tile_rows};
    case ReductionAxis::Item:
      return {i * g.tile_rows * g.tile_cols, 1, g.tile_rows * g.tile_cols};
    case ReductionAxis::All:
      break;
  }
  return {0, 1, g.batches * g.tile_rows * g.tile_cols};
}

int64_t reduced_elements(const Reduction& r, const ReductionGrid& g) {
  if (r.of_nothing) return 0;
  switch (r.axis) {
    case ReductionAxis::Row:
      return g.cols * r.parts;
    case ReductionAxis::Column:
      return g.rows * r.parts;
    case ReductionAxis::Item:
      return g.rows * g.cols * r.parts;
    case ReductionAxis::All:
      break;
  }
  return g.batches * g.rows * g.cols * r.parts;
}

template <class T>
T sum(const T* p, const Series& s, bool mean, int64_t elements) {
  if constexpr (std::is_floating_point_v<T>) {
    double total = 0;
    for (int64_t i = 0; i < s.count; ++i) total += static_cast<double>(p[s.first + i * s.stride]);
    return static_cast<T>(mean ? total / static_cast<double>(elements) : total);
  } else {
    uint64_t total = 0;
    for (int64_t i = 0; i < s.count; ++i) total += static_cast<uint64_t>(p[s.first + i * s.stride]);
    const T wrapped = static_cast<T>(total);
    if (!mean) return wrapped;
    return elements == 0 ? T{0} : static_cast<T>(static_cast<double>(wrapped) / static_cast<double>(elements));
  }
}

template <class T>
T extreme(const T* p, const Series& s, bool max) {
  T best = max ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  if constexpr (std::is_floating_point_v<T>) {
    best = max ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  }
  for (int64_t i = 0; i < s.count; ++i) {
    const T v = p[s.first + i * s.stride];
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(best)) break;
      if (std::isnan(v)) {
        best = v;
        break;
      }
    }
    if (max ? v > best : v < best) best = v;
  }
  return best;
}

// The largest value and the sum of exp(x - largest); where the largest is infinite, the number of values that equal it.
struct ExponentSum {
  double max, sum;
};
template <class T>
ExponentSum exponent_sum(const T* p, const Series& s) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < s.count; ++i) {
    const T* pair = p + 2 * (s.first + i * s.stride);
    const double v = static_cast<double>(pair[0]);
    if (std::isnan(v) || std::isnan(pair[1])) return {nan, nan};
    if (v > max) max = v;
  }
  double total = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    const T* pair = p + 2 * (s.first + i * s.stride);
    const double m = static_cast<double>(pair[0]);
    total += m == max ? static_cast<double>(pair[1]) : static_cast<double>(pair[1]) * std::exp(m - max);
  }
  return {max, total};
}

template <class T>
T log_sum_exp(const T* p, const Series& s) {
  const auto [max, sum] = exponent_sum(p, s);
  return static_cast<T>(std::isinf(max) ? max : max + std::log(sum));  // all -inf (or no elements), or a +inf
}

// Of an infinite largest value exp(x - largest) is NaN at x itself; of no elements the sum is 0.
template <class T>
T sum_exp(const T* p, const Series& s) {
  const auto [max, sum] = exponent_sum(p, s);
  return static_cast<T>(std::isinf(max) && sum != 0 ? std::numeric_limits<double>::quiet_NaN() : sum);
}

template <class T>
void finish(const Reduction& r, const ReductionGrid& g, const void* partials, void* results, int64_t begin,
            int64_t end) {
  const T* p = static_cast<const T*>(partials);
  T* out = static_cast<T*>(results);
  for (int64_t i = begin; i < end; ++i) {
    Series s = series_of(r, g, i);
    if (r.of_nothing) s.count = 0;
    switch (r.kind) {
      case ReductionKind::Sum:
        out[i] = sum(p, s, r.mean, reduced_elements(r, g));
        break;
      case ReductionKind::Max:
      case ReductionKind::Min:
        out[i] = extreme(p, s, r.kind == ReductionKind::Max);
        break;
      case ReductionKind::LogSumExp:
        if constexpr (std::is_floating_point_v<T>) out[i] = log_sum_exp(p, s);
        break;
      case ReductionKind::SumExp:
        if constexpr (std::is_floating_point_v<T>) out[i] = sum_exp(p, s);
        break;
    }
  }
}

}  // namespace

int64_t partial_count(const Reduction& r, const ReductionGrid& g) {
  const int64_t width = r.kind == ReductionKind::LogSumExp || r.kind == ReductionKind::SumExp ? 2 : 1;
  switch (r.axis) {
    case ReductionAxis::Row:
      return times(g.batches, g.tile_cols, g.rows, width);
    case ReductionAxis::Column:
      return times(g.batches, g.tile_rows, g.cols, width);
    case ReductionAxis::Item:
    case ReductionAxis::All:
      break;
  }
  return times(g.batches, g.tile_rows, g.tile_cols, width);
}

int64_t result_count(const Reduction& r, const ReductionGrid& g) {
  switch (r.axis) {
    case ReductionAxis::Row:
      return times(g.batches, g.rows);
    case ReductionAxis::Column:
      return times(g.batches, g.cols);
    case ReductionAxis::Item:
      return g.batches;
    case ReductionAxis::All:
      break;
  }
  return 1;
}

void finish_reduction(const Reduction& r, const ReductionGrid& g, const void* partials, void* results, int64_t begin,
                      int64_t end) {
  switch (r.dtype) {
    case DType::f64:
      return finish<double>(r, g, partials, results, begin, end);
    case DType::i8:
      return finish<int8_t>(r, g, partials, results, begin, end);
    case DType::i16:
      return finish<int16_t>(r, g, partials, results, begin, end);
    case DType::i32:
      return finish<int32_t>(r, g, partials, results, begin, end);
    case DType::i64:
      return finish<int64_t>(r, g, partials, results, begin, end);
    case DType::boolean:
    case DType::u8:
      return finish<uint8_t>(r, g, partials, results, begin, end);
    case DType::u16:
      return finish<uint16_t>(r, g, partials, results, begin, end);
    case DType::u32:
      return finish<uint32_t>(r, g, partials, results, begin, end);
    case DType::u64:
      return finish<uint64_t>(r, g, partials, results, begin, end);
    default:
      return finish<float>(r, g, partials, results, begin, end);
  }
}

void RunningReductions::finish_rows(int first, int last, int64_t batch, int64_t row, int64_t end) const {
  for (size_t j = 0; j < list_.size(); ++j) {
    const Reduction& r = list_[j];
    if (r.axis != ReductionAxis::Row || r.phase < first || r.phase >= last) continue;
    finish_reduction(r, grid_, partials_[j], results_[j], batch * grid_.rows + row, batch * grid_.rows + end);
  }
}

void RunningReductions::rows_finished(int first, int last) {
  for (size_t j = 0; j < list_.size(); ++j)
    finished_[j] |= list_[j].axis == ReductionAxis::Row && list_[j].phase >= first && list_[j].phase < last;
}

void RunningReductions::finish_before(int phase, ThreadPool* pool, int threads) {
  for (size_t j = 0; j < list_.size(); ++j) {
    const Reduction& r = list_[j];
    if (finished_[j] || r.phase >= phase) continue;
    finished_[j] = true;
    constexpr int64_t block = 1024;
    const int64_t count = result_count(r, grid_);
    for_units(pool, threads, (count + block - 1) / block, [&](int64_t u, int) {
      finish_reduction(r, grid_, partials_[j], results_[j], u * block, std::min(count, (u + 1) * block));
    });
  }
}

}  // namespace codetta::runtime::cpu
