# SPDX-License-Identifier: Apache-2.0
# Rotary position embedding per head: 4 heads of 16 columns; the halves of each head are rotated.
# bind: cosines=tensor[M,1,8]:f32 sines=tensor[M,1,8]:f32 D=out[M,N]:T types=f32,bf16 N=64
def rotary(accum, cosines, sines):
    heads = reshape(accum, (-1, 4, 16))
    x, y = split(heads, 2, dim=-1)
    turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    D = reshape(turned, (-1, 64))
    return D
