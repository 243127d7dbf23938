# SPDX-License-Identifier: Apache-2.0
# A gated layer whose weights are bytes with a scale for each output: they are widened where the products read them,
# and both products are one kernel.
def weight_only_int8(
    x: f32["m", 256],
    gate: i8[768, 256],
    gate_scale: f32[768, 1],
    up: i8[768, 256],
    up_scale: f32[768, 1],
    down: i8[256, 768],
    down_scale: f32[256, 1],
):
    g = x @ transpose(cast(gate, f32) * gate_scale)
    u = x @ transpose(cast(up, f32) * up_scale)
    y = x + (silu(g) * u) @ transpose(cast(down, f32) * down_scale)
    return y
