// SPDX-License-Identifier: Apache-2.0
// Tensors that lie as callers' may: transposed, with elements or rows apart, backwards, off the beginning, one element
// for a whole dim; in memory of their own, in which nothing but their elements changes.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta::test {

// Of a view of elements of one byte or more: where each element lies, in bytes from the first, in row-major order.
inline std::vector<int64_t> places_of(const TensorView& view) {
  std::vector<int64_t> places(static_cast<size_t>(view.element_count()), 0);
  for (size_t i = 0; i < places.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (int d = view.rank(); d-- > 0;) {
      places[i] += rest % view.size(d) * view.stride(d) * dtype_size(view.dtype());
      rest /= view.size(d);
    }
  }
  return places;
}

// Element by element; both have the same form.
inline void copy_elements(const TensorView& from, const TensorView& to) {
  const std::vector<int64_t> read = places_of(from), written = places_of(to);
  for (size_t i = 0; i < read.size(); ++i)
    std::memcpy(static_cast<std::byte*>(to.data()) + written[i], static_cast<const std::byte*>(from.data()) + read[i],
                static_cast<size_t>(dtype_size(to.dtype())));
}

struct Laid {
  Tensor memory;  // one dim
  TensorView view{};

  // Whether bytes beside the view's elements are still what laid() made them.
  [[nodiscard]] bool gaps_untouched() const {
    Tensor fresh = Tensor::make(memory.view().dtype(), memory.view().shape()).value();
    fill_poison(fresh);
    const auto offset = static_cast<const std::byte*>(view.data()) - static_cast<const std::byte*>(memory.data());
    for (const int64_t place : places_of(view))
      std::memcpy(static_cast<std::byte*>(fresh.data()) + offset + place,
                  static_cast<const std::byte*>(view.data()) + place, static_cast<size_t>(dtype_size(view.dtype())));
    return std::memcmp(fresh.data(), memory.data(), memory.byte_size()) == 0;
  }
};

// Poisoned. `repeats`: a dim may have stride 0, which outputs can not have. `descends`: or one below 0, which outputs
// that are filled in part can not have.
inline Laid laid(DType dtype, const Dims& shape, std::mt19937_64& random, bool repeats, bool descends = true) {
  const auto pick = [&](uint64_t below) { return static_cast<int64_t>(random() % below); };
  const auto rank = static_cast<size_t>(shape.rank());
  std::vector<size_t> order(rank);  // of the dims, the one with the smallest stride first
  std::iota(order.rbegin(), order.rend(), size_t{0});
  if (pick(2) == 0) std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> strides(rank, 1);
  int64_t step = pick(3) == 0 ? 1 + pick(3) : 1, offset = pick(2) * pick(5);
  for (const size_t d : order) {
    strides[d] = step;
    step = step * std::max<int64_t>(shape[static_cast<int>(d)], 1) + pick(2) * pick(4);
  }
  for (size_t d = 0; d < rank; ++d) {
    if (pick(5) == 0 && descends && shape[static_cast<int>(d)] > 0) {
      offset += (shape[static_cast<int>(d)] - 1) * strides[d];
      strides[d] = -strides[d];
    } else if (repeats && pick(8) == 0) {
      strides[d] = 0;
    }
  }
  Laid made{Tensor::make(dtype, {step + offset + 8}).value()};
  fill_poison(made.memory);
  made.view =
      TensorView::make(static_cast<void*>(static_cast<std::byte*>(made.memory.data()) + offset * dtype_size(dtype)),
                       dtype, shape, Dims(std::span<const int64_t>(strides)))
          .value();
  return made;
}

