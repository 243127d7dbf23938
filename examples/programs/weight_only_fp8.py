# SPDX-License-Identifier: Apache-2.0
# A gated layer whose weights are 8-bit floats with a scale for each output: they are widened where the products read
# them.
def weight_only_fp8(
    x: f32["m", 256],
    gate: f8e4m3[768, 256],
    gate_scale: f32[768, 1],
    up: f8e4m3[768, 256],
    up_scale: f32[768, 1],
    down: f8e5m2[256, 768],
    down_scale: f32[256, 1],
):
    g = x @ transpose(cast(gate, f32) * gate_scale)
    u = x @ transpose(cast(up, f32) * up_scale)
    y = x + (silu(g) * u) @ transpose(cast(down, f32) * down_scale)
    return y
