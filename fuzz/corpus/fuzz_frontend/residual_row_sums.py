# SPDX-License-Identifier: Apache-2.0
# A residual connection, with the sum and the sum of squares of each row for the norm that follows.
# bind: residual=tensor[M,N]:T D=out[M,N]:T row_sums=out[M,1]:f32 row_squares=out[M,1]:f32 types=f32,bf16
def residual_row_sums(accum, residual):
    D = accum + residual
    row_sums = sum(D, dim=-1)
    row_squares = sum_of_squares(D, dim=-1)
    return D, row_sums, row_squares
