# SPDX-License-Identifier: Apache-2.0
# The same on one line, as one would pass it on a command line.
# bind: aux=tensor[M,N]:T:positive D=out[M,N]:T types=f32,bf16
def divide_by_aux(accum, aux): D = accum / aux; return D
