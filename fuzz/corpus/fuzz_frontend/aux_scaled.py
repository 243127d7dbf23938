# SPDX-License-Identifier: Apache-2.0
# A linear combination with the source, stored as it is and scaled.
# bind: alpha=scalar:1.5 beta=scalar:0.5 C=tensor[M,N]:T extra_scalar=scalar:0.25 D=out[M,N]:T Aux=out[M,N]:T types=f32,bf16,f16
def aux_scaled(accum, alpha, beta, C, extra_scalar):
    Aux = (alpha * accum) + (beta * C)
    D = extra_scalar * Aux
    return D, Aux
