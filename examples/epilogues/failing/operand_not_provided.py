# SPDX-License-Identifier: Apache-2.0
# expect: Argument alpha is not provided in the kwargs of the EpilogueArguments constructor
# bind: C=tensor[M,N]:T D=out[M,N]:T types=f32
def epilogue(accum, alpha, C):
    D = alpha * accum + C
    return D
