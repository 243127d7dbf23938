# SPDX-License-Identifier: Apache-2.0
# An element-wise quotient with a full operand.
# bind: aux=tensor[M,N]:T:positive D=out[M,N]:T types=f32,bf16,f16,f64
def divide_by_aux(accum, aux):
    D = accum / aux
    return D
