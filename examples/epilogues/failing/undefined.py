# SPDX-License-Identifier: Apache-2.0
# expect: Variable 'x' is undefined.
# bind: D=out[M,N]:T types=f32
def epilogue(accum):
    D = relu(x)
    return D
