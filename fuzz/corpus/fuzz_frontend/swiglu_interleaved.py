# SPDX-License-Identifier: Apache-2.0
# Gated unit whose weights lie gate, up, gate, up, ...: columns are paired, not halved.
# bind: D=out[M,N/2]:T types=f32,bf16 N=64
def swiglu_interleaved(accum):
    pairs = reshape(accum, (-1, 32, 2))
    gate, up = split(pairs, 2, dim=-1)
    D = reshape(silu(gate) * up, (-1, 32))
    return D
