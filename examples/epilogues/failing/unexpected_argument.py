# SPDX-License-Identifier: Apache-2.0
# expect: Unexpected keyword arguments for epilogue: 
# bind: C=tensor[M,N]:T bias=tensor[N]:T D=out[M,N]:T types=f32
def epilogue(accum, C):
    D = accum + C
    return D
