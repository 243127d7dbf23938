// SPDX-License-Identifier: Apache-2.0
// The product on RDNA 3 and 4 (gfx1100, gfx1201): matrix instructions of waves of 32, 16 x 16 blocks, 16 elements of K
// an instruction. On gfx11 both halves of a wave hold all of these, on gfx12 eight each (of bytes 16 bytes, which two
// instructions take one after the other). Both factors order K alike, so that the order does not matter.
#pragma once

#include "device/hip/kernels/product.h"
#include "device/hip/matrix.h"
#include "device/hip/wmma_layout.h"

namespace codetta::gpu {

template <class A, class B, int gfx>
struct WmmaMatrix {
  static constexpr int size = (int)sizeof(A);
  static constexpr bool repeats = wmma::halves_repeat(gfx);
  static constexpr int lanes = wmma::lanes, accumulators = wmma::accumulators;
  static constexpr int lane_bytes = repeats && size == 2 ? 32 : 16, step_bytes = repeats ? lane_bytes : 32;
  static constexpr int piece_pad = 16;
  static CODETTA_MEMBER int factor_row(int lane) { return wmma::factor_row(lane); }
  static CODETTA_MEMBER int result_row(int lane, int r) { return wmma::result_row(gfx, lane, r); }
  static CODETTA_MEMBER int result_col(int lane) { return wmma::result_col(lane); }

  template <class T>
  static CODETTA_MEMBER void stay(Registers<T, 8>&) {}
  template <class T, int words>
  static CODETTA_MEMBER void multiply(Registers<T, 8>& d, const u32 (&a)[words], const u32 (&b)[words]) {
    if constexpr (size == 1) {
      constexpr bool a_signed = is_signed<A>, b_signed = is_signed<B>;
      if constexpr (repeats) {
        wmma_i32_16x16x16_iu8<a_signed, b_signed>(d, a, b);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const u32 x[2] = {a[i], a[i + 1]}, y[2] = {b[i], b[i + 1]};
          wmma_i32_16x16x16_iu8<a_signed, b_signed>(d, x, y);
        }
      }
    } else if constexpr (matrix::is_bf16<A>) {
      wmma_f32_16x16x16_bf16(d, a, b);
    } else {
      wmma_f32_16x16x16_f16(d, a, b);
    }
  }
};

template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_wmma(const P& params) {
  matrix::gemm<Config, Epilogue, WmmaMatrix<typename Config::A, typename Config::B, Config::gfx>>(params);
}

}  // namespace codetta::gpu
