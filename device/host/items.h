// SPDX-License-Identifier: Apache-2.0
// Where the items of a factor lie: two strides at most. Heads of [b, s, h, d] seen as [b, h, s, d] have one, and a
// batch of those another; items that share a matrix have 0. For engines, kernels' launches and emitted host text alike.
// Strides are in elements. No standard C++ headers.
#pragma once

namespace codetta::items {

// Item i begins i * stride + i / inner * skip elements behind the first; inner 0: one stride for all, skip is 0.
struct Items {
  long long stride = 0, skip = 0, inner = 0;
};

inline long long place(long long item, long long stride, long long skip, long long inner) {
  return item * stride + (inner == 0 ? 0 : item / inner * skip);
}

// Of leading dims, the outermost first, seen as one; false where that takes more strides.
template <class Size, class Stride>
bool find(const Size* size, const Stride* stride, int dims, Items& items) {
  items = Items();
  long long outer = 0, count = 1, inner = 0;  // items inside of the current dim, and of the first stride
  for (int dim = dims - 1; dim >= 0; --dim) {
    const long long step = stride[dim], now = size[dim];
    if (now == 1) continue;
    if (count == 1) {
      items.stride = step;
    } else if (inner == 0 && step != items.stride * count) {
      inner = count;
      outer = step;
    } else if (inner != 0 && step != outer * (count / inner)) {
      return false;
    }
    count *= now;
  }
  items.inner = inner;
  if (inner != 0) items.skip = outer - items.stride * inner;
  return true;
}

// How far elements of dim `last` lie apart, 0 where there is one; of `count` elements, where it has fewer, those of it
// and of the dims around it, seen as one: false where that takes several strides.
template <class Size, class Stride>
bool as_one(const Size* size, const Stride* stride, int last, long long count, long long& step) {
  long long inner = 1;  // elements inside of the current dim
  step = 0;
  for (int dim = last; dim >= 0; --dim) {
    if (size[dim] == 0) return true;
    if (inner == 1 && size[dim] != 1) step = stride[dim];
    if (size[dim] != 1 && stride[dim] != step * inner) return false;
    inner *= size[dim];
    if (inner >= count) return true;
  }
  return true;
}

// Factors of one product count alike: what has one stride does so by any number.
inline bool agree(long long& inner, const Items& items) {
  if (items.inner == 0 || inner == items.inner) return true;
  if (inner != 0) return false;
  inner = items.inner;
  return true;
}

}  // namespace codetta::items
