// SPDX-License-Identifier: Apache-2.0
// What host text for any device takes of device/host/engine.h: numbers of 16 and 8 bits, and how tensors lie to each
// other. It needs none of the engine's other files: sources for nvcc carry it with the three that it includes
// (src/driver/build_nvcc.cpp).
#include <cstring>

#include "device/host/engine.h"
#include "types/narrow_float.hpp"
#include "types/overlap.hpp"

namespace codetta::host {
namespace {

template <types::FloatFormat F, class Pattern>
float load_narrow(const void* element) {
  Pattern pattern = 0;
  std::memcpy(&pattern, element, sizeof pattern);
  return static_cast<float>(types::decode_narrow<F>(pattern));
}
template <types::FloatFormat F, class Pattern>
void store_narrow(void* element, float value) {
  const auto pattern = static_cast<Pattern>(types::encode_narrow<F>(static_cast<double>(value)));
  std::memcpy(element, &pattern, sizeof pattern);
}

types::Placed placed(const Extent& e) { return {e.data, e.element_bytes, e.rank, e.sizes, e.strides}; }

constexpr i32 f8e4m3 = 9, f8e5m2 = 10, f16 = 11;  // of DType; the other one that is asked for is bf16

}  // namespace

extern "C" {

bool codetta_engine_overlap(const Extent* a, const Extent* b) { return types::overlaps(placed(*a), placed(*b)); }

bool codetta_engine_overlaps_itself(const Extent* view) { return types::overlaps_itself(placed(*view)); }

float codetta_engine_load(i32 dtype, const void* element) {
  switch (dtype) {
    case f8e4m3:
      return load_narrow<types::format_f8e4m3, std::uint8_t>(element);
    case f8e5m2:
      return load_narrow<types::format_f8e5m2, std::uint8_t>(element);
    case f16:
      return load_narrow<types::format_f16, std::uint16_t>(element);
    default:
      return load_narrow<types::format_bf16, std::uint16_t>(element);
  }
}

void codetta_engine_store(i32 dtype, void* element, float value) {
  switch (dtype) {
    case f8e4m3:
      return store_narrow<types::format_f8e4m3, std::uint8_t>(element, value);
    case f8e5m2:
      return store_narrow<types::format_f8e5m2, std::uint8_t>(element, value);
    case f16:
      return store_narrow<types::format_f16, std::uint16_t>(element, value);
    default:
      return store_narrow<types::format_bf16, std::uint16_t>(element, value);
  }
}

}  // extern "C"

}  // namespace codetta::host
