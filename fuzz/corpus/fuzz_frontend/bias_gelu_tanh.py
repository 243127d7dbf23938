# SPDX-License-Identifier: Apache-2.0
# The tanh approximation of GELU, with the value before it kept for the backward pass.
# bind: bias=tensor[1,N]:T D=out[M,N]:T Z=out[M,N]:T types=f32,bf16
def bias_gelu_tanh(accum, bias):
    Z = accum + bias
    D = gelu(Z, approximate="tanh")
    return D, Z
