# SPDX-License-Identifier: Apache-2.0
# Integers stay integers: floor division and remainder as in Python.
# bind: D=out[M,N]:i32 low=out[M,N]:u8 types=i8,u8
def integer_shift(accum):
    D = (accum + 8) // 16
    low = (accum + 8) % 16
    return D, low
