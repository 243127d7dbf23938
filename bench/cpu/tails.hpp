// SPDX-License-Identifier: Apache-2.0
// The loops that follow a peer's product where the peer cannot fuse: vector code, one pass over the data.
#pragma once

#include <cstdint>

namespace codetta::bench {

// F = product * alpha + C * 2, D = relu(F)
void tail_relu_aux(const float* product, const float* C, float alpha, float* D, float* F, int64_t count);
void tail_relu_aux(const float* product, const uint16_t* C, float alpha, uint16_t* D, uint16_t* F, int64_t count);
// D = relu(F)
void tail_relu(const float* F, float* D, int64_t count);
void tail_relu(const uint16_t* F, uint16_t* D, int64_t count);
// D = product + residual; sums and squares of each row of D, or of a D that is there already.
void tail_row_sums(const float* product, const float* residual, float* D, float* sums, float* squares, int64_t m,
                   int64_t n);
void tail_row_sums(const float* product, const uint16_t* residual, uint16_t* D, float* sums, float* squares, int64_t m,
                   int64_t n);
void tail_row_sums_of(const float* D, float* sums, float* squares, int64_t m, int64_t n);
void tail_row_sums_of(const uint16_t* D, float* sums, float* squares, int64_t m, int64_t n);
// D = saturate(product * row * column + bias)
void tail_requantize(const int32_t* product, const float* row, const float* column, const float* bias, int8_t* D,
                     int64_t m, int64_t n);
const char* tail_instructions();

}  // namespace codetta::bench
