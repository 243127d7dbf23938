# SPDX-License-Identifier: Apache-2.0
# The projection of attention written with the head as first dim: [M, 4 * 16] becomes [4, M, 16].
# bind: bias=tensor[N]:T D=out[4,M,16]:T types=f32,bf16 N=64
def heads_first(accum, bias):
    heads = reshape(accum + bias, (-1, 4, 16))
    D = permute(heads, (1, 0, 2))
    return D
