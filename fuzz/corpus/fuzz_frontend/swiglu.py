# SPDX-License-Identifier: Apache-2.0
# Gated unit: the left half of the columns gates the right half, so the output is half as wide.
# bind: D=out[M,N/2]:T types=f32,bf16 N=64
def swiglu(accum):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate) * up
    return D
