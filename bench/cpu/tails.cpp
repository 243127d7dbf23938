// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/tails.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace codetta::bench {
namespace {

inline float widen(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
inline uint16_t narrow(float value) {  // to nearest even
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Sixteen partial sums, so that the compiler may use vectors without reordering what the text says.
struct RowSums {
  float sum[16] = {}, square[16] = {};
  void add(int64_t lane, float v) {
    sum[lane] += v;
    square[lane] += v * v;
  }
  void finish(float* sums, float* squares) const {
    float s = 0, q = 0;
    for (int i = 0; i < 16; ++i) {
      s += sum[i];
      q += square[i];
    }
    *sums = s;
    *squares = q;
  }
};

inline float widen(float value) { return value; }
inline void put(float& to, float value) { to = value; }
inline void put(uint16_t& to, float value) { to = narrow(value); }

template <class T>
void row_sums(const float* product, const T* residual, T* D, float* sums, float* squares, int64_t m, int64_t n) {
  for (int64_t r = 0; r < m; ++r) {
    RowSums row;
    const float* __restrict p = product + r * n;
    const T* __restrict c = residual + r * n;
    T* __restrict d = D + r * n;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int64_t j = 0; j < 16; ++j) {
        const float v = p[i + j] + widen(c[i + j]);
        put(d[i + j], v);
        row.add(j, v);
      }
    }
    for (; i < n; ++i) {
      const float v = p[i] + widen(c[i]);
      put(d[i], v);
      row.add(0, v);
    }
    row.finish(sums + r, squares + r);
  }
}
template <class T>
void row_sums_of(const T* D, float* sums, float* squares, int64_t m, int64_t n) {
  for (int64_t r = 0; r < m; ++r) {
    RowSums row;
    const T* d = D + r * n;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int64_t j = 0; j < 16; ++j) row.add(j, widen(d[i + j]));
    }
    for (; i < n; ++i) row.add(0, widen(d[i]));
    row.finish(sums + r, squares + r);
  }
}

}  // namespace

void tail_relu_aux(const float* __restrict product, const float* __restrict C, float alpha, float* __restrict D,
                   float* __restrict F, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float f = product[i] * alpha + C[i] * 2.0f;
    F[i] = f;
    D[i] = f > 0 ? f : 0;
  }
}
void tail_relu_aux(const float* __restrict product, const uint16_t* __restrict C, float alpha, uint16_t* __restrict D,
                   uint16_t* __restrict F, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float f = product[i] * alpha + widen(C[i]) * 2.0f;
    F[i] = narrow(f);
    D[i] = narrow(f > 0 ? f : 0);
  }
}
void tail_relu(const float* __restrict F, float* __restrict D, int64_t count) {
  for (int64_t i = 0; i < count; ++i) D[i] = F[i] > 0 ? F[i] : 0;
}
void tail_relu(const uint16_t* __restrict F, uint16_t* __restrict D, int64_t count) {
  for (int64_t i = 0; i < count; ++i) D[i] = F[i] & 0x8000 ? uint16_t{0} : F[i];
}
void tail_row_sums(const float* product, const float* residual, float* D, float* sums, float* squares, int64_t m,
                   int64_t n) {
  row_sums(product, residual, D, sums, squares, m, n);
}
void tail_row_sums(const float* product, const uint16_t* residual, uint16_t* D, float* sums, float* squares, int64_t m,
                   int64_t n) {
  row_sums(product, residual, D, sums, squares, m, n);
}
void tail_row_sums_of(const float* D, float* sums, float* squares, int64_t m, int64_t n) {
  row_sums_of(D, sums, squares, m, n);
}
void tail_row_sums_of(const uint16_t* D, float* sums, float* squares, int64_t m, int64_t n) {
  row_sums_of(D, sums, squares, m, n);
}
void tail_requantize(const int32_t* product, const float* row, const float* column, const float* bias, int8_t* D,
                     int64_t m, int64_t n) {
  for (int64_t r = 0; r < m; ++r) {
    const int32_t* __restrict p = product + r * n;
    int8_t* __restrict d = D + r * n;
    const float scale = row[r];
    for (int64_t i = 0; i < n; ++i) {
      float v = static_cast<float>(p[i]) * scale * column[i] + bias[i];
      v = v < -128.0f ? -128.0f : v;
      v = v > 127.0f ? 127.0f : v;
      d[i] = static_cast<int8_t>(__builtin_rintf(v));
    }
  }
}
const char* tail_instructions() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#else
  return "the baseline";
#endif
}

}  // namespace codetta::bench
