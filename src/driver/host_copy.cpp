// SPDX-License-Identifier: Apache-2.0
// Byte ranges of views copied between host and device.
#include "driver/host_copy.hpp"

#include <cstring>

namespace codetta::driver {

Result<TensorView> HostCopies::copy(const TensorView& view) {
  const Range range = view.byte_range();
  const auto bytes = static_cast<size_t>(range.second - range.first);
  auto at = copies_.find(range);
  if (at == copies_.end()) {
    CODETTA_TRY(Tensor made, Tensor::make(DType::u8, {static_cast<int64_t>(bytes)}));
    if (device_ != nullptr) {
      CODETTA_CHECK_OK(device_->download(made.data(), reinterpret_cast<uintptr_t>(range.first), bytes, nullptr));
      CODETTA_CHECK_OK(device_->synchronize(nullptr));
    } else if (bytes != 0) {
      std::memcpy(made.data(), range.first, bytes);
    }
    at = copies_.emplace(range, std::move(made)).first;
  }
  std::byte* const begin = static_cast<std::byte*>(at->second.data());
  return TensorView::make(static_cast<void*>(begin + (view.as<const std::byte>() - range.first)), view.dtype(),
                          view.shape(), view.strides());
}

Result<void> HostCopies::restore() const {
  for (const auto& [range, copy] : copies_) {
    const auto bytes = static_cast<size_t>(range.second - range.first);
    if (device_ != nullptr) {
      CODETTA_CHECK_OK(device_->upload(reinterpret_cast<uintptr_t>(range.first), copy.data(), bytes, nullptr));
    } else if (bytes != 0) {
      std::memcpy(const_cast<std::byte*>(range.first), copy.data(), bytes);
    }
  }
  return device_ != nullptr ? device_->synchronize(nullptr) : Result<void>();
}

}  // namespace codetta::driver
