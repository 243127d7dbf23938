# SPDX-License-Identifier: Apache-2.0
# Reductions only: nothing of the product itself is written.
# bind: total=out[1,1]:f32 smallest=out[N]:f32 largest=out[1,N]:f32 average=out[M,1]:f32 energy=out[]:f32 types=f32,bf16
def statistics(accum):
    total = sum(accum)
    smallest = min(accum, axis="column")
    largest = max(accum, dim=-2)
    average = mean(accum, dim=-1)
    energy = sum_of_squares(accum, axis="all")
    return total, smallest, largest, average, energy
