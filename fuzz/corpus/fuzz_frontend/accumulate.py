# SPDX-License-Identifier: Apache-2.0
# An operand may be the in-place source of the output: D = C + alpha * product, as BLAS has it.
# bind: C=tensor[M,N]:f32 alpha=scalar:-1.0 D=out[M,N]:f32 types=f32
def accumulate(accum, C, alpha):
    D = C + alpha * accum
    return D
