# SPDX-License-Identifier: Apache-2.0
# Three outputs, one of them the raw accumulator in its own type.
# bind: alpha=scalar:0.75 C=tensor[M,N]:T beta=scalar:-1.25 scale=tensor[N]:f32 D=out[M,N]:T F=out[M,N]:T accum=out[M,N]:acc types=f32,bf16,f16
def relu_scale_accum(accum, alpha, C, beta, scale):
    F = relu((accum * alpha) + (C * beta))
    D = F * scale
    return D, F, accum
