// SPDX-License-Identifier: Apache-2.0
// The product on CDNA (gfx90a, gfx942): matrix instructions of waves of 64, 16 x 16 blocks. A step is 64 bytes of K: a
// lane holds 16 bytes of its row, which two instructions (four of f32, and of bytes on gfx90a) take in turn. Both
// factors order K alike, so that the order does not matter.
#pragma once

#include "device/hip/kernels/product.h"
#include "device/hip/matrix.h"
#include "device/hip/mfma_layout.h"

namespace codetta::gpu {

template <class E, int gfx>
struct MfmaMatrix {
  static constexpr int size = (int)sizeof(E);
  static constexpr int lanes = mfma::lanes, accumulators = mfma::accumulators, lane_bytes = 16, step_bytes = 64;
  static constexpr int piece_pad = 4;
  static CODETTA_MEMBER int factor_row(int lane) { return mfma::factor_row(lane); }
  static CODETTA_MEMBER int result_row(int lane, int r) { return mfma::result_row(lane, r, size == 8); }
  static CODETTA_MEMBER int result_col(int lane) { return mfma::result_col(lane); }

  template <class T>
  static CODETTA_MEMBER void stay(Registers<T, 4>& d) {
    stay_accumulators(d);
  }
  template <class T>
  static CODETTA_MEMBER void multiply(Registers<T, 4>& d, const u32 (&a)[4], const u32 (&b)[4]) {
    if constexpr (size == 1 && gfx == 0x90a) {
#pragma unroll
      for (int i = 0; i < 4; ++i) mfma_i32_16x16x16_i8(d, a[i], b[i]);
    } else if constexpr (size == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) mfma_f32_16x16x4_f32(d, bits_to_float(a[i]), bits_to_float(b[i]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const u32 x[2] = {a[i], a[i + 1]}, y[2] = {b[i], b[i + 1]};
        if constexpr (size == 8)
          mfma_f64_16x16x4_f64(d, bits_to_double((u64)x[1] << 32 | x[0]), bits_to_double((u64)y[1] << 32 | y[0]));
        else if constexpr (size == 1)
          mfma_i32_16x16x32_i8(d, x, y);
        else if constexpr (matrix::is_bf16<E>)
          mfma_f32_16x16x16_bf16(d, x, y);
        else
          mfma_f32_16x16x16_f16(d, x, y);
      }
    }
  }
};

template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_mfma(const P& params) {
  matrix::gemm<Config, Epilogue, MfmaMatrix<typename Config::A, Config::gfx>>(params);
}

}  // namespace codetta::gpu
