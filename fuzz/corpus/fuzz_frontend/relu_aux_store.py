# SPDX-License-Identifier: Apache-2.0
# Scaled product plus twice the source; the value before relu is stored too (for the backward pass).
# bind: C=tensor[M,N]:T alpha=scalar:0.5 D=out[M,N]:T F=out[M,N]:T types=f32,bf16,f16,f64
def relu_aux_store(accum, alpha, C):
    F = (accum * alpha) + (C * 2.0)
    D = relu(F)
    return D, F
