# SPDX-License-Identifier: Apache-2.0
# Scaled store to 8-bit floats, with the largest magnitude for the next scale.
# bind: scale=scalar:4.0 D=out[M,N]:f8e4m3 largest=out[1]:f32 types=f32,bf16
def quantize_fp8_amax(accum, scale):
    largest = amax(accum)
    D = accum * scale
    return D, largest
