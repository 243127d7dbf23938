# SPDX-License-Identifier: Apache-2.0
# Attention scores: columns after the row are masked; the row maximum is what an online softmax needs.
# bind: scale=scalar:0.125 D=out[M,N]:T row_max=out[M,1]:f32 types=f32,bf16
def causal_mask(accum, scale):
    visible = col_index() <= row_index()
    D = where(visible, accum * scale, -30000.0)
    row_max = max(D, axis="row")
    return D, row_max
