# SPDX-License-Identifier: Apache-2.0
# expect: accum must be an input to the epilogue function
# bind: C=tensor[M,N]:T D=out[M,N]:T types=f32
def epilogue(acc, C):
    D = acc + C
    return D
