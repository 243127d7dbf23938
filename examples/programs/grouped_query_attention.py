# SPDX-License-Identifier: Apache-2.0
# Attention in which 4 heads of queries share one of keys and values (8 and 2 heads of 32), with a residual. The queries
# of a group are rows of one product with the group's keys, so that nothing is repeated.
def grouped_query_attention(
    x: f32["b", "s", 256],
    wq: f32[256, 256],
    wk: f32[256, 64],
    wv: f32[256, 64],
    wo: f32[256, 256],
    cosines: f32["s", 1, 16],
    sines: f32["s", 1, 16],
):
    q = rope(reshape(x @ wq, (b, s, 8, 32)), cosines, sines)
    k = rope(reshape(x @ wk, (b, s, 2, 32)), cosines, sines)
    v = reshape(x @ wv, (b, s, 2, 32))
    groups = reshape(permute(reshape(q, (b, s, 2, 4, 32)), (0, 2, 1, 3, 4)), (b, 2, s * 4, 32))
    scores = softmax(groups @ permute(k, (0, 2, 3, 1)) * 0.17677669529)
    context = reshape(scores @ permute(v, (0, 2, 1, 3)), (b, 2, s, 4, 32))
    y = x + reshape(permute(context, (0, 2, 1, 3, 4)), (b, s, 256)) @ wo
    return y
