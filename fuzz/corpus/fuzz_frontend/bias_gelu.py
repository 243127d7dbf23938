# SPDX-License-Identifier: Apache-2.0
# The usual transformer feed-forward epilogue: a bias a column, then GELU (erf form).
# bind: bias=tensor[N]:T D=out[M,N]:T types=f32,bf16,f16
def bias_gelu(accum, bias):
    D = gelu(accum + bias)
    return D
