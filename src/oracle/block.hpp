// SPDX-License-Identifier: Apache-2.0
// The values of one node over the part of its index space that is evaluated: row-major cells, and along sampled dims
// the list of indices that are there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "oracle/cell.hpp"

namespace codetta::oracle {

using Sizes = std::vector<int64_t>;
// Null: all indices 0..size-1.
using IndexList = std::shared_ptr<const std::vector<int64_t>>;

struct Axes {
  Sizes full;                    // sizes of the whole value
  std::vector<IndexList> picks;  // by dim
  [[nodiscard]] size_t rank() const { return full.size(); }
  [[nodiscard]] int64_t local(size_t dim) const {
    return picks[dim] ? static_cast<int64_t>(picks[dim]->size()) : full[dim];
  }
  [[nodiscard]] int64_t global(size_t dim, int64_t i) const {
    return picks[dim] ? (*picks[dim])[static_cast<size_t>(i)] : i;
  }
  [[nodiscard]] int64_t count() const {
    int64_t n = 1;
    for (size_t i = 0; i < rank(); ++i) n *= local(i);
    return n;
  }
  [[nodiscard]] Sizes locals() const {
    Sizes sizes;
    for (size_t i = 0; i < rank(); ++i) sizes.push_back(local(i));
    return sizes;
  }
};

template <class T>
struct Block {
  DType dtype = DType::f32;
  Axes axes;
  std::vector<Real<T>> reals;  // of floats
  std::vector<Int> ints;       // of integers and bool
  bool given = false;          // a function's result as it is, where those are what a run left
  [[nodiscard]] bool real() const { return types::is_float(dtype); }
};

// Visits every element of a row-major space in order, one row of the last dim at a time: visit(position, coordinates of
// the row).
template <class Visit>
void for_each_row(const Sizes& sizes, Visit&& visit) {
  int64_t total = 1;
  for (const int64_t s : sizes) total *= s;
  if (total == 0) return;
  const int64_t inner = sizes.empty() ? 1 : sizes.back();
  std::vector<int64_t> at(sizes.size(), 0);
  for (int64_t position = 0; position < total; position += inner) {
    visit(position, at);
    for (size_t d = sizes.size() < 2 ? 0 : sizes.size() - 1; d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

// Row-major strides; 0 along dims of size 1, so that they broadcast. `rank` >= sizes.size(): dims are aligned at the
// right.
inline Sizes broadcast_strides(const Sizes& sizes, size_t rank) {
  Sizes strides(rank, 0);
  int64_t step = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t from = sizes.size() - 1 - i;
    if (sizes[from] != 1) strides[rank - 1 - i] = step;
    step *= sizes[from];
  }
  return strides;
}

}  // namespace codetta::oracle
