# SPDX-License-Identifier: Apache-2.0
# The first layer of the digit classifier: 64 pixels to 128 hidden units.
# bind: bias=tensor[N]:f32 D=out[M,N]:f32 types=f32
def hidden(accum, bias):
    D = relu(accum + bias)
    return D
