# SPDX-License-Identifier: Apache-2.0
# Two halves put back element by element: the inverse layout change, here after different activations.
# bind: D=out[M,N]:T types=f32,bf16 N=64
def join_interleaved(accum):
    left, right = split(accum, 2, dim=-1)
    D = join(tanh(left), sigmoid(right), dim=-1, interleave=True)
    return D
