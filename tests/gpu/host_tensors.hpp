// SPDX-License-Identifier: Apache-2.0
// Host memory of a test's tensors: row-major, at any alignment, with bytes around them that nothing may write.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "base/result.hpp"
#include "gpu/gpu.hpp"

namespace codetta::gpu {

// The same elements with the last two dims exchanged.
inline TensorView transposed(const TensorView& view) {
  const int rank = view.rank();
  Dims shape = view.shape(), strides = view.strides();
  std::swap(shape[rank - 1], shape[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return TensorView::make(view.data(), view.dtype(), shape, strides).value();
}

class HostTensors {
 public:
  // `offset` elements behind an address that is a multiple of 256; rows `padding` elements apart.
  Result<TensorView> add(DType dtype, const Dims& shape, int64_t offset = 0, int64_t padding = 0) {
    Dims strides = shape;
    int64_t next = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      strides[d] = next;
      next = next * std::max<int64_t>(shape[d], 1) + (d == shape.rank() - 1 ? padding : 0);
    }
    const auto size = static_cast<size_t>(dtype_size(dtype));
    std::vector<unsigned char>& bytes = memory_.emplace_back();
    const auto elements = static_cast<size_t>(next + offset);
    bytes.assign(elements * size + 512, untouched);
    const size_t first = (256 - reinterpret_cast<uintptr_t>(bytes.data()) % 256) % 256;
    unsigned char* const at = bytes.data() + first + static_cast<size_t>(offset) * size;
    CODETTA_TRY(const TensorView view, TensorView::make(static_cast<void*>(at), dtype, shape, strides));
    blocks_.push_back({bytes.data(), bytes.size()});
    views_.push_back(view);
    return view;
  }
  [[nodiscard]] const std::vector<HostBlock>& blocks() const { return blocks_; }
  // Whether the bytes that belong to no element are as they were.
  [[nodiscard]] bool surroundings_kept() const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      std::vector<unsigned char> bytes(blocks_[i].data, blocks_[i].data + blocks_[i].bytes);
      const TensorView& view = views_[i];
      const auto base = static_cast<unsigned char*>(view.data()) - blocks_[i].data;
      const int64_t size = dtype_size(view.dtype());
      for (int64_t e = 0; e < view.element_count(); ++e) {
        int64_t rest = e, at = 0;
        for (int d = view.rank() - 1; d >= 0; --d) {
          at += rest % view.size(d) * view.stride(d);
          rest /= view.size(d);
        }
        std::fill_n(bytes.begin() + (base + at * size), size, untouched);
      }
      if (!std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == untouched; })) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char untouched = 0xC7;
  std::deque<std::vector<unsigned char>> memory_;
  std::vector<HostBlock> blocks_;
  std::vector<TensorView> views_;
};

}  // namespace codetta::gpu
