// SPDX-License-Identifier: Apache-2.0
// Tensors of a run as functions of the caller's get them (codetta/extern.h).
#pragma once

#include "codetta/extern.h"
#include "codetta/tensor.hpp"

namespace codetta::runtime {

inline CodettaTensor tensor_of(const TensorView& view, uint32_t device) {
  CodettaTensor tensor{};
  tensor.data = view.data();
  tensor.rank = view.rank();
  for (int i = 0; i < view.rank(); ++i) {
    tensor.shape[i] = view.size(i);
    tensor.strides[i] = view.stride(i);
  }
  tensor.dtype = static_cast<int32_t>(view.dtype());
  tensor.device = static_cast<int32_t>(device);
  return tensor;
}

// Gives back what a function of the caller's has allocated, once.
inline void release(CodettaTensor& tensor) {
  if (tensor.release != nullptr) tensor.release(&tensor);
  tensor.release = nullptr;
}

}  // namespace codetta::runtime
