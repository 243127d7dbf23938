# SPDX-License-Identifier: Apache-2.0
# expect: Argument F is not provided in the kwargs of the EpilogueArguments constructor
# bind: C=tensor[M,N]:T D=out[M,N]:T types=f32
def epilogue(accum, C):
    F = accum + C
    D = relu(F)
    return D, F
