# SPDX-License-Identifier: Apache-2.0
# A whole RMS norm over each row: the reduction is used as a value of the same epilogue.
# bind: weight=tensor[N]:T epsilon=scalar:0.00001 D=out[M,N]:T types=f32,bf16
def weighted_rms_norm(accum, weight, epsilon):
    scale = rsqrt(mean(accum * accum, axis="row") + epsilon)
    D = accum * scale * weight
    return D
