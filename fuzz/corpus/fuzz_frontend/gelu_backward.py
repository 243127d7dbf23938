# SPDX-License-Identifier: Apache-2.0
# Backward of bias + GELU: the incoming gradient times the derivative, and the gradient of the bias.
# bind: Z=tensor[M,N]:T D=out[M,N]:T bias_gradient=out[N]:f32 types=f32,bf16
def gelu_backward(accum, Z):
    D = accum * dgelu(Z)
    bias_gradient = sum(D, axis="column")
    return D, bias_gradient
