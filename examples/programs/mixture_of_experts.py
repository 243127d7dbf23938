# SPDX-License-Identifier: Apache-2.0
# A gated MLP of four experts, of which each row takes the two that its router likes best: their places are those of the
# largest score and of the largest of the rest. Every expert computes all rows, and those not taken count with 0.
def mixture_of_experts(
    x: f32["m", 128],
    router: f32[128, 4],
    w_gate: f32[4, 128, 256],
    w_up: f32[4, 128, 256],
    w_down: f32[4, 256, 128],
):
    scores = x @ router
    expert = arange(4)
    first = min(where(scores >= max(scores, dim=-1), expert, 2**62), dim=-1)
    rest = where(expert == first, -inf, scores)
    second = min(where(rest >= max(rest, dim=-1), expert, 2**62), dim=-1)
    shares = softmax(where((expert == first) | (expert == second), scores, -inf))
    each = (silu(x @ w_gate) * (x @ w_up)) @ w_down * transpose(shares)[:, :, None]
    y = sum(each, dim=0, keepdim=False)
    return y
