// SPDX-License-Identifier: Apache-2.0
// Contents of tensors wherever they lie: views of device memory read into host memory, and back.
#pragma once

#include <map>
#include <utility>

#include "codetta/tensor.hpp"
#include "runtime/cuda/device.hpp"

namespace codetta::driver {

// Copies of views in host memory, with the same shapes and strides. Views of the same bytes share a copy, so that what
// was one tensor stays one.
class HostCopies {
 public:
  // `device` null: the views lie in host memory. The device outlives this object.
  explicit HostCopies(const runtime::cuda::Device* device) : device_(device) {}
  // The view over a copy; the first call for these bytes reads them, and waits for the default stream only: the caller
  // has waited for the work that writes them. Errors: E0606, E0644, E0647.
  Result<TensorView> copy(const TensorView& view);
  // Writes all copies back where they came from, and waits. Errors: E0644, E0647.
  Result<void> restore() const;

 private:
  using Range = std::pair<const std::byte*, const std::byte*>;
  const runtime::cuda::Device* device_;
  std::map<Range, Tensor> copies_;
};

}  // namespace codetta::driver
