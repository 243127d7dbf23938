# SPDX-License-Identifier: Apache-2.0
# Dequantize, bias, clamp and quantize again: a store to i8 rounds to nearest even and saturates.
# bind: row_scale=tensor[M,1]:f32:tiny column_scale=tensor[N]:f32:tiny bias=tensor[N]:f32 D=out[M,N]:i8 types=i8,u8
def requantize_int8(accum, row_scale, column_scale, bias):
    D = clamp(accum * row_scale * column_scale + bias, min=-128, max=127)
    return D
