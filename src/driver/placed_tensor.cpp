// SPDX-License-Identifier: Apache-2.0
#include "driver/placed_tensor.hpp"

#include <cstring>

#include "base/result.hpp"

namespace codetta::driver {
namespace {

void copy_dense(const TensorView& from, const TensorView& to) {
  const auto bytes = static_cast<size_t>(from.element_count() * dtype_size(from.dtype()));
  if (bytes > 0) std::memcpy(to.data(), from.data(), bytes);
}

}  // namespace

Result<PlacedTensor> PlacedTensor::make(DType dtype, const Dims& shape, const Device* device, Allocator& allocator) {
  PlacedTensor made;
  if (device != nullptr) {
    CODETTA_TRY(made.there_, DeviceTensor::make(*device, dtype, shape));
  } else {
    CODETTA_TRY(made.host_, Tensor::make(dtype, shape, allocator));
  }
  return made;
}

Result<PlacedTensor> PlacedTensor::of(Tensor contents, const Device* device) {
  PlacedTensor made;
  if (device != nullptr) {
    CODETTA_TRY(made.there_, DeviceTensor::copy_of(*device, contents.view()));
  } else {
    made.host_ = std::move(contents);
  }
  return made;
}

Result<void> PlacedTensor::write(const TensorView& from) const {
  if (there_) return there_->upload(from);
  copy_dense(from, host_->view());
  return {};
}

Result<Tensor> PlacedTensor::read(Allocator& allocator) const {
  CODETTA_TRY(Tensor copy, Tensor::make(view().dtype(), view().shape(), allocator));
  if (there_) {
    CODETTA_CHECK_OK(there_->download(copy.view()));
  } else {
    copy_dense(host_->view(), copy.view());
  }
  return copy;
}

}  // namespace codetta::driver
