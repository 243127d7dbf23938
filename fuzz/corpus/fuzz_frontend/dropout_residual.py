# SPDX-License-Identifier: Apache-2.0
# Dropout whose mask depends on the seed and the element only, then a residual.
# bind: residual=tensor[M,N]:T probability=scalar:0.1 seed=scalar:1234567890123 D=out[M,N]:T types=f32,bf16
def dropout_residual(accum, residual, probability, seed):
    D = residual + dropout(accum, probability, seed)
    return D
