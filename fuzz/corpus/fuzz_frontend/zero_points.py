# SPDX-License-Identifier: Apache-2.0
# The corrections of an asymmetric quantization, in exact integers.
# bind: a_zero=scalar:3 b_column_sums=tensor[N]:i32 bias=tensor[N]:i32 D=out[M,N]:i32 positive=out[M,N]:bool types=u8,i8
def zero_points(accum, a_zero, b_column_sums, bias):
    D = accum - a_zero * b_column_sums + bias
    positive = D > 0
    return D, positive
