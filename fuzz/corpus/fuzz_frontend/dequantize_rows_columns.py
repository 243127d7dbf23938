# SPDX-License-Identifier: Apache-2.0
# Integer product to real numbers: a scale a row, a scale a column, a bias.
# bind: row_scale=tensor[M,1]:f32:positive column_scale=tensor[N]:f32:positive bias=tensor[N]:f32 D=out[M,N]:f32 types=i8,u8
def dequantize_rows_columns(accum, row_scale, column_scale, bias):
    D = accum * row_scale * column_scale + bias
    return D
