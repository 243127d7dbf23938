# SPDX-License-Identifier: Apache-2.0
# Piecewise activations side by side.
# bind: a=out[M,N]:f32 b=out[M,N]:f32 c=out[M,N]:f32 d=out[M,N]:f32 e=out[M,N]:f32 f=out[M,N]:f32 types=f32,bf16
def activations(accum):
    a = elu(accum, alpha=0.5)
    b = leaky_relu(accum, negative_slope=0.1)
    c = hardswish(accum) + hardsigmoid(accum)
    d = hardtanh(accum, min_val=-2.0, max_val=2.0) - relu6(accum)
    e = softplus(accum, beta=2.0)
    f = sign(accum) * sqrt(abs(accum)) + log1p(accum * accum)
    return a, b, c, d, e, f
