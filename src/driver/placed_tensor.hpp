// SPDX-License-Identifier: Apache-2.0
// A tensor in memory of its own, where the target has it.
#pragma once

#include <optional>

#include "codetta/device.hpp"
#include "codetta/tensor.hpp"

namespace codetta::driver {

class PlacedTensor {
 public:
  // On `device`, or where that is null in host memory of `allocator`. Errors: E0606, E0643.
  static Result<PlacedTensor> make(DType dtype, const Dims& shape, const Device* device, Allocator& allocator);
  // With these contents. Errors: E0643.
  static Result<PlacedTensor> of(Tensor contents, const Device* device);

  [[nodiscard]] TensorView view() const { return there_ ? there_->view() : host_->view(); }
  // `from`: row-major, of the same shape, in host memory.
  Result<void> write(const TensorView& from) const;
  [[nodiscard]] Result<Tensor> read(Allocator& allocator) const;

 private:
  std::optional<Tensor> host_;
  std::optional<DeviceTensor> there_;
};

}  // namespace codetta::driver
