# SPDX-License-Identifier: Apache-2.0
# The second layer of the digit classifier: 128 hidden units to one score a digit.
# bind: bias=tensor[N]:f32 D=out[M,N]:f32 types=f32
def scores(accum, bias):
    D = accum + bias
    return D
