# SPDX-License-Identifier: Apache-2.0
# A decoder block: norm, attention over 8 heads of 32 with rotary embedding, projection and residual, then a gated MLP.
def llama_block(
    x: f32["b", "s", 256],
    attention_weight: f32[256],
    wq: f32[256, 256],
    wk: f32[256, 256],
    wv: f32[256, 256],
    wo: f32[256, 256],
    cosines: f32["s", 16],
    sines: f32["s", 16],
    mlp_weight: f32[256],
    w_gate: f32[256, 768],
    w_up: f32[256, 768],
    w_down: f32[768, 256],
):
    h = rms_norm(x, attention_weight)
    q = rope(permute(reshape(h @ wq, (b, s, 8, 32)), (0, 2, 1, 3)), cosines, sines)
    k = rope(permute(reshape(h @ wk, (b, s, 8, 32)), (0, 2, 1, 3)), cosines, sines)
    v = permute(reshape(h @ wv, (b, s, 8, 32)), (0, 2, 1, 3))
    scores = softmax(q @ transpose(k) * 0.17677669529)
    context = reshape(permute(scores @ v, (0, 2, 1, 3)), (b, s, 256))
    r = x + context @ wo
    n = rms_norm(r, mlp_weight)
    y = r + silu(n @ w_gate) * (n @ w_up) @ w_down
    return y
