# SPDX-License-Identifier: Apache-2.0
# A batch of products: one factor an item, one bias row an item, and the index of the item.
# bind: factor=tensor[batch,1,1]:f32 bias=tensor[batch,1,N]:T D=out[batch,M,N]:T types=f32,bf16 batch=3
def batched_scale(accum, factor, bias):
    D = accum * factor + bias + batch_index()
    return D