// Programs whose maps and epilogues read and write tensors of the caller's in every way that kernels have, and sizes.
struct LayoutProgram {
  const char* text;
  std::vector<std::pair<std::string, int64_t>> sizes;
};
inline const std::vector<LayoutProgram>& layout_programs() {
  static const std::vector<LayoutProgram> programs{
      {"def f(x: f32[\"m\", \"n\"], r: f32[\"n\"]):\n    y = exp(x) + r\n    u = reshape(y, (\"m * n\",)) * 2.0\n"
       "    s = sum(y, dim=0)\n    return u, s\n",
       {{"m", 9}, {"n", 21}}},
      {"def f(x: f16[\"m\", \"k\"], w: f16[\"k\", \"n\"], r: f16[\"m\", \"n\"], g: f32[\"m\"]):\n"
       "    a = cast(relu(x) * reshape(g, (\"m\", 1)), \"f16\")\n    z = cast(a @ w + r, \"f16\")\n    return z\n",
       {{"m", 17}, {"n", 24}, {"k", 16}}},
      {"def f(x: f32[\"b\", \"m\", \"k\"], w: f32[\"k\", \"n\"]):\n    z = softmax(x @ w, dim=-1)\n"
       "    c = sum(z, dim=1)\n    return z, c\n",
       {{"b", 2}, {"m", 5}, {"k", 19}, {"n", 33}}},
      {"def f(x: f32[\"m\", \"k\"], w: f32[\"k\", \"n\"], s: f32[\"n\"]):\n    y = x @ (w * s)\n    return y\n",
       {{"m", 8}, {"n", 16}, {"k", 40}}},
      {"def f(x: bf16[\"m\", \"k\"], w: bf16[\"k\", \"n\"], v: bf16[\"k\", \"n\"]):\n"
       "    h = cast(silu(x @ w) * (x @ v), \"bf16\")\n    m = amax(h, dim=1)\n    return h, m\n",
       {{"m", 16}, {"n", 16}, {"k", 32}}},
      {"def f(x: i8[\"m\", \"k\"], w: i8[\"k\", \"n\"], s: f32[\"n\"]):\n"
       "    q = cast(cast(x @ w, \"f32\") * s, \"i8\")\n    t = transpose(q, 0, 1)\n    return t\n",
       {{"m", 7}, {"n", 16}, {"k", 12}}},
      {"def f(x: f64[\"m\", \"k\"], w: f64[\"k\", \"n\"]):\n    z = transpose(w, 0, 1) @ transpose(x, 0, 1)\n"
       "    return z\n",
       {{"m", 6}, {"n", 10}, {"k", 14}}},
      // Parts of a join that products store there.
      {"def f(x: f16[\"m\", \"k\"], w: f16[\"k\", \"n\"], v: f16[\"k\", 24]):\n"
       "    z = join(x @ w, relu(x @ v), dim=1)\n    return z\n",
       {{"m", 9}, {"n", 16}, {"k", 24}}},
      // Windows, whose rows are items with two strides, of an input and of a join that is an output; sums over items
      // and rows.
      {"def f(x: f32[\"b\", \"h\", \"w\", 8], k: f32[2, 8, 16]):\n"
       "    a = concat(ones(b, 1, w, 8), x, dim=1)\n"
       "    p = reshape(a[:, 1:, :w - 2], (b * h * (w - 2), 8)) @ k[0]\n"
       "    q = reshape(relu(p + reshape(a[:, :h, 2:], (b * h * (w - 2), 8)) @ k[1]), (b, h, w - 2, 16))\n"
       "    y = reshape(x[:, 1:, 1:], (b * (h - 1) * (w - 1), 8)) @ k[1]\n"
       "    s = sum(q, dim=(0, 1, 2))\n    t = mean(x, dim=(0, 1, 2))\n    return a, q, y, s, t\n",
       {{"b", 2}, {"h", 4}, {"w", 7}}},
      // What a step has made where an output lies is read again as if it had no gaps.
      {"def f(x: f32[\"m\", 12], i: i64[\"m\"], z: f32[\"m\", 12]):\n    y = index_put(x, i, 2.0 * z, dim=0)\n"
       "    u = exp(reshape(y, (3, \"4 * m\")))\n    t = sum(u, dim=0)\n    return y, u, t\n",
       {{"m", 5}}},
      // Rows that are put along another dim than the first, also in a loop.
      {"def more(k, y, i, v):\n    return k < 3\n"
       "def step(k, y, i, v):\n    return k + 1, index_put(y, i, v * 2.0, dim=1), i, v\n"
       "def f(x: f32[\"m\", 12, 3], i: i64[4], v: f32[\"m\", 4, 3]):\n    y = index_put(x, i, v, dim=1)\n"
       "    s = sum(y, dim=1)\n    k, z, j, u = while_loop(more, step, 0, exp(x), i, v)\n    return y, s, z\n",
       {{"m", 5}}},
      // A loop and a branch begin with what lies where an output does.
      {"def more(i, s):\n    return i < 3\ndef step(i, s):\n    return i + 1, s * 0.5\n"
       "def same(s):\n    return s\ndef twice(s):\n    return s * 2.0\n"
       "def f(x: f32[\"m\", 12], c: f32[1]):\n    y = relu(x) * 2.0\n"
       "    i, s = while_loop(more, step, 0, y)\n    z = cond(sum(c) > 0.0, same, twice, y)\n    return y, s, z\n",
       {{"m", 6}}},
      // Branches and loops read what is the caller's where it lies, and write outputs.
      {"def a(x, w, r):\n    y = relu(x @ w) + r\n    return cast(y, \"f16\"), sum(reshape(r, (4, \"4 * m\")), dim=1)\n"
       "def b(x, w, r):\n    return r, sum(transpose(reshape(x, (\"4 * m\", 4)), 0, 1), dim=1)\n"
       "def more(i, s, w):\n    return i < 3\n"
       "def step(i, s, w):\n    t = cond(sum(s) > 0.0, less, same, s)\n    return i + 1, cast(t @ w, \"f16\"), w\n"
       "def less(s):\n    return cast(s * 0.5, \"f16\")\ndef same(s):\n    return s\n"
       "def f(x: f16[\"m\", 16], w: f16[16, 16], r: f16[\"m\", 16], c: f32[1]):\n"
       "    z, t = cond(sum(c) > 0.0, a, b, x, w, r)\n    i, s, v = while_loop(more, step, 0, r, w)\n"
       "    return z, t, s\n",
       {{"m", 11}}},
      // Items of several symbolic dims are counted as those of one.
      {"def f(x: f32[\"b\", \"c\", 3, 8], w: f32[\"c\", 8, 4], v: f32[\"b\", \"c\", 4, 8], k: f32[8, 4]):\n"
       "    p = softmax(x @ w)\n    y = p @ v\n    z = x @ k\n    return p, y, z\n",
       {{"b", 2}, {"c", 5}}},
      // A kernel has three axes: more symbolic dims are merged, or copied.
      {"def f(x: f32[\"b\", \"h\", \"s\", \"d\"], v: f32[\"b\", \"h\", \"s\", \"d\"], w: f32[\"d\", \"t\"]):\n    y = "
       "permute(softmax(x), (0, 2, 1, 3))\n"
       "    z = v @ w\n    return y, z\n",
       {{"b", 2}, {"h", 3}, {"s", 5}, {"d", 4}, {"t", 6}}},
      // Heads, as rows of the caller's have them, and one that others share.
      {"def f(q: f32[\"b\", \"s\", 3, 8], k: f32[\"b\", \"t\", 24], v: f32[\"b\", 1, \"t\", 8]):\n"
       "    p = permute(q, (0, 2, 1, 3)) @ permute(reshape(k, (b, t, 3, 8)), (0, 2, 3, 1))\n"
       "    y = permute(softmax(p) @ v, (0, 2, 1, 3))\n    return p, y\n",
       {{"b", 2}, {"s", 5}, {"t", 7}}},
      // Rows and columns that are several dims of the caller's, of an output, and of parts put together.
      {"def f(x: f32[\"b\", \"s\", 3, 8], w: f32[24, 8], v: f32[2, 4, 8], k: f32[40, 8]):\n"
       "    y = reshape(x, (b * s, 24)) @ w\n    h = softmax(x)\n    z = relu(reshape(h, (b * s, 24)) @ w + y)\n"
       "    c = concat(reshape(x, (b, s, 24)), reshape(h, (b, s, 24))[:, :, 0:16], dim=2)\n"
       "    u = reshape(c, (b * s, 40)) @ k\n    t = y @ reshape(v, (8, 8))\n    return y, h, z, u, t\n",
       {{"b", 2}, {"s", 5}}},
      // Products read what has several leading dims: of the caller's, and where outputs lie; made by a step, too.
      {"def more(i, s, w):\n    return i < 2\ndef step(i, s, w):\n    return i + 1, tanh(s @ w), w\n"
       "def one(y, k):\n    return y @ k\ndef other(y, k):\n    return y @ k * 0.5\n"
       "def f(x: f32[\"b\", 3, 2, \"m\", 8], k: f32[\"b\", 3, 2, \"m\", 8], w: f32[8, 8], j: i64[2], z: f32[2, 3, 2, "
       "\"m\", 8], "
       "c: f32[1]):\n"
       "    s = exp(x @ transpose(k, 3, 4) * 0.125)\n    y = s @ k\n    o = relu(y @ w)\n"
       "    q = index_put(k, j, z, dim=0)\n    p = q @ w\n"
       "    n, l, v = while_loop(more, step, 0, o, w)\n    t = cond(sum(c) > 0.0, one, other, s, k)\n"
       "    return s, y, o, q, p, l, t\n",
       {{"b", 2}, {"m", 5}}}};
  return programs;
}

}  // namespace codetta::test
