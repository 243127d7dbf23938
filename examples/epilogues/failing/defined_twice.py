# SPDX-License-Identifier: Apache-2.0
# expect: Variable 'tmp' cannot be defined twice.
# bind: C=tensor[M,N]:T D=out[M,N]:T types=f32
def epilogue(accum, C):
    tmp = accum + C
    tmp = relu(tmp)
    D = tmp * 2.0
    return D
