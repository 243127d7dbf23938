// SPDX-License-Identifier: Apache-2.0
// Test data from a counter-based generator.
#include "codetta/fill.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/default_floats.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): state advances by an odd constant, outputs are mixed.
struct Generator {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  // Sum of twelve uniforms: close to normal, and bit-equal on every machine, as log and cos are not.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
};

template <class Set>
void for_each_element(const TensorView& view, Set&& set) {
  const int64_t count = view.element_count();
  const int64_t size = dtype_size(view.dtype());
  Dims index = view.shape();
  for (int d = 0; d < view.rank(); ++d) index[d] = 0;
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    set(view.as<std::byte>() + offset * size);
    for (int d = view.rank(); d-- > 0;) {
      offset += view.stride(d);
      if (++index[d] < view.size(d)) break;
      offset -= view.stride(d) * view.size(d);
      index[d] = 0;
    }
  }
}

}  // namespace

void fill_random(const TensorView& view, uint64_t seed, Distribution distribution, double scale) {
  const base::DefaultFloats floats;
  Generator generator{seed * 0xD1342543DE82EF95u + 1};
  const DType dtype = view.dtype();
  for_each_element(view, [&](std::byte* element) {
    if (types::is_bool(dtype)) {
      types::store_i64(element, dtype, static_cast<int64_t>(generator.next() & 1));
    } else if (distribution == Distribution::Integers) {
      const int64_t value = types::is_unsigned(dtype) ? static_cast<int64_t>(generator.next() % 5)
                                                      : static_cast<int64_t>(generator.next() % 9) - 4;
      if (types::is_integer(dtype)) {
        types::store_i64(element, dtype, value);
      } else {
        types::store_f64(element, dtype, static_cast<double>(value) * scale);
      }
    } else if (types::is_integer(dtype)) {
      const int64_t low = std::max<int64_t>(types::min_int(dtype), -1000);
      const auto high = static_cast<int64_t>(std::min<uint64_t>(types::max_int(dtype), 1000));
      types::store_i64(element, dtype,
                       low + static_cast<int64_t>(generator.next() % static_cast<uint64_t>(high - low + 1)));
    } else {
      double value = 0;
      switch (distribution) {
        case Distribution::Normal:
          value = generator.normal();
          break;
        case Distribution::Positive:
          value = std::abs(generator.normal()) + 0.1;
          break;
        case Distribution::Small:
          value = 0.005 + 0.045 * generator.uniform();
          break;
        case Distribution::Integers:  // above
          break;
      }
      types::store_f64(element, dtype, value * scale);
    }
  });
}

void fill_poison(const TensorView& view) {
  const DType dtype = view.dtype();
  for_each_element(view, [&](std::byte* element) {
    if (types::is_float(dtype)) {
      types::store_f64(element, dtype, std::numeric_limits<double>::quiet_NaN());
    } else if (types::is_bool(dtype)) {
      *element = std::byte{1};
    } else {
      std::memset(element, 0xA5, static_cast<size_t>(dtype_size(dtype)));
    }
  });
}

}  // namespace codetta
